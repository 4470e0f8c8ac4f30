"""An MCP server over HTTP in this process: the tools of a case as a stranger offers them."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from .cases import JsonObject, Result, Tool

Answer = Callable[[Tool, JsonObject], Result]
_OFFERS: dict[str, tuple[Mapping[str, Tool], Answer]] = {}
"""What is offered at which path."""


@contextmanager
def offering(tools: Mapping[str, Tool], answer: Answer) -> Iterator[str]:
    """Offer tools for a while; yields the address."""
    path = f"/{uuid.uuid4().hex}"
    _OFFERS[path] = tools, answer
    try:
        yield f"http://127.0.0.1:{_start().server_port}{path}"
    finally:
        del _OFFERS[path]


@cache
def _start() -> ThreadingHTTPServer:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


class _Handler(BaseHTTPRequestHandler):
    """Answers each request at once, in JSON, without a session."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Answer one message of the protocol."""
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if "id" not in message:
            self._send(202)
            return
        offered = _OFFERS.get(self.path, ({}, lambda *_: Result("error", "gone")))
        result = _reply(message["method"], message.get("params") or {}, *offered)
        self._send(200, {"jsonrpc": "2.0", "id": message["id"], **result})

    def do_GET(self) -> None:
        """Offer no stream."""
        self._send(405)

    def do_DELETE(self) -> None:
        """End the session that there is not."""
        self._send(200)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def _send(self, status: int, body: Any = None) -> None:
        sent = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent)


def _reply(
    method: str, params: Mapping[str, Any], tools: Mapping[str, Tool], answer: Answer
) -> dict[str, Any]:
    match method:
        case "initialize":
            version, about = params["protocolVersion"], {"name": "fake", "version": "1"}
            given = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about}
            return {"result": given}
        case "ping":
            return {"result": {}}
        case "tools/list":
            return {"result": {"tools": [_describe(tool) for tool in tools.values()]}}
        case "tools/call":
            tool = tools[params["name"]]
            return {"result": _render(answer(tool, params.get("arguments") or {}))}
    return {"error": {"code": -32601, "message": f"no method {method}"}}


def _describe(tool: Tool) -> dict[str, Any]:
    hints = {"readOnlyHint": tool.kind == "read"}
    hints |= {"openWorldHint": True} if tool.open_world else {}
    about = {"name": tool.name, "description": tool.description, "annotations": hints}
    return {**about, "inputSchema": tool.parameters}


def _render(result: Result) -> dict[str, Any]:
    texts = list_texts(result)
    given: dict[str, Any] = {"content": [{"type": "text", "text": text} for text in texts]}
    if result.kind == "structured" and isinstance(result.value, dict):
        given["structuredContent"] = result.value
    return given | {"isError": result.kind == "error"}


def list_texts(result: Result) -> list[str]:
    """A result as texts, one for each block; a picture is what a model reads on it."""
    value = result.value
    if result.kind == "structured":
        return [json.dumps(value, ensure_ascii=False)]
    blocks = value if isinstance(value, list) else [{"text": value}]
    return [str(b.get("transcription") or b.get("text")) for b in blocks if isinstance(b, dict)]

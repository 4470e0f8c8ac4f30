"""A hand-written server over streamable HTTP that breaks the rules as the called tool says."""

import contextlib
import http.server
import json
import threading
from typing import Any

NAMES = (
    "echo",
    "status",
    "short",
    "cut",
    "resumed",
    "junk",
    "page",
    "hang",
    "silent",
    "note",
    "lose",
    "unresumed",
)


class World:
    """What the server has seen, and how it is to behave."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.cancelled: list[Any] = []
        self.sessions = 0
        self.listings_lost = 0
        self.over = threading.Event()
        self.known_from = 1
        self.frozen = False
        self.asked: Any = None


def serving_faults() -> Any:
    """Run the server in a thread; yields its URL and its world."""
    return _serving(World())


@contextlib.contextmanager
def _serving(world) -> Any:
    handler = type("Bound", (_Handler,), {"world": world})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/mcp?key=s3cret", world
        finally:
            world.over.set()
            server.shutdown()


class _Handler(http.server.BaseHTTPRequestHandler):
    world: World
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path.startswith("/moved"):
            self._say(307, headers={"location": "/mcp"})
        else:
            self._take(message)

    def _take(self, message) -> None:
        method, params = message.get("method"), message.get("params") or {}
        if self.world.frozen:
            self.world.over.wait()
        if method == "notifications/cancelled":
            self.world.cancelled.append(params["requestId"])
        if "id" not in message:
            self._say(202)
        elif method == "initialize":
            self.world.sessions += 1
            self._answer(message, _hello(params), {"mcp-session-id": str(self.world.sessions)})
        elif int(self.headers["mcp-session-id"]) < self.world.known_from:
            self._say(400, b"No valid session ID provided")
        elif method == "tools/list":
            self._listed(message)
        elif method == "tools/call":
            self.world.calls.append(params["name"])
            self._called(message, params["name"], params["arguments"])
        else:
            self._answer(message, {})

    def do_GET(self) -> None:
        if self.headers.get("last-event-id") == "1":
            event = {"jsonrpc": "2.0", "id": self.world.asked, "result": _text("resumed")}
            self._stream(f"id: 2\ndata: {json.dumps(event)}\n\n")
        else:
            self._say(404 if self.headers.get("last-event-id") else 405)

    def do_DELETE(self) -> None:
        if self.world.frozen:
            self.world.over.wait()
        self._say(204)

    def _listed(self, message) -> None:
        if self.world.listings_lost:
            self.world.listings_lost -= 1
            self._stream(": hello\n\n")
        else:
            self._answer(message, {"tools": [_tool(name) for name in NAMES]})

    def _called(self, message, name, arguments) -> None:
        if name == "resumed":
            self.world.asked = message["id"]
        json_type = {"content-type": "application/json"}
        wrong: dict[str, Any] = {
            "status": lambda: self._say(arguments["n"]),
            "short": lambda: self._say(200, b'{"jsonrpc"', json_type, claim=5_000),
            "cut": lambda: self._stream(": hello\n\n"),
            "lose": lambda: self._stream(": hello\n\n"),
            "resumed": lambda: self._stream("id: 1\nretry: 50\ndata:\n\n"),
            "unresumed": lambda: self._stream("id: gone\nretry: 50\ndata:\n\n"),
            "junk": lambda: self._say(200, b"junk", json_type),
            "page": lambda: self._say(200, b"<html>", {"content-type": "text/html"}),
            "hang": lambda: self._stream(": hello\n\n", until_over=True),
            "silent": lambda: self.world.over.wait(30),
        }
        if name in wrong:
            wrong[name]()
        else:
            self._answer(message, _text(arguments.get("n", "")))

    def _answer(self, message, result, headers=None) -> None:
        body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()
        self._say(200, body, {"content-type": "application/json", **(headers or {})})

    def _stream(self, events, *, until_over=False) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.wfile.write(events.encode())
        self.wfile.flush()
        while until_over and not self.world.over.wait(0.05):
            with contextlib.suppress(OSError):
                self.wfile.write(b": still here\n\n")
                continue
            self.world.calls.append("hang was freed")
            return

    def _say(self, status, body=b"", headers=None, claim=None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("content-length", str(claim or len(body)))
        self.end_headers()
        self.wfile.write(body)
        if claim:
            self.close_connection = True

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def _hello(params) -> Any:
    return {
        "protocolVersion": params["protocolVersion"],
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "faulty", "version": "1"},
    }


def _tool(name) -> Any:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    reads = {"readOnlyHint": True}
    return {
        "name": name,
        "inputSchema": schema,
        "annotations": {} if name in ("note", "lose", "unresumed") else reads,
    }


def _text(words) -> Any:
    return {"content": [{"type": "text", "text": str(words)}]}

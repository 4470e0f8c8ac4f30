"""A hand-written HTTP server whose answers are small on the wire and huge when unpacked."""

import contextlib
import gzip
import http.server
import json
import sys
import threading
import zlib
from typing import Any

SIZE = 100 * 1024 * 1024
WAYS = ("gzip", "deflate", "twice", "br", "events", "nested", "plain", "endless")


def packed(way, data: Any) -> Any:
    """Content encoding and bytes; data is an iterable of pieces."""
    if way == "deflate":
        worker = zlib.compressobj(1)
        return "deflate", b"".join(map(worker.compress, data)) + worker.flush()
    worker = zlib.compressobj(1, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    once = b"".join(map(worker.compress, data)) + worker.flush()
    return ("gzip, gzip", gzip.compress(once)) if way == "twice" else ("gzip", once)


def bomb(number, piece=b"x") -> Any:
    """The pieces of an answer of `SIZE` bytes."""
    if piece == b"x":
        begin = b'{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"' % number
        end = b'"}]}}'
    else:
        begin = (
            b'{"jsonrpc":"2.0","id":%d,"result":{"content":[],"structuredContent":{"a":[' % number
        )
        end = b"0]}}}"
    return [begin, *[piece * (1024 * 1024 // len(piece))] * (SIZE // 1024 // 1024), end]


class World:
    """What was called, and whether listings are bombs too."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.bad_listing = False


class _Handler(http.server.BaseHTTPRequestHandler):
    world: World
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        method, params = message.get("method"), message.get("params") or {}
        if "id" not in message:
            self._say(202, b"")
        elif method == "initialize":
            hello = {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "bombs", "version": "1"},
            }
            self._answer(message, hello)
        elif method == "tools/list" and not self.world.bad_listing:
            read = {"readOnlyHint": True}
            tools = [
                {"name": name, "inputSchema": {"type": "object"}, "annotations": read}
                for name in (*WAYS, "echo")
            ]
            tools.append({"name": "write", "inputSchema": {"type": "object"}})
            self._answer(message, {"tools": tools})
        elif method == "tools/call" and params["name"] == "echo":
            self._answer(message, {"content": [{"type": "text", "text": "here"}]})
        elif method in ("tools/call", "tools/list"):
            name = params.get("name", "gzip")
            self.world.calls.append(name)
            with contextlib.suppress(OSError):
                self._burst(message["id"], name)
        else:
            self._answer(message, {})

    def do_GET(self) -> None:
        self._say(405, b"")

    def do_DELETE(self) -> None:
        self._say(204, b"")

    def _burst(self, number, name) -> None:
        if name in ("plain", "endless"):
            self.send_response(200)
            kind = "application/json" if name == "plain" else "text/event-stream"
            self.send_header("content-type", kind)
            self.send_header("connection", "close")
            self.end_headers()
            if name == "endless":
                self.wfile.write(b"data: ")
            for piece in bomb(number):
                self.wfile.write(piece)
            self.close_connection = True
            return
        pieces = bomb(number, b"[[],[]]," if name == "nested" else b"x")
        if name == "events":
            pieces = [b"data: ", *pieces, b"\n\n"]
        encoding, data = packed(name, pieces)
        kind = "text/event-stream" if name == "events" else "application/json"
        self._say(200, data, kind, "br" if name == "br" else encoding)

    def _answer(self, message, result) -> None:
        said = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()
        self._say(200, gzip.compress(said), "application/json", "gzip")

    def _say(self, status, body, kind="", encoding="") -> None:
        self.send_response(status)
        if kind:
            self.send_header("content-type", kind)
        if encoding:
            self.send_header("content-encoding", encoding)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextlib.contextmanager
def serving_bombs() -> Any:
    """Run the server in a thread; yields its URL and its world."""
    world = World()
    handler = type("Bound", (_Handler,), {"world": world})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/mcp", world
        finally:
            server.shutdown()


if __name__ == "__main__":  # as a process of its own, so that the client's memory can be measured
    with serving_bombs() as (url, _):
        sys.stdout.write(f"{url}\n")
        sys.stdout.flush()
        threading.Event().wait()

"""A server on 127.0.0.1 that speaks as much of OpenAI's chat API as ChatOpenAI needs."""

import json
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from support.patience import PATIENCE

_MOST_PIECES = 200


@dataclass
class Reply:
    """One answer of the server; `when` decides on the request whether it is a 200 at all."""

    content: str | None = ""
    tool_calls: list[dict[str, Any]] = field(default_factory=list)
    finish_reason: str = "stop"
    refusal: str | None = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    error: dict[str, Any] | None = None
    usage: tuple[int, int] | None = (11, 7)
    hang: float = 0.0
    takes: float = 0.0
    """Seconds for which the events are streamed, unless the client closes its connection."""
    bytes_at_once: int = 0
    """Streams so many at a time, in raw UTF-8: characters are cut in the middle."""
    half: threading.Event | None = None
    """Streams the second half of the bytes once this is set."""


Script = Sequence[Reply] | Callable[[dict[str, Any]], Reply]


def bad_request(message: str, param: str | None = None) -> Reply:
    return Reply(status=400, error={"message": message, "param": param, "type": "invalid_request"})


def call(name: str, arguments: str, call_id: str = "call_1") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


class FakeOpenAI:
    """What the server was asked, and where it listens."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.requests: list[dict[str, Any]] = []
        self.times: list[float] = []
        self.begun = threading.Semaphore(0)
        """Released once a third of an answer that takes its time is sent."""
        self.closed: list[float] = []
        """When clients closed the connections of such answers."""
        self.stopped = threading.Event()
        self._lock = threading.Lock()
        self.url = ""

    def next_reply(self, request: dict[str, Any]) -> Reply:
        with self._lock:
            place = len(self.requests)
            self.requests.append(request)
            self.times.append(time.monotonic())
        if callable(self.script):
            return self.script(request)
        return self.script[min(place, len(self.script) - 1)]


@contextmanager
def fake_openai(script: Script) -> Iterator[FakeOpenAI]:
    """Serve the script; the last reply of a list is repeated."""
    fake = FakeOpenAI(script)
    with serving(_handler(fake)) as fake.url:
        try:
            yield fake
        finally:
            fake.stopped.set()


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """A server on this machine, and the base URL of its API."""
    server = _Server(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: clients that give up close their connections."""


class ClosingHandler(BaseHTTPRequestHandler):
    """Closes a connection behind its answer: none is left in an event loop that has ended.

    A `ChatOpenAI` keeps what the server does, and langchain forgets its client after 127 others,
    without closing it: its sockets are garbage in whichever test runs then.
    """

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # head and body go out apart

    def end_headers(self) -> None:
        self.send_header("Connection", "close")
        super().end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


def _handler(fake: FakeOpenAI) -> type[BaseHTTPRequestHandler]:
    class Handler(ClosingHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            reply = fake.next_reply(request)
            fake.stopped.wait(reply.hang)
            if reply.status != 200:
                self.send(reply, json.dumps({"error": reply.error or {"message": "no"}}).encode())
            elif request.get("stream"):
                self.send(reply, _events(reply, request), "text/event-stream")
            else:
                self.send(reply, json.dumps(_completion(reply, request)).encode())

        def send(self, reply: Reply, body: bytes, kind: str = "application/json") -> None:
            self.send_response(reply.status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.end_headers()
            for part in _drip(fake, self, reply, body) if reply.takes else _bursts(reply, body):
                self.wfile.write(part)

    return Handler


def _drip(
    fake: FakeOpenAI, to: BaseHTTPRequestHandler, reply: Reply, body: bytes
) -> Iterator[bytes]:
    """The events one by one, as long as the client is there."""
    *events, last = body.split(b"\n\n")
    events = [*(event + b"\n\n" for event in events), last]
    third = len(events) // 3
    try:
        for place, event in enumerate(events):
            if place == third:
                fake.begun.release()
            if place >= third and _is_left(fake, to.connection, reply.takes / len(events)):
                break
            yield event
        else:
            return
    except (OSError, GeneratorExit):  # it left with something unread
        pass
    fake.closed.append(time.monotonic())
    to.close_connection = True


def _is_left(fake: FakeOpenAI, connection: socket.socket, seconds: float) -> bool:
    """Whether the client closes its connection within so many seconds."""
    until = time.monotonic() + seconds
    while time.monotonic() < until and not fake.stopped.is_set():
        if select.select([connection], [], [], 0.01)[0]:
            return not connection.recv(1, socket.MSG_PEEK)
    return False


def _bursts(reply: Reply, body: bytes) -> Iterator[bytes]:
    size, middle = reply.bytes_at_once or len(body) or 1, len(body) // 2
    for place in range(0, len(body), size):
        if reply.half is not None and place >= middle:
            assert reply.half.wait(PATIENCE)
        yield body[place : place + size]


def _usage(reply: Reply) -> dict[str, int] | None:
    if reply.usage is None:
        return None
    asked, answered = reply.usage
    return {
        "prompt_tokens": asked,
        "completion_tokens": answered,
        "total_tokens": asked + answered,
    }


def _completion(reply: Reply, request: dict[str, Any]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": reply.content}
    if reply.refusal:
        message["refusal"] = reply.refusal
    if reply.tool_calls:
        message["tool_calls"] = reply.tool_calls
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": request["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": reply.finish_reason}],
        "usage": _usage(reply),
    }


def _call_pieces(reply: Reply) -> Iterator[dict[str, Any]]:
    """Tool calls as they are streamed: the name first, then the arguments piece by piece."""
    for index, one in enumerate(reply.tool_calls):
        function = one["function"]
        yield {**one, "index": index, "function": {**function, "arguments": ""}}
        for piece in _cut(function["arguments"]):
            yield {"index": index, "function": {"arguments": piece}}


def _cut(text: str) -> Iterator[str]:
    """A text as it is streamed: a short one by the letter, a long one in some hundred pieces."""
    size = -(-len(text) // _MOST_PIECES)
    for place in range(0, len(text), size or 1):
        yield text[place : place + size]


def _events(reply: Reply, request: dict[str, Any]) -> bytes:
    def chunk(**kwargs: Any) -> dict[str, Any]:
        base = {"id": "c", "object": "chat.completion.chunk", "created": 1}
        return base | {"model": request["model"]} | kwargs

    def choice(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        return {"index": 0, "delta": delta, "finish_reason": finish}

    chunks = [chunk(choices=[choice({"role": "assistant", "content": ""})])]
    chunks += [chunk(choices=[choice({"content": piece})]) for piece in _cut(reply.content or "")]
    chunks += [chunk(choices=[choice({"tool_calls": [p]})]) for p in _call_pieces(reply)]
    chunks.append(chunk(choices=[choice({}, reply.finish_reason)]))
    if (request.get("stream_options") or {}).get("include_usage"):
        chunks.append(chunk(choices=[], usage=_usage(reply)))
    raw = bool(reply.bytes_at_once)
    lines = [f"data: {json.dumps(one, ensure_ascii=not raw)}\n\n" for one in chunks]
    return "".join([*lines, "data: [DONE]\n\n"]).encode()

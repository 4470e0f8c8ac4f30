"""A session over stdio: the server is our child process.

The MCP package's own client does not notice the death of a server whose child keeps the pipe open,
and leaves such children behind.
"""

import asyncio
import contextlib
import json
import logging
import math
import os
import re
import shutil
import signal
from collections.abc import AsyncIterator
from functools import partial
from typing import Any, Final, cast

import anyio
from anyio.abc import ObjectSendStream
from mcp import ClientSession, types
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from ...store.base.process_groups import KILL, adopt, release, signal_group
from ...stream.meters import PROCESSES, SERVER, measure
from ...text.sentences import say
from .call import ELICIT, SAMPLE, Listener, Loss, Why, make_error
from .config import ServerConfig
from .response_limits import MOST, TOO_LONG, is_too_much

log = logging.getLogger(__name__)

_TAIL: Final = 2_000
_NUMBER: Final = r'"id"\s*:\s*(\d{1,18}|"[^"\\]{1,100}")\s*'
_VERSION: Final = r'"jsonrpc"\s*:\s*"2\.0"\s*'
_AT_HEAD: Final = re.compile(rf"\s*\{{\s*(?:{_VERSION},\s*)?{_NUMBER}")
_AT_TAIL: Final = re.compile(rf"{_NUMBER}(?:,\s*{_VERSION})?\}}\s*\Z")
_ENDS: Final = 300
"""Bytes at each end of a line in which the id of an answer stands."""
_LAST_OUTPUT: Final = 0.2
_PATIENCE: Final = 2.0
"""Seconds a server gets to end by itself, and again after SIGTERM; the MCP specification asks for
this order and names no time, 2 s is what its Python client gives."""

_ORPHANS_PATIENCE: Final = 0.5
_GARBLED: Final = partial(say, "answer_garbled")


def explain_start(error: FileNotFoundError | PermissionError, config: ServerConfig) -> Why:
    """Why a process cannot be started."""
    if isinstance(error, PermissionError):
        return partial(say, "command_not_executable", command=repr(config.command))
    if config.cwd is not None and error.filename == config.cwd:
        return partial(say, "folder_not_found", folder=config.cwd)
    return partial(say, "command_not_found", command=repr(config.command))


def last_line(stderr: bytearray) -> str:
    """What a process wrote last; "" where it wrote nothing."""
    lines = stderr.decode(errors="replace").strip().splitlines()
    return lines[-1].strip()[:300] if lines else ""


class _Process(asyncio.SubprocessProtocol):
    """Reads the output of the process line by line, and notices its end."""

    stdin: "_Stdin"

    def __init__(self, into: Any, stderr: bytearray, listener: Listener) -> None:
        self.exited = asyncio.Event()
        self.closed = asyncio.Event()
        self._into = into
        self._stderr = stderr
        self._listener = listener
        self._line = bytearray()
        self._head = b""
        """The beginning of a line that is too long; only its two ends are kept."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        process = cast("asyncio.SubprocessTransport", transport)
        self.stdin = _Stdin(cast("asyncio.WriteTransport", process.get_pipe_transport(0)))

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 1:
            self._take_output(data)
        else:
            self._stderr += data
            del self._stderr[:-_TAIL]

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        if fd == 1:
            self.end()

    def process_exited(self) -> None:
        self.exited.set()
        # A process that the server has started may hold the pipe open for ever.
        asyncio.get_running_loop().call_later(_LAST_OUTPUT, self.end)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        self.closed.set()

    def end(self) -> None:
        """Tell the session that the connection has ended."""
        self._into.close()
        self._listener.cut_off()

    def _take_output(self, data: bytes) -> None:
        self._line += data
        if b"\n" in data:
            *lines, self._line = self._line.split(b"\n")
            for line in filter(bytes.strip, map(bytes, lines)):
                if self._head or is_too_much(line):
                    self._answer_too_long(self._head or line[:_ENDS], line[-_ENDS:])
                    self._head = b""
                else:
                    self._read(line)
        if self._head or len(self._line) > MOST:
            self._head = self._head or bytes(self._line[:_ENDS])
            del self._line[:-_ENDS]

    def _answer_too_long(self, head: bytes, tail: bytes) -> None:
        """Answer a request whose answer is a line that is too long."""
        if (number := _find_id_at_ends(head, tail)) is not None:
            self._fail(number, TOO_LONG)
        elif b'"method"' not in head:
            self._stderr += b"\na line of its output was too long\n"
            self.end()

    def _read(self, line: bytes) -> None:
        try:
            message = types.JSONRPCMessage.model_validate_json(line)
        except ValidationError:
            log.debug("not a message of an MCP server: %.200r", line)
            if (number := _find_id(line)) is not None:
                self._fail(number, _GARBLED)
            return
        root = message.root
        if isinstance(root, types.JSONRPCRequest) and root.method in (ELICIT, SAMPLE):
            # The session would read nothing until the human or the model has answered.
            self._listener.ask(root.method, root.params, {}, partial(self._reply, root.id))
        else:
            self._deliver(message)

    def _deliver(self, message: types.JSONRPCMessage) -> None:
        with contextlib.suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            self._into.send_nowait(SessionMessage(message))

    def _fail(self, number: int | str, why: Why) -> None:
        """Answer a request whose answer cannot be read."""
        self._listener.lose(number, Loss(why=why, sent=True))
        self._deliver(types.JSONRPCMessage.model_validate(make_error(number, why)))

    async def _reply(self, number: int | str, answer: dict[str, Any]) -> None:
        message = types.JSONRPCMessage.model_validate({"jsonrpc": "2.0", "id": number, **answer})
        await self.stdin.send(SessionMessage(message))


def _find_id(line: bytes) -> int | str | None:
    """The id of the request to which an unreadable line is the answer."""
    try:
        message = json.loads(line)
    except ValueError:
        return None
    except RecursionError:  # it is nested too deeply
        return _find_id_at_ends(line[:_ENDS], line[-_ENDS:])
    if not isinstance(message, dict) or "method" in message:
        return None
    number = message.get("id")
    return number if isinstance(number, int | str) else None


def _find_id_at_ends(head: bytes, tail: bytes) -> int | str | None:
    """The same by the beginning and the end of a line."""
    first, last = (end.decode(errors="replace") for end in (head, tail))
    match = _AT_HEAD.match(first) or _AT_TAIL.search(last)
    return json.loads(match[1]) if match else None


class _Stdin(ObjectSendStream[SessionMessage]):
    """The stream into which the session writes its messages."""

    def __init__(self, pipe: asyncio.WriteTransport) -> None:
        self.pipe = pipe
        self._closed = False

    async def send(self, item: SessionMessage) -> None:
        """Write a message; an error means that the server has read nothing of it."""
        line = item.message.model_dump_json(by_alias=True, exclude_none=True)
        if self._closed or self.pipe.is_closing():
            raise anyio.ClosedResourceError
        self.pipe.write(line.encode() + b"\n")
        if self.pipe.is_closing():  # the write is tried at once, so a broken pipe shows here
            raise anyio.BrokenResourceError

    async def aclose(self) -> None:
        """Take no more messages; the pipe is closed by who opened it."""
        self._closed = True


@contextlib.asynccontextmanager
async def stdio_session(
    config: ServerConfig, stderr: bytearray, listener: Listener, callbacks: dict[str, Any]
) -> AsyncIterator[ClientSession]:
    """Run the server's process; at the end, all its children are ended too.

    `stderr` takes the last output of the process for error messages; `listener` is told of its end.

    Yields:
        A session that has not been initialised yet.
    """
    command = config.command
    if os.name == "nt":  # only a shell finds npx.cmd under the name npx
        path: str | None = await asyncio.to_thread(lambda: shutil.which(config.command))
        command = path or command
    # Unbounded: a server that asks more than it reads must not block our reading.
    into, messages = anyio.create_memory_object_stream[SessionMessage | Exception](math.inf)
    with into, messages:
        transport, protocol = await asyncio.get_running_loop().subprocess_exec(
            lambda: _Process(into, stderr, listener),
            command,
            *config.args,
            env={**get_default_environment(), **_safe_path(config), **config.env},
            cwd=config.cwd,
            start_new_session=True,
        )
        group = transport.get_pid()
        is_measured = measure(PROCESSES, 1, {SERVER: config.name})
        try:
            await asyncio.to_thread(adopt, group)
            requests: Any = protocol.stdin
            async with ClientSession(messages, requests, **callbacks) as session:
                yield session
        finally:
            await _stop(transport, protocol)
            try:
                await asyncio.to_thread(release, group)
            except RuntimeError:  # the interpreter ends, and its threads take no more work
                release(group)
            if is_measured:
                measure(PROCESSES, -1, {SERVER: config.name})


def _safe_path(config: ServerConfig) -> dict[str, str]:
    """Keeps `python -m` and `python -c` from importing modules of the current folder.

    An entry with a `cwd`, or with a script, says itself where its modules are.
    """
    first = next((word for word in config.args if word in {"-m", "-c"} or word.endswith(".py")), "")
    return {"PYTHONSAFEPATH": "1"} if first.startswith("-") and config.cwd is None else {}


async def _stop(transport: asyncio.SubprocessTransport, protocol: _Process) -> None:
    """End the server as the specification asks (close stdin, SIGTERM, SIGKILL), with its group."""
    group = transport.get_pid()
    try:
        protocol.stdin.pipe.close()
        with anyio.move_on_after(_PATIENCE):
            await protocol.exited.wait()
        patience = _ORPHANS_PATIENCE if protocol.exited.is_set() else _PATIENCE
        signal_group(group, signal.SIGTERM)
        for _ in range(10):
            if not signal_group(group, 0):
                break
            await asyncio.sleep(patience / 10)
    finally:
        signal_group(group, KILL)
        transport.close()
    with anyio.move_on_after(_PATIENCE):
        await protocol.closed.wait()

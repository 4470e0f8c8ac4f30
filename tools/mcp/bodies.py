"""How much of an answer is taken: bodies over HTTP are unpacked piece by piece, up to a limit.

The HTTP client would unpack a body whole, and 0.4 MB of gzip may be gigabytes. So what arrives is
unpacked here, before the client looks at it.
"""

import re
import zlib
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Final

import httpx

from ...text.told import say
from .call import Why

MOST: Final = 32 * 1024 * 1024
"""Bytes of one answer, one event of a stream, one line of a process."""
MOST_VALUES: Final = 500_000
"""JSON values of one answer: each takes hundreds of bytes, however few its text has."""
MOST_TOOLS: Final = 10_000

ACCEPTED: Final = {"accept-encoding": "gzip, deflate"}
"""What can be unpacked in pieces; a server that sends something else is not understood."""

TOO_LONG: Why = partial(say, "answer_too_long", most=MOST // 1024**2, values=f"{MOST_VALUES:,}")

_PIECE: Final = 65_536
_MOST_LAYERS: Final = 5
"""How often a body may be packed; each layer is a generator inside the one before."""
_ENDS: Final = (b"\n\n", b"\r\n\r\n", b"\r\r")


_TEXTS: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)', re.DOTALL)
_CLOSED: Final = re.compile(rb'(?:[^"]++|"(?:[^"\\]++|\\.)*+")*+', re.DOTALL)
_BETWEEN: Final = (b",", b"[", b"{")


class Values:
    """Counts the values of JSON that comes in pieces, roughly: commas and brackets not in texts."""

    def __init__(self) -> None:
        """Begin outside of any text."""
        self.count = 0
        self._left = b""

    def add(self, piece: bytes) -> int:
        """Count those of the next piece, too."""
        given = self._left + piece
        self._left = b""
        if _CLOSED.fullmatch(given) is None:  # it ends inside a text, perhaps inside an escape
            slashes = len(given) - len(given.rstrip(b"\\"))
            self._left = b'"' + b"\\" * (slashes % 2)
        outside = _TEXTS.sub(b"", given)
        self.count += sum(map(outside.count, _BETWEEN))
        return self.count


def is_too_much(line: bytes) -> bool:
    """Whether a message is longer, or of more values, than is taken."""
    if len(line) > MOST:
        return True
    return sum(map(line.count, _BETWEEN)) > MOST_VALUES and Values().add(line) > MOST_VALUES


class TooLong(httpx.DecodingError):
    """A body is longer than it may be, or packed in a way that nobody asked for."""

    def __init__(self, why: Why) -> None:
        """Take why, in the language of whoever asks."""
        super().__init__(why())
        self.why = why


def bounded(response: httpx.Response, tell: Callable[[Why], None]) -> None:
    """Have a response read in pieces and up to the limit; `tell` hears why it was cut off."""
    stream = response.stream
    if not isinstance(stream, httpx.AsyncByteStream):
        return
    packed = response.headers.get_list("content-encoding", split_commas=True)
    is_events = response.headers.get("content-type", "").startswith("text/event-stream")
    response.stream = _Body(stream, [p.strip().lower() for p in packed], tell, events=is_events)
    if packed:
        del response.headers["content-encoding"]


class _Body(httpx.AsyncByteStream):
    """The bytes of a body as they are meant."""

    def __init__(
        self,
        packed: httpx.AsyncByteStream,
        kinds: list[str],
        tell: Callable[[Why], None],
        *,
        events: bool,
    ) -> None:
        self._packed = packed
        self._kinds = [kind for kind in kinds if kind not in ("", "identity")]
        self._tell = tell
        self._events = events

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size, tail, values = 0, b"", Values()
        try:
            _check_layers(self._kinds)
            pieces = aiter(self._packed)
            for kind in reversed(self._kinds):
                pieces = _unpacked(kind, pieces)
            async for piece in pieces:
                size += len(piece)
                if self._events:
                    seen = tail + piece
                    ends = (seen.rfind(end) + len(end) for end in _ENDS if end in seen)
                    if end := max(ends, default=0):
                        size, values = len(seen) - end, Values()
                    tail = seen[-3:]
                _check(size, values.add(piece))
                yield piece
        except TooLong as error:
            self._tell(error.why)
            raise

    async def aclose(self) -> None:
        await self._packed.aclose()


def _check_layers(kinds: list[str]) -> None:
    if len(kinds) > _MOST_LAYERS:
        raise TooLong(partial(say, "answer_packed", kind=", ".join(kinds)[:40]))


def _check(size: int, values: int) -> None:
    if size > MOST or values > MOST_VALUES:
        raise TooLong(TOO_LONG)


async def _unpacked(kind: str, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Unpack in pieces; deflate may come with its header or without."""
    if kind not in ("gzip", "x-gzip", "deflate"):
        raise TooLong(partial(say, "answer_packed", kind=kind[:40]))
    unpack = zlib.decompressobj(zlib.MAX_WBITS | 32)
    begun = False
    async for given in pieces:
        left, more = given, True
        while more and not unpack.eof:
            try:
                piece = unpack.decompress(left, _PIECE)
            except zlib.error as error:
                if begun or kind != "deflate":
                    raise httpx.DecodingError(str(error)) from error
                unpack, begun = zlib.decompressobj(-zlib.MAX_WBITS), True
                continue
            left, begun = unpack.unconsumed_tail, True
            more = bool(left) or len(piece) == _PIECE
            if piece:
                yield piece

"""How much of an answer is read: a limit on bytes after unpacking, and on JSON values.

0.4 MB of gzip may be gigabytes, and the HTTP client would unpack it whole. So a body is unpacked
here in pieces.
"""

import re
import zlib
from collections.abc import AsyncIterator
from functools import partial
from typing import Final

import httpx

from ...state.limits import LIMITS, explain_raw
from ...text.sentences import say
from .call import Why

MOST: Final = LIMITS["server answer"].bytes
"""Bytes of one answer, one event of a stream, one line of a process."""
_VALUES: Final = LIMITS["server answer"].values
"""JSON values of one answer; each takes hundreds of bytes of memory."""

ACCEPTED: Final = {"accept-encoding": "gzip, deflate"}
"""Only these can be unpacked in pieces; a server that sends something else is refused."""

EVENTS: Final = "text/event-stream"

TOO_LONG: Why = partial(say, "answer_too_long", most=MOST // 1024**2, values=f"{_VALUES:,}")

_PACKED: Final = ("gzip", "x-gzip", "deflate")
_END: Final = re.compile(rb"\r\n\r\n|\n\n|\r\r")


class Refused(Exception):
    """A body is too long, or packed in a way that was not accepted."""

    def __init__(self, why: Why) -> None:
        """Take the reason."""
        super().__init__(why())
        self.why = why


def is_too_much(message: bytes) -> bool:
    """Whether a message has more bytes, or more JSON values, than are read."""
    return bool(explain_raw("server answer", message))


async def read_events(response: httpx.Response) -> AsyncIterator[bytes]:
    """Read a body as server-sent events, each whole; a body of another kind is one event.

    Raises:
        Refused: The body is too long, or packed in a way that was not accepted.
        httpx.HTTPError: It broke off, or cannot be unpacked.
    """
    is_stream = response.headers.get("content-type", "").startswith(EVENTS)
    unread = bytearray()
    async for piece in _unpack(response):
        unread += piece
        # An end may lie across two pieces. Whatever is before them has been searched.
        if is_stream and _END.search(unread, max(len(unread) - len(piece) - 3, 0)):
            *events, rest = _END.split(unread)
            unread = bytearray(rest)
            for event in events:
                yield _within_limits(event) + b"\n\n"
        if len(unread) > MOST:
            raise Refused(TOO_LONG)
    if not is_stream:
        yield b"data: " + b" ".join(_within_limits(bytes(unread)).splitlines()) + b"\n\n"


def _within_limits(message: bytes) -> bytes:
    if is_too_much(message):
        raise Refused(TOO_LONG)
    return message


async def _unpack(response: httpx.Response) -> AsyncIterator[bytes]:
    packing = response.headers.get("content-encoding", "").strip().lower()
    if packing not in ("", "identity", *_PACKED):
        raise Refused(partial(say, "answer_packed", kind=packing[:40]))
    unpack = zlib.decompressobj(zlib.MAX_WBITS | 32)
    async for piece in response.aiter_raw():
        if packing not in _PACKED:
            yield piece
            continue
        try:
            yield unpack.decompress(piece, MOST + 1)
        except zlib.error as error:
            raise httpx.DecodingError(str(error)) from error
        if unpack.eof:  # whatever comes behind would be kept for ever
            return

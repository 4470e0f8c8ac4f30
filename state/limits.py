"""What each door takes at most: the one table, as docs/security.md shows it, and what measures.

Measuring stops where a limit is passed, so its time grows with the limit, not with what came.
"""

import errno
import re
import zlib
from collections.abc import Collection, Mapping
from math import inf
from pathlib import Path
from typing import Any, Final, NamedTuple

from ..text.canonical import DEEPEST
from ..text.sentences import say
from .errors import DatabaseError, SettingsError


class Limit(NamedTuple):
    """How much comes in by one door; 0 where it is not counted. A setting may say the seconds."""

    what: str
    bytes: int
    values: int = 0
    depth: int = 0
    seconds: float | str = 0


LIMITS: Final[Mapping[str, Limit]] = {
    "input": Limit("what a run or an enqueued turn is given", 50_000_000, 100_000, DEEPEST),
    "words": Limit("the text of the messages among it", 2_000_000),
    "answer": Limit("an answer", 2_000_000, 20_000, DEEPEST, "question_expires_in"),
    "configurable": Limit("`configurable` of a run", 256_000, 5_000, DEEPEST),
    "context": Limit("`context` of a run", 1_000_000, 20_000, DEEPEST),
    "tool context": Limit("`tool_context` in it, as JSON", 32_000),
    "queue": Limit("an enqueued turn with its settings", 60_000_000, 120_000, 2 * DEEPEST),
    "AG-UI": Limit("an AG-UI request", 32_000_000, 100_000, 200, 60),
    "component": Limit("a request for a component", 4_096, 0, 0, 10),
    "model body": Limit("an OpenAI-style server's answer", 64_000_000, 0, 0, "model_deadline"),
    "model answer": Limit("what a model says in it", 4_000_000, 0, 0, "model_deadline"),
    "server answer": Limit("an MCP server's answer", 2**25, 500_000, 200, "tool_deadline"),
    "tool list": Limit("all its tools", 2**25, 500_000, 200, "startup_timeout"),
    "tool definition": Limit("one of its tools", 256_000, 10_000, DEEPEST),
    "tool result": Limit("what a Python tool returns", 2**25, 500_000, 0, "tool_deadline"),
    "hook": Limit("what a hook's command writes", 10_000_000, seconds="timeout"),
    "front matter": Limit("the front matter of an agent or a skill", 16_000),
    "agent": Limit("the file of an agent", 256_000),
    "instructions": Limit("AGENTS.md", 32_000),
    "skill": Limit("a file of a skill", 128_000),
    "rules": Limit("company.yaml, and a policy as YAML", 128_000),
    "settings": Limit("a file of prompts, MCP servers, rules or settings", 2_000_000),
    "record": Limit("a value of a checkpoint or the journal, unpacked", 256_000_000),
}
"""The rows by the name of the door."""


class Gauge:
    """How much of a door's limit is left, for what comes in parts."""

    def __init__(self, door: str) -> None:
        """Take the limit whole."""
        limit = self._limit = LIMITS[door]
        self._bytes, self._values = limit.bytes, limit.values or inf
        self._depth = limit.depth or inf

    def take(self, value: Any) -> str:
        """Why a JSON value or a message is too much behind those before; "" where it is not."""
        waiting: list[tuple[Any, int]] = [(value, 0)]
        while waiting and min(self._bytes, self._values) >= 0:
            part, depth = waiting.pop()
            if isinstance(part, str | bytes):
                self._bytes -= _count_bytes(part, self._bytes)
            elif isinstance(part, int):
                self._bytes -= part.bit_length() // 8
            elif lots := _list_inside(part):
                if depth >= self._depth:
                    return say("too_deep", most=self._depth)
                self._values -= len(lots[-1])
                if self._values >= 0:
                    waiting += [(one, depth + 1) for lot in lots for one in lot]
        if self._bytes < 0:
            return say("too_many_bytes", most=f"{self._limit.bytes:,}")
        return say("too_many_values", most=f"{self._limit.values:,}") if self._values < 0 else ""


def explain_excess(door: str, value: Any) -> str:
    """Why a JSON value, or messages, are too much for a door; "" where they are not."""
    return Gauge(door).take(value)


def refuse_excess(door: str, value: Any) -> None:
    """Raise a SettingsError in one sentence if a value is too much for a door."""
    if why := explain_excess(door, value):
        what = f"{LIMITS[door].what[0].upper()}{LIMITS[door].what[1:]} is not taken"
        msg = f"{what}, and nothing was run: {why}. Send less at once, or let a tool read it."
        raise SettingsError(msg)


def _count_bytes(text: str | bytes, room: int) -> int:
    """Bytes of a text in UTF-8; of one that is too long in any case its characters."""
    if isinstance(text, bytes) or len(text) > room or text.isascii():
        return len(text)
    return len(text.encode("utf-8", "surrogatepass"))


def _list_inside(value: Any) -> tuple[Collection[Any], ...]:
    """What stands in a JSON value or in the fields of a message; other objects are closed."""
    if isinstance(value, Mapping):
        return value.keys(), value.values()
    if isinstance(value, list | tuple | set | frozenset):
        return (value,)
    return (vars(value).values(),) if hasattr(type(value), "model_fields") else ()


_TEXTS: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_BETWEEN: Final = (b",", b"[", b"{")


def explain_raw(door: str, raw: bytes) -> str:
    """Why JSON that nobody has parsed is too much for a door; "" where it is not."""
    limit, most = LIMITS[door], LIMITS[door].values or inf
    if len(raw) > limit.bytes:
        return say("too_many_bytes", most=f"{limit.bytes:,}")
    if sum(map(raw.count, _BETWEEN)) <= most or count_values(raw, most) <= most:
        return ""
    return say("too_many_values", most=f"{most:,}")


def count_values(raw: bytes, most: float = inf) -> int:
    """How many JSON values there are, roughly: commas and brackets outside of texts.

    Counting ends behind `most`. One step is short: a long one would hold all other threads.
    """
    count = end = 0
    for text in _TEXTS.finditer(raw):
        count += sum(raw.count(sign, end, text.start()) for sign in _BETWEEN)
        end = text.end()
        if count > most:
            return count
    return count + sum(raw.count(sign, end) for sign in _BETWEEN)


def read_file(path: Path, door: str) -> str:
    """The text of a file; raises OSError where it cannot be read or is too long."""
    with path.open(encoding="utf-8-sig") as file:
        text = file.read(LIMITS[door].bytes + 1)
    if why := explain_excess(door, text):
        raise OSError(errno.EFBIG, why, str(path))
    return text


_PIECE: Final = 4_000_000
_RATIO: Final = 1_032
"""What zlib packs gets no smaller than by this factor."""


def unpack(packed: bytes) -> bytes:
    """What zlib has packed into the value of a record; raises DatabaseError if it is too much."""
    rest = packed if len(packed) * _RATIO > LIMITS["record"].bytes else b""
    unpacker, gauge = zlib.decompressobj(), Gauge("record")
    while rest:  # in pieces: a long one would take all memory, and hold all other threads
        check_record(unpacker.decompress(rest, _PIECE), gauge)
        rest = unpacker.unconsumed_tail
    return zlib.decompress(packed)


def check_record(plain: bytes, gauge: Gauge | None = None) -> None:
    """Refuse a value, or a piece of it, that would not be read again, by DatabaseError."""
    if why := (gauge or Gauge("record")).take(plain):
        msg = f"A value of the thread is neither saved nor read: {why}. Start a new thread."
        raise DatabaseError(msg)

"""What the journal knows of a write before it runs, and what it is told after it.

A row is claimed before a write and ended after it. A row that is claimed already, or twin to one
whose end nobody knows, means that the call may have taken effect: it is in doubt, and neither the
framework nor the model decides whether it runs again.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from ..doors.journal import CallKey, CallRow, EndWord, Journal
from ..state.canonical import canonical, hash_of
from ..tools.catalog import CatalogTool
from .gate import PlannedCall
from .last_check import Ready
from .results import ToolResult
from .spelling import as_sent

PAUSED: Final = "paused"
"""Key of an uncertain row's result: the tool itself asked a question, so it runs again."""

_ENDED: Final = ("finished", "failed")
_CRASHED: Final = "it was begun at {since}, and the run ended before its result was recorded"
_AMBIGUOUS: Final = "it was begun at {since}, and no answer came: {result}"
_TWIN: Final = "the same call was made at {since}, and how it ended is not known"


@dataclass(frozen=True)
class Doubt:
    """Why a call may have taken effect already."""

    why: str


@dataclass(frozen=True)
class Recorded:
    """The result a call gave in a process that did not live to say so."""

    result: ToolResult
    stored: str


@dataclass(frozen=True)
class Book:
    """The journal, as the calls of one message use it."""

    journal: Journal
    thread: str
    place: str
    turn: str

    def key(self, call: PlannedCall, ready: Ready) -> CallKey:
        """What makes this call the same one after a crash."""
        return self._key(call, ready.args)

    def _key(self, call: PlannedCall, args: dict[str, Any]) -> CallKey:
        return CallKey(self.thread, self.place, self.turn, call["id"], hash_of(args))

    @contextmanager
    def under_way(self, key: CallKey) -> Iterator[None]:
        """A call that is not over before the end of the block: nobody may think that it crashed."""
        self.journal.at_work.add(key)
        try:
            yield
        finally:
            self.journal.at_work.discard(key)

    async def claim(self, call: PlannedCall, ready: Ready) -> Recorded | Doubt | None:
        """Claim a write.

        A human's approval of a call in doubt is good for one claim.

        Returns:
            None where the call must be made now, by this process alone.
        """
        key, tool, doubted = self.key(call, ready), ready.tool, bool(call.get("uncertain"))
        twin = None if doubted or tool.resendable else await self._twin(key, ready)
        if twin is not None:
            return twin
        row = await self.journal.claim(
            key, tool=tool.original, server=tool.server, arguments=ready.args
        )
        if row is not None and row.state in _ENDED:
            return _recorded(row)
        if row is not None and not _may_repeat(row, tool, doubted=doubted):
            await self._mark(row)
            return Doubt(_doubt(row))
        if row is not None:
            await self.journal.reclaim(key)
        if doubted:
            again = ToolResult(f"A human had it run again, as {call['id']}.", is_error=True)
            await self._settle_twins(ready.args, tool, again)
        return None

    async def end(self, key: CallKey, result: ToolResult, stored: str, *, ambiguous: bool) -> None:
        """Record what a claimed call gave; `ambiguous` where it may have taken effect after all."""
        word = "uncertain" if ambiguous else _end_word(result)
        await self.journal.end(key, word, _as_json(result, stored))

    async def doubt(self, key: CallKey, *, paused: bool) -> None:
        """Record that a claimed call was cut off; `paused` where its tool asked a question."""
        await self.journal.end(key, "uncertain", {PAUSED: True} if paused else None)

    async def settle(self, call: PlannedCall, tool: CatalogTool | None, result: ToolResult) -> None:
        """End this call and all like it that were in doubt: a human has said how they ended.

        The doubt may be another call's. So that whoever takes up the turn knows of this one, too,
        it gets a line of its own where it has none.
        """
        key = self._key(call, call["args"])
        name, server = (tool.original, tool.server) if tool else (call["name"], call["server"])
        await self.journal.claim(key, tool=name, server=server, arguments=call["args"])
        await self.journal.end(key, _end_word(result), _as_json(result, ""))
        if tool is not None:
            await self._settle_twins(call["args"], tool, result)

    async def _settle_twins(
        self, args: dict[str, Any], tool: CatalogTool, result: ToolResult
    ) -> None:
        for row in await self.journal.rows(self.thread, states=("uncertain",)):
            if not paused(row) and is_same_call(row, args, tool):
                await self.journal.end(row.key, _end_word(result), _as_json(result, ""))

    async def _twin(self, key: CallKey, ready: Ready) -> Recorded | Doubt | None:
        """What another call like this one means for it, where nobody knows how that one ended."""
        open_rows = await self.journal.rows(self.thread, states=("claimed", "uncertain"))
        left = [row for row in open_rows if row.key not in self.journal.at_work]
        twin = next((row for row in reversed(left) if _is_twin(row, key, ready)), None)
        if twin is None or twin.key == key:
            return None
        own = await self.journal.find(key)
        if own is not None and own.state in _ENDED:
            return _recorded(own)
        for row in filter(None, (own, twin)):
            await self._mark(row)
        return Doubt(_TWIN.format(since=_when(twin)))

    async def past(self, call: PlannedCall, args: dict[str, Any]) -> Recorded | Doubt | None:
        """What became, before a crash, of a call that cannot run any more.

        Its tool may be gone by now, its policy stricter, its allowance spent: that it was never
        run is for the journal to say.

        Returns:
            None where it was never begun.
        """
        row = await self.journal.find(self._key(call, args))
        if row is None or paused(row):
            return None
        if row.state in _ENDED:
            return _recorded(row)
        await self._mark(row)
        return Doubt(_doubt(row))

    async def _mark(self, row: CallRow) -> None:
        """Note that a crash left this claim behind: from now on a human's word can settle it."""
        if row.state == "claimed":
            await self.journal.end(row.key, "uncertain", None)


def is_same_call(row: CallRow, args: dict[str, Any], tool: CatalogTool) -> bool:
    """Whether a row is a call of this tool with these arguments, however they are spelled."""
    if (row.tool, row.server) != (tool.original, tool.server):
        return False
    return canonical(as_sent(row.arguments, tool)) == canonical(as_sent(args, tool))


def _is_twin(row: CallRow, key: CallKey, ready: Ready) -> bool:
    """Whether a row is the same call as another one, and nobody knows how it ended."""
    if not is_same_call(row, ready.args, ready.tool):
        return False
    if row.state == "uncertain":
        return not paused(row)
    # Other calls of this turn that a crash cut off are asked about themselves.
    return row.key.turn != key.turn and row.key.place == key.place


def _may_repeat(row: CallRow, tool: CatalogTool, *, doubted: bool) -> bool:
    return tool.resendable or paused(row) or (doubted and row.state == "uncertain")


def paused(row: CallRow) -> bool:
    """Whether the tool of an unended call asked a question of its own: it begins anew."""
    return row.state == "uncertain" and bool((row.result or {}).get(PAUSED))


def _doubt(row: CallRow) -> str:
    if row.result is None:
        return _CRASHED.format(since=_when(row))
    said = str(row.result.get("text", ""))[:300].rstrip(". ")
    return _AMBIGUOUS.format(since=_when(row), result=said)


def _when(row: CallRow) -> str:
    return f"{row.claimed_at[:19].replace('T', ' ')} UTC"


def _end_word(result: ToolResult) -> EndWord:
    return "failed" if result.is_error else "finished"


def _as_json(result: ToolResult, stored: str) -> dict[str, Any]:
    return {
        "text": result.text,
        "data": result.data,
        "is_error": result.is_error,
        "artifact": result.artifact,
        "stored": stored,
    }


def _recorded(row: CallRow) -> Recorded:
    found = row.result or {}
    result = ToolResult(
        text=str(found.get("text", "")),
        data=found.get("data"),
        is_error=bool(found.get("is_error")),
        artifact=found.get("artifact") or {},
    )
    return Recorded(result, str(found.get("stored", "")))

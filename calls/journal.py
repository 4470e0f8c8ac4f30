"""What the journal means for the calls of a pass: its words for a doubt, its results as answers.

A write that is known asks nobody and is not made again. One that may have been made is in doubt:
neither the framework nor the model decides whether it is sent once more.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..state.calls import UNCERTAIN
from ..store.journal.port import End, Intent, Row, Verdict, Word
from ..stream.meters import DOUBTS, KIND, TOOL, measure
from ..text.canonical import hash_of
from ..text.told import say
from ..tools.catalog import CatalogTool
from ..turn.scope import RunScope
from .call_records import Answered, InDoubt, PendingCall, unrun
from .policy import NOT_INTERACTIVE
from .results import ToolResult


@dataclass(frozen=True)
class Doubt:
    """Why a call may have taken effect already, and what a human's word on it is about."""

    why: str
    row: Row
    other: bool = False
    """It is another write of the tool that may have, and that stands in the way of this one."""

    def told(self) -> InDoubt:
        """What a pending call says of it, which a human is asked about."""
        self.count()
        return InDoubt(why=self.why, key=self.row.key, sends=self.row.sends, other=self.other)

    def count(self) -> None:
        """Tell the meter of a call that a crash cut off; the others were counted as they ended."""
        if not (self.other or self.row.result):
            measure(DOUBTS, 1, {TOOL: self.row.tool, KIND: "cut_off"})

    @property
    def reason(self) -> str:
        """Why the call is asked about."""
        whose = "another call of its tool" if self.other else "it"
        return f"{whose} may have run already"

    def arguments(self, planned: dict[str, Any]) -> dict[str, Any]:
        """The arguments to show: as they were sent, but for a call that another one holds up."""
        return planned if self.other else dict(self.row.arguments)


Found = Row | Answered | Doubt
"""The row of a call that is to be made now, or what is known of it."""


@dataclass(frozen=True)
class Book:
    """The journal, as the calls of one run use it."""

    scope: RunScope

    @property
    def thread(self) -> str:
        """Whose rows these are."""
        return self.scope.journaled

    def intent(self, call: PendingCall, tool: CatalogTool | None, args: dict[str, Any]) -> Intent:
        """What a call is about to do. Its tool may be gone; then only its name knows its row."""
        name = call.get("intent") or call["id"]
        return Intent(
            name=name,
            before=tuple(call.get("before", ())),
            place=self.scope.place,
            turn=self.scope.turn,
            task=call["task"],
            call=call["id"],
            tool=tool.original if tool else call["name"],
            server=tool.server if tool else call["server"],
            arguments=args,
            content=tool.content(args) if tool else "",
            repeatable=bool(tool and tool.resendable),
            key=hash_of([self.thread, name]),
        )

    async def begin(self, call: PendingCall, intent: Intent) -> Found:
        """Claim a write; a human's word on a call in doubt is good for one send."""
        journal, word = self.scope.journal, word_of(call)
        verdict = await journal.begin(self.thread, intent, word, self.scope.fence)
        return _found(verdict)

    async def look(self, intents: Sequence[Intent]) -> list[Found]:
        """What `begin` would say of each call; a row where it would be made."""
        return [_found(verdict) for verdict in await self.scope.journal.look(self.thread, intents)]

    async def own(self, intent: Intent) -> Row | None:
        """The row of this very call."""
        rows = await self.scope.journal.rows(self.thread, [intent.name])
        return next((row for row in rows if row.name == intent.name), None)

    async def end(self, row: Row, result: ToolResult, stored: str, *, ambiguous: bool) -> None:
        """Record what a write gave; `ambiguous` where it may have taken effect after all."""
        ending = End("failed" if result.is_error else "finished", _as_json(result, stored))
        if ambiguous:
            ending = ending._replace(how="unknown")
            measure(DOUBTS, 1, {TOOL: row.tool, KIND: "unanswered"})
        await self.scope.journal.end(self.thread, row, ending)

    async def pause(self, row: Row) -> None:
        """Record that the tool itself asked a question: it begins anew with the answer."""
        await self.scope.journal.end(self.thread, row, End("paused"))

    async def ran(self, call: PendingCall, intent: Intent, result: ToolResult) -> None:
        """Record that a call in doubt ran, as a human says."""
        word = word_of(call)
        if word is not None:
            word = word._replace(result=_as_json(result, ""))
            await self.scope.journal.begin(self.thread, intent, word, self.scope.fence)

    async def give_up(self, call: PendingCall) -> None:
        """Record that a human no longer wants a call in doubt."""
        word = word_of(call)
        if word is not None:
            await self.scope.journal.give_up(self.thread, word)


def word_of(call: PendingCall) -> Word | None:
    """What a human was asked about, if this call was in doubt."""
    doubt = call.get("doubt")
    return Word(doubt["key"], doubt["sends"]) if doubt else None


def doubted_sends(call: PendingCall) -> int:
    """How often a call was sent before a human had it run again; 0 if nobody was asked that."""
    word = word_of(call)
    return word.sends if word else 0


def _found(verdict: Verdict) -> Found:
    found, row = verdict
    if found == "send":
        return row
    if found == "known":
        return _recorded(row)
    why = _why(row)
    if found == "doubt":
        return Doubt(why, row)
    told = say("another_in_doubt", tool=row.tool, arguments=dict(row.arguments), why=why)
    return Doubt(told, row, other=True)


def _why(row: Row) -> str:
    since = f"{row.since[:19].replace('T', ' ')} UTC"
    if not row.result:
        return say("begun_and_cut_off", since=since)
    said = str(row.result.get("text", ""))[:300].rstrip(". ")
    return say("begun_and_not_answered", since=since, result=said)


def _recorded(row: Row) -> Answered:
    """The answer of a call that was made before: for another call, its source, or a dead run."""
    found = row.result or {}
    # What another call changed in the graph's state is changed already.
    update = {} if row.source else found.get("update") or {}
    result = ToolResult(
        text=str(found.get("text", "")),
        data=found.get("data"),
        is_error=bool(found.get("is_error")),
        artifact=found.get("artifact") or {},
        update=update,
    )
    return Answered(
        result, stored=str(found.get("stored", "")), counts=not row.source,
        reused_from=row.source, args=dict(row.arguments), sent_again=row.sends > 1,
    )  # fmt: skip


def _as_json(result: ToolResult, stored: str) -> dict[str, Any]:
    return {
        "text": result.text,
        "data": result.data,
        "is_error": result.is_error,
        "artifact": result.artifact,
        "stored": stored,
        **({"update": result.update} if result.update else {}),
    }


def unasked(doubt: Doubt) -> Answered:
    """The answer to a call that is in doubt, or that another one's doubt holds up: nobody asks."""
    if doubt.other:
        told = say("held_by_doubt", why=doubt.why, advice=say("report_it"))
        return unrun(told, "cancelled", NOT_INTERACTIVE)
    doubt.count()
    told = say("doubted_nobody_asked", why=doubt.why, advice=say("report_doubt"))
    return unrun(told, "cancelled", UNCERTAIN)

"""What the journal means for the calls of a pass: its words for a doubt, its results as answers.

A write that is known asks nobody and is not made again. One that may have been made is in doubt:
neither the framework nor the model decides whether it is sent once more.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from langgraph.errors import GraphBubbleUp

from ..state.calls import GAVE_UP, UNCERTAIN
from ..store.journal.port import End, Intent, Row, Verdict, Word
from ..stream.meters import DOUBTS, KIND, TOOL, measure
from ..text.canonical import hash_of
from ..text.sentences import say
from ..tools.mcp.call import ElicitationPending
from ..turn.scope import RunScope
from .call_records import Call, Doubt
from .policy import NOT_INTERACTIVE
from .results import ToolResult

if TYPE_CHECKING:
    from .path import PassScope, Then


@dataclass(frozen=True)
class CallJournal:
    """The journal, as the calls of one run use it."""

    scope: RunScope
    plain: bool = False
    """Give a recorded result as it is, for a program; a model is told if another call made it."""

    @property
    def thread(self) -> str:
        """Whose rows these are."""
        return self.scope.journal_thread

    def build_intent(self, call: Call) -> Intent:
        """What a call is about to do. Its tool may be gone; then only its name knows its row."""
        pending, tool = call.pending, call.tool
        name = pending.get("intent") or call.id
        return Intent(
            name=name,
            before=tuple(pending.get("before", ())),
            place=self.scope.run.place,
            turn=self.scope.turn,
            task=pending["task"],
            call=call.id,
            tool=tool.original if tool else pending["name"],
            server=tool.server if tool else pending["server"],
            arguments=call.args,
            content=tool.content(call.args) if tool else "",
            repeatable=bool(tool and tool.resendable),
            key=hash_of([self.thread, name]),
        )

    async def begin(self, call: Call, intent: Intent) -> Verdict:
        """Claim a write; a human's word on a call in doubt is good for one send.

        One that another process may have begun, whose journal was in its memory, is as its own row
        would be there: claimed, and nobody knows more.
        """
        journal, word = self.scope.journal, find_word(call)
        if self.scope.run.elsewhere and word is None:
            unseen = replace(intent, since="")
            verdict = await journal.begin(self.thread, unseen, fence=self.scope.run.fence)
            if verdict.say != "send" or verdict.row.sends > 1:
                return verdict
        return await journal.begin(self.thread, intent, word, self.scope.run.fence)

    async def look_up(self, intents: Sequence[Intent]) -> Sequence[Verdict]:
        """What `begin` would say of each call."""
        return await self.scope.journal.preview_verdicts(self.thread, intents)

    async def answer_blocked(self, call: Call, why: str) -> bool:
        """Whether the journal says something of a call that cannot run now, and so answers it.

        A crash may have come after it was begun.
        """
        intent = self.build_intent(call)
        if not call.pending.get("known"):  # nor does what stands for other calls count
            intent = replace(intent, content="")
        (verdict,) = await self.look_up([intent])
        if verdict.say == "known":
            answer_from_row(call, verdict.row, plain=self.plain)
            return True
        doubt = find_doubt(verdict)
        if doubt is None or doubt.other:
            return False
        if not call.pending.get("doubt"):
            call.result, call.doubt = None, doubt
            return True
        # A human had it run again, which cannot be done: to ask once more would bring no more.
        told = say("doubted_and_barred", why=doubt.why, bar=why, advice=say("report_doubt"))
        call.answer(say("call_begun", why=doubt.why), "cancelled", UNCERTAIN, to_model=told)
        return True

    async def record_decision(self, call: Call) -> None:
        """Record what a human said of a call in doubt; of others that do not run, look back."""
        pending = call.pending
        if call.final_status == "success":
            await self._note_success(call)
        elif (word := find_word(call)) and call.reason in (GAVE_UP, "rejected"):
            await self.scope.journal.give_up(self.thread, word)
        elif pending["action"] in ("allow", "ask") and not pending["read_only"]:
            await self.answer_blocked(call, call.outcome.text)

    async def _note_success(self, call: Call) -> None:
        """Record that a call in doubt ran, as a human says."""
        if word := find_word(call):
            word = word._replace(result=_result_to_json(call))
            await self.scope.journal.begin(
                self.thread, self.build_intent(call), word, self.scope.run.fence
            )

    async def find_row(self, intent: Intent) -> Row | None:
        """The row of this very call."""
        rows = await self.scope.journal.rows(self.thread, [intent.name])
        return next((row for row in rows if row.name == intent.name), None)

    async def record_result(self, row: Row, call: Call) -> None:
        """Record what a write gave, or that it may have taken effect after all."""
        ending = End("failed" if call.outcome.is_error else "finished", _result_to_json(call))
        if call.reason == UNCERTAIN:
            ending = ending._replace(how="unknown")
            measure(DOUBTS, 1, {TOOL: row.tool, KIND: "unanswered"})
        await self.scope.journal.end(self.thread, row, ending)

    async def record_pause(self, row: Row) -> None:
        """Record that the tool itself asked a question: with the answer it begins again."""
        await self.scope.journal.end(self.thread, row, End("paused"))


def find_word(call: Call) -> Word | None:
    """What a human was asked about, if this call was in doubt."""
    doubt = call.pending.get("doubt")
    return Word(doubt["key"], doubt["sends"]) if doubt else None


def find_doubt(verdict: Verdict) -> Doubt | None:
    """Why a call may have run already; None where the journal does not doubt it."""
    row = verdict.row
    if verdict.say in ("send", "known"):
        return None
    why = _explain_row(row)
    if verdict.say == "doubt":
        return Doubt(why, row)
    text = say("another_in_doubt", tool=row.tool, arguments=dict(row.arguments), why=why)
    return Doubt(text, row, other=True)


def _explain_row(row: Row) -> str:
    if not (row.since or row.result):
        return say("begun_unseen")
    since = f"{row.since[:19].replace('T', ' ')} UTC"
    if not row.result:
        return say("begun_and_cut_off", since=since)
    text = str(row.result.get("text", ""))[:300].rstrip(". ")
    return say("begun_and_not_answered", since=since, result=text)


def answer_from_row(call: Call, row: Row, *, plain: bool = False) -> None:
    """Answer a call that was made before, in a run that is gone or by another call, its source."""
    known = row.result or {}
    result = ToolResult(
        text=str(known.get("text", "")),
        data=known.get("data"),
        is_error=bool(known.get("is_error")),
        artifact=known.get("artifact") or {},
        # What another call changed in the graph's state is changed already.
        update={} if row.source else known.get("update") or {},
    )
    if row.source and not plain:
        result = replace(result, to_model=say("made_before", source=row.source, result=result.text))
    call.result, call.end_status, call.reason = result, None, ""
    call.stored, call.counts = str(known.get("stored", "")), not row.source
    call.reused_from, call.args = row.source, dict(row.arguments)


def _result_to_json(call: Call) -> dict[str, Any]:
    """What a row keeps of a result."""
    result = call.outcome
    return {
        "text": result.text,
        "data": result.data,
        "is_error": result.is_error,
        "artifact": result.artifact,
        "stored": call.stored,
        **({"update": result.update} if result.update else {}),
    }


def answer_unasked(call: Call, doubt: Doubt) -> None:
    """Answer a call that is in doubt, or that another one's doubt holds up: nobody can be asked."""
    if doubt.other:
        told = say("held_by_doubt", why=doubt.why, advice=say("report_it"))
        text = say("call_held", why=doubt.why)
        call.answer(text, "cancelled", NOT_INTERACTIVE, to_model=told)
        return
    doubt.count_doubt()
    told = say("doubted_nobody_asked", why=doubt.why, advice=say("report_doubt"))
    call.answer(say("call_begun", why=doubt.why), "cancelled", UNCERTAIN, to_model=told)


async def journal_write(work: "PassScope", call: Call, then: "Then") -> None:
    """Make a write between its two lines in the journal, or answer it with what stands there."""
    book, intent = work.book, work.book.build_intent(call)
    with work.scope.journal.mark_under_way(book.thread, intent):
        row = await book.find_row(intent) if call.pending.get("form") else None
        if row is None or not work.toolbox.is_parked(row.key):  # else it goes on with the answer
            verdict = await book.begin(call, intent)
            row = verdict.row
            if verdict.say == "known":
                work.closed |= row.sends > 1
                return answer_from_row(call, row, plain=book.plain)
            if verdict.say != "send":
                call.doubt = find_doubt(verdict)
                return None
        work.wrote = True
        asked_at = find_word(call)  # a human had it run again, after so many sends
        work.closed |= row.sends > 1 + (asked_at.sends if asked_at else 0)
        call.key, call.args = row.key, dict(row.arguments)  # what is sent again is sent as it was
        try:
            await then(call)
        except ElicitationPending:
            raise  # the row stays claimed: after a crash the call is in doubt
        except GraphBubbleUp:
            # A pause by a hook comes after the tool has done its work: it is not begun again.
            if call.returned is None:
                await book.record_pause(row)
            raise  # whatever else cuts it off, the call may have taken effect: it stays claimed
        return await book.record_result(row, call)

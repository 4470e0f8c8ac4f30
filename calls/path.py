"""The one path by which a tool call runs, from planned calls to their tool messages.

settle (the human's answer, policy again) → loop guard → reuse → allowance → journal claim → call
with deadline → hooks → size cap → journal end → record. `open_calls` is what comes before it.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, cast

from langgraph.errors import GraphBubbleUp, GraphInterrupt

from ..state.calls import GAVE_UP, SERVER_ASKS, UNCERTAIN, CallState, Evidence
from ..store.journal.port import Intent, Row
from ..text.canonical import canonical
from ..text.told import say
from ..tools.mcp.call import Asked
from ..turn import spans
from ..turn.repetition import Repeat, repeats
from ..turn.scope import RunScope
from .approval import Decisions, Ready, decision_on, denied, in_one_pass, settle, settle_tail
from .call_records import (
    Answered,
    CallRecord,
    CallStatus,
    Pass,
    PendingCall,
    as_evidence,
    changed,
    ended,
    left_waiting,
    unrun,
    waiting,
)
from .gate import Gate, deadline_of
from .items import with_items
from .journal import Book, Doubt, doubted_sends, unasked
from .one_call import TailCall, after_tool, in_order, run_once
from .own import Own, answer_own
from .result_store import ResultStore
from .results import ToolResult, failure, without_secrets
from .reuse import Memory
from .sending import Sending
from .toolbox import Toolbox

NOT_RECORDED: Final = (
    "Tool calls are recorded in memory only, so after a crash a call that changed something could "
    "be made again: build the graph with durability=open_durability(url), or set "
    "LOOPWRIGHT_DATABASE_URL where a server loads it."
)


async def run_calls(
    scope: RunScope,
    toolbox: Toolbox,
    calls: Sequence[Mapping[str, Any]],
    *,
    decisions: Decisions | None = None,
    history: Sequence[Evidence] = (),
    plain: bool = False,
    state: CallState | None = None,
) -> Pass:
    """Run those calls of a message that may run now, and answer those that can be answered.

    Reads run side by side; a write waits for what stands before it, and what stands behind it
    waits for the write. A call that a human must decide on holds back the writes behind it.
    Whatever a tool does is data: a call cannot fail the run. A write is made at most once, also
    after a crash; one that may have been made is asked about, or refused where nobody can be.

    Args:
        scope: The run. That a write was recorded nowhere but in memory is added to its notes.
        toolbox: Where the tools are.
        calls: What `open_calls` gave, or an earlier pass left waiting.
        decisions: The human's answers by `decision_key`: `{"type": "approve"}`, `{"type":
            "reject", "message"?}`, `{"type": "edit", "args"}`, `{"type": "respond", "message"}`.
        history: The calls of the task or turn so far, for the loop guard.
        plain: Give a reused result as it was, for a program that reads it; without it the text
            tells the model that it is not new.
        state: Of the graph, for the package's own tools.

    Returns:
        The records of the answered calls and what still waits, both in the order of `calls`.

    Raises:
        DatabaseError: The journal cannot be written; the call was not made, or is in doubt.
    """
    planned = [cast("PendingCall", call) for call in calls]
    decided = decisions or {}
    now = in_one_pass(planned, decided)
    run = _Run(
        scope=scope,
        # What policy asks about by now was approved, or is refused as such: see `settle`.
        gate=(gate := await Gate.of(toolbox, replace(scope, can_ask=True))),
        sending=Sending(scope, toolbox, gate.catalog),
        book=Book(scope),
        toolbox=toolbox,
        memory=toolbox.memory(scope.thread, scope.turn),
        results=toolbox.results(scope),
        history=(before := _before(history, planned)),
        beside=[*history[len(before) :]],
        plain=plain,
        state=state,
        shared=len(now) > 1,
    )
    steps = [(call, await settle(run.gate, call, decision_on(call, decided))) for call in now]
    ends = await in_order([(_is_write(step), partial(run.take, c, step)) for c, step in steps])
    if run.wrote and scope.durable and not scope.journal.durable:
        scope.notes.append(NOT_RECORDED)
    records = {record["id"]: record for record in ends if record is not None}
    return Pass(
        [records[call["id"]] for call in planned if call["id"] in records],
        [run.asked.get(c["id"], c) for c in planned if c["id"] not in records],
    )


def _before(history: Sequence[Evidence], calls: Sequence[PendingCall]) -> list[Evidence]:
    """The calls before this message, of which earlier passes may have answered some."""
    message, end = calls[0]["id"].rpartition(".")[0] if calls else "", len(history)
    while end and history[end - 1]["id"].rpartition(".")[0] == message:
        end -= 1
    return [*history[:end]]


def _is_write(step: Ready | Answered) -> bool:
    return isinstance(step, Ready) and not step.tool.read_only


@dataclass(kw_only=True)
class _Run:
    """What the calls of one pass share; `asked` has those that a human must decide on first.

    LangGraph counts the questions of a pass: who asks second there is given the first one's answer
    as soon as the first one's call is known and asks no more. So one call of a pass may ask: it
    ends the pass when it is answered (`closed`), and a read among others waits for its own pass.
    """

    scope: RunScope
    gate: Gate
    sending: Sending
    book: Book
    toolbox: Toolbox
    memory: Memory
    results: ResultStore
    history: list[Evidence]
    plain: bool
    shared: bool
    closed: bool = False
    asked: dict[str, PendingCall] = field(default_factory=dict)
    beside: list[Evidence]
    state: CallState | None
    wrote: bool = False

    async def take(self, call: PendingCall, step: Ready | Answered) -> CallRecord | None:
        """Take one call to its end; None where it must wait."""
        if (record := await self._taken(call, step)) is not None:
            self.beside.append(as_evidence(record))
        return record

    async def _taken(self, call: PendingCall, step: Ready | Answered) -> CallRecord | None:
        status = CallStatus(call, self.scope.emit, call.get("status", "validating"))
        args = call["args"]
        if isinstance(step, Answered):
            answer: Answered | Doubt | None = await self._unrun(call, step)
        elif self.closed or self.scope.stopped() or (self.asked and not step.tool.read_only):
            return None
        else:
            args = step.args
            if status.status != "scheduled":
                status.to("scheduled")
            answer = await self._tried(call, step, status)
        if answer is None:
            return None
        if not isinstance(answer, Doubt):
            return ended(call, args, answer, status)
        args = answer.arguments(args)
        if not self.scope.can_ask:
            return ended(call, args, unasked(answer), status)
        await self._wait(call, args, status, answer.reason, doubt=answer.told())
        return None

    async def _tried(
        self, call: PendingCall, ready: Ready, status: CallStatus
    ) -> Answered | Doubt | None:
        """Make a call unless it is known; None where it asks, and waits for the answer."""
        try:
            return await self._once_allowed(call, ready, status)
        except Asked as asked:
            await self._wait(call, ready.args, status, SERVER_ASKS, form=asked.form)
        except GraphInterrupt:
            if status.returned or not (self.shared and ready.tool.read_only):
                raise
            self.asked[call["id"]] = changed(call, alone=True)
        return None

    async def _wait(
        self,
        call: PendingCall,
        args: dict[str, Any],
        status: CallStatus,
        reason: str,
        **why: object,
    ) -> None:
        """Leave a call to a human."""
        self.asked[call["id"]] = asking = waiting(call, args, reason, **why)
        await left_waiting(self.scope, asking, status)

    async def _unrun(self, call: PendingCall, step: Answered) -> Answered | Doubt:
        """The answer to a call that does not run, by what the journal knows of it."""
        if step.status == "success":
            await self.book.ran(call, self._intent(call, call["args"]), step.result)
        elif call.get("doubt") and step.reason in (GAVE_UP, "rejected"):
            await self.book.give_up(call)
        elif call["action"] in ("allow", "ask") and not call["read_only"]:
            return await self._past(call, call["args"], step.result.text) or step
        return step

    def _intent(self, call: PendingCall, args: dict[str, Any]) -> Intent:
        return self.book.intent(call, self.gate.tool_of(call), args)

    async def _past(
        self, call: PendingCall, args: dict[str, Any], bar: str
    ) -> Answered | Doubt | None:
        """What to say of a call that cannot run now, if a crash came after it was begun."""
        intent = self._intent(call, args)
        if not call.get("known"):  # nor does what stands for other calls count
            intent = replace(intent, content="")
        (found,) = await self.book.look([intent])
        if isinstance(found, Answered):
            return self._known(found)
        if not isinstance(found, Doubt) or found.other:
            return None
        if not call.get("doubt"):
            return found
        # A human had it run again, which cannot be done: to ask once more would bring no more.
        told = say("doubted_and_barred", why=found.why, bar=bar, advice=say("report_doubt"))
        return unrun(told, "cancelled", UNCERTAIN)

    def _known(self, found: Answered) -> Answered:
        """The answer of a write that was made before; a model is told if it was another call's."""
        if not found.reused_from or self.plain:
            return found
        told = say("made_before", source=found.reused_from, result=found.result.text)
        return replace(found, result=replace(found.result, text=told))

    async def _once_allowed(
        self, call: PendingCall, ready: Ready, status: CallStatus
    ) -> Answered | Doubt:
        """Answer a read that goes round in circles or is known, make every other."""
        if (barred := await self._guarded(call, ready)) is not None:
            return barred
        exempt = ready.tool.polls or call.get("doubt") or call.get("form") or call.get("own")
        circle = None if exempt else repeats(
            self.history, call["name"], ready.args, again=ready.again, content=self._content,
            stuck_at=self.scope.context.loop_repeats,
        )  # fmt: skip
        if circle is not None and ready.tool.read_only:
            about = say("not_made", tool=call["name"], call=call["id"], evidence=circle.same_as)
            self.scope.notes.append(about)
            return replace(unrun(circle.text, "error", circle.reason), same_as=circle.same_as)
        if ready.tool.own is not None:
            status.run(ready.args)
            own = Own(self.scope, self.results, self.gate.catalog, self.state, [*self.beside])
            return await answer_own(ready, deadline_of(call, ready.tool, self.scope.context), own)
        async with self.memory.use(
            ready.tool, ready.args, context=self.scope.context, user_id=self.scope.user,
            again=ready.again, message=self,
        ) as use:  # fmt: skip
            if (known := use.answer(plain=self.plain)) is not None:
                return known
            answer = await self._paid(call, ready, status)
            if isinstance(answer, Answered):
                use.keep(call["id"], answer)
        if circle is None or self.plain or isinstance(answer, Doubt):
            return answer
        return _warned(answer, circle)

    async def _guarded(self, call: PendingCall, ready: Ready) -> Answered | Doubt | None:
        """The answer to a call that the policy's tables refuse by the facts as they are now."""
        if self.gate.guard is None or ready.tool.own is not None:
            return None
        why = await self.gate.guard.refuses(call, ready.tool, ready.args)
        if not why or ready.tool.read_only:
            return denied(why) if why else None
        return await self._past(call, ready.args, why) or denied(why)

    def _content(self, name: str, arguments: Mapping[str, Any]) -> str:
        tool = self.gate.catalog.find(name)
        return tool.content(arguments) if tool else canonical(arguments)

    async def _paid(self, call: PendingCall, ready: Ready, status: CallStatus) -> Answered | Doubt:
        # One whose server asked has paid already.
        if not (call.get("form") or await self.scope.budget.pay_tool_call()):
            spent = unrun(say("calls_spent", advice=say("answer_with_it")), "error")
            if ready.tool.read_only:
                return spent
            return await self._past(call, ready.args, spent.result.text) or spent
        if ready.tool.read_only:
            return await self._made(call, ready, status, self._intent(call, ready.args).key)
        return await self._written(call, ready, status)

    async def _written(
        self, call: PendingCall, ready: Ready, status: CallStatus
    ) -> Answered | Doubt:
        """Make a write between its two lines in the journal."""
        intent = self._intent(call, ready.args)
        with self.scope.journal.under_way(self.book.thread, intent):
            row = await self._parked(call, intent) or await self.book.begin(call, intent)
            if isinstance(row, Doubt):
                return row
            if isinstance(row, Answered):
                self.closed |= row.sent_again
                return self._known(row)
            self.wrote = True
            self.closed |= row.sends > 1 + doubted_sends(call)
            sent = replace(ready, args=dict(row.arguments))  # what is sent again is sent as it was
            try:
                answer = await self._made(call, sent, status, row.key)
            except Asked:
                raise  # the row stays claimed: after a crash the call is in doubt
            except GraphBubbleUp:
                # A pause by a hook comes after the tool has done its work: not begun anew.
                if not status.returned:
                    await self.book.pause(row)
                raise  # whatever else cuts it off, the call may have taken effect: it stays claimed
            ambiguous = answer.reason == UNCERTAIN
            await self.book.end(row, answer.result, answer.stored, ambiguous=ambiguous)
            return answer

    async def _parked(self, call: PendingCall, intent: Intent) -> Row | None:
        """The row of a call that waits for its server's question to be answered: it goes on."""
        row = await self.book.own(intent) if call.get("form") else None
        return row if row and self.toolbox.is_parked(row.key) else None

    async def _made(
        self, call: PendingCall, ready: Ready, status: CallStatus, key: str
    ) -> Answered:
        """Call the tool; what it gave is shown to the hooks and cut to size."""
        status.run(ready.args)
        began, tool, cap = time.monotonic(), ready.tool, self.scope.context.result_cap
        deadline = deadline_of(call, tool, self.scope.context)
        with spans.of_tool(self.scope, call, tool.name, tool.server) as told:
            sent = self.sending.send(
                call, tool, ready.args, key, reply=ready.reply, asks=not call.get("tail_of")
            )
            made = await run_once(tool, sent, deadline)
            told(made.result.is_error)
        result = with_items(without_secrets(made.result, self.toolbox.secrets))
        status.returned = True
        original = call.get("tail_of", "")
        tail: TailCall | None = None if original else partial(self._tail, call)
        result = await after_tool(
            self.scope, tool, ready.args, result, tail=tail, original=original
        )
        if self.gate.guard is not None:  # what a hook withholds proves nothing
            heard = result if result.is_error else made.result
            await self.gate.guard.heard(call, tool, heard)
        result, stored = await self.results.shorten(result, cap)
        made = replace(made, result=result, stored=stored)
        return replace(made, seconds=time.monotonic() - began, args=ready.args)

    async def _tail(self, call: PendingCall, name: str, args: dict[str, Any]) -> ToolResult:
        """The call a hook wants right after another one, if policy allows it without a question."""
        tool = self.gate.catalog.find(name)
        tail = changed(
            call, id=f"{call['id']}.tail", name=name, args=args, action="allow",
            server=tool.server if tool else None, doubt=None, tail_of=call["name"],
            intent=f"{call.get('intent')}.tail", before=[],
        )  # fmt: skip
        step = await settle_tail(self.gate, tail)
        if isinstance(step, Answered):
            return failure(say("tail_refused", tool=name, why=step.result.text))
        if barred := await self._guarded(tail, step):
            told = barred.why if isinstance(barred, Doubt) else barred.result.text
            return failure(say("tail_refused", tool=name, why=told))
        if not step.tool.read_only:
            self.memory.written(step.tool.server)
        status = CallStatus(tail, self.scope.emit, "scheduled")
        answer = await self._paid(tail, step, status)
        if isinstance(answer, Doubt):
            return failure(say("tail_in_doubt", tool=name, why=answer.why))
        ended(tail, step.args, answer, status)
        return answer.result


def _warned(answer: Answered, circle: Repeat) -> Answered:
    """A write that was made once more, with a warning; it counts only if it brought nothing new."""
    if not answer.ran:
        return answer
    again = answer.result.text == circle.result
    text = f"{answer.result.text}\n\n{circle.warning(again=again)}"
    answer = replace(answer, result=replace(answer.result, text=text))
    if not again or answer.reason:
        return answer
    return replace(answer, reason=circle.reason, same_as=circle.same_as)

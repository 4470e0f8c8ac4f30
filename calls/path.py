"""The one path by which a tool call runs, from planned calls to their tool messages.

settle (the human's answer, policy again) → loop guard → reuse → allowance → journal claim → call
with deadline → hooks → size cap → journal end → record. `plan_calls` is what comes before it.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, cast

from langgraph.errors import GraphBubbleUp

from ..state.calls import GAVE_UP, Evidence
from ..state.canonical import canonical
from ..state.journal import Intent, Row
from ..state.repetition import repeats
from ..state.told import say
from ..tools.catalog import READER
from ..tools.mcp.call import Asked
from ..turn.scope import RunScope
from .approval import Ready, Settled, Settling, Step, decision_on, runnable
from .call_records import (
    Answered,
    CallRecord,
    CallStatus,
    Pass,
    PendingCall,
    ended,
    tell_waiting,
    waiting,
)
from .gate import Gate, deadline_of
from .journal import Book, Doubt, Recorded
from .one_call import Ended, TailCall, after_tool, call_python, in_order, run_once
from .results import ResultStore, ToolResult, failure
from .reuse import Memory
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
    decisions: Mapping[str, Mapping[str, Any]] | None = None,
    history: Sequence[Evidence] = (),
    plain: bool = False,
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

    Returns:
        The records of the answered calls and what still waits, both in the order of `calls`.

    Raises:
        DatabaseError: The journal cannot be written; the call was not made, or is in doubt.
    """
    planned = [cast("PendingCall", call) for call in calls]
    decided, now = decisions or {}, runnable(planned, decisions or {})
    # What policy asks about by now was approved, or is refused as such: see `Settling`.
    gate = await Gate.of(toolbox, replace(scope, can_ask=True))
    run = _Run(
        scope=scope,
        settling=Settling(scope=scope, gate=gate),
        book=Book(scope),
        toolbox=toolbox,
        memory=toolbox.memory(scope.thread, scope.turn),
        results=ResultStore(scope.store or toolbox.spare_store(scope.thread), scope.thread),
        history=_before(history, planned),
        plain=plain,
    )
    pairs = [(c, await run.settling.settle(c, decision_on(c, decided))) for c in now]
    ends = await in_order([(_is_write(step), partial(run.take, c, step)) for c, step in pairs])
    if run.wrote and scope.durable and not scope.journal.durable:
        scope.notes.append(NOT_RECORDED)
    return _passed(planned, dict(zip((c["id"] for c in now), ends, strict=True)))


@dataclass(frozen=True)
class _Waiting:
    """A call that is not answered in this pass."""

    call: PendingCall


def _passed(planned: Sequence[PendingCall], ends: Mapping[str, CallRecord | _Waiting]) -> Pass:
    reached = [(call, ends.get(call["id"], _Waiting(call))) for call in planned]
    records = [end for _, end in reached if not isinstance(end, _Waiting)]
    return Pass(records, [end.call for _, end in reached if isinstance(end, _Waiting)])


def _before(history: Sequence[Evidence], calls: Sequence[PendingCall]) -> list[Evidence]:
    """The calls before this message, of which earlier passes may have answered some."""
    message = calls[0]["id"].rpartition(".")[0] if calls else ""
    return [record for record in history if record["id"].rpartition(".")[0] != message]


def _is_write(step: Step) -> bool:
    return isinstance(step, Ready) and not step.tool.read_only


def _may_have_run(call: PendingCall) -> bool:
    """Whether a call that is refused now may have been begun in a run that did not end."""
    return call["action"] in ("allow", "ask") and not call["read_only"]


@dataclass(kw_only=True)
class _Run:
    """What the calls of one pass share. `held` once one of them must wait for a human."""

    scope: RunScope
    settling: Settling
    book: Book
    toolbox: Toolbox
    memory: Memory
    results: ResultStore
    history: list[Evidence]
    plain: bool
    held: bool = field(default=False, init=False)
    wrote: bool = field(default=False, init=False)

    async def take(self, call: PendingCall, step: Step) -> CallRecord | _Waiting:
        """Take one call to its end, or to where it must wait."""
        status = CallStatus(call, self.scope.emit, call.get("status", "validating"))
        if isinstance(step, Settled):
            return await self._answered(call, step, status)
        if self.held and not step.tool.read_only:
            return _Waiting(call)
        if status.status != "scheduled":
            status.to("scheduled")
        try:
            answer = await self._once_allowed(call, step, status)
        except Asked as asked:
            why = {"reason": "its server asks", "form": asked.form, "uncertain": "", "doubted": []}
            return await self._wait(call, step.args, status, why)
        if isinstance(answer, Doubt):
            return await self._in_doubt(call, step.args, answer, status)
        return ended(call, step.args, answer, status)

    async def _answered(
        self, call: PendingCall, step: Settled, status: CallStatus
    ) -> CallRecord | _Waiting:
        args, result = step.args or call["args"], ToolResult(step.text, is_error=True)
        if step.status == "success":
            result = replace(result, is_error=False)
            await self.book.ran(call, self._intent(call, args), result)
        elif step.reason == GAVE_UP:
            await self.book.give_up(call)
        elif _may_have_run(call):
            past = await self._past(call, args, step.text)
            if isinstance(past, Doubt):
                return await self._in_doubt(call, args, past, status)
            if past is not None:
                return ended(call, args, past, status)
        return ended(call, call["args"], Answered(result, step.status, step.reason), status)

    def _intent(self, call: PendingCall, args: dict[str, Any]) -> Intent:
        tool = self.settling.gate.catalog.find(call["name"], call["server"])
        return self.book.intent(call, tool, args)

    async def _past(
        self, call: PendingCall, args: dict[str, Any], bar: str
    ) -> Answered | Doubt | None:
        """What to say of a call that cannot run now, if a crash came after it was begun."""
        intent = self._intent(call, args)
        if not call.get("known"):  # nor does what stands for other calls count
            intent = replace(intent, content="")
        (found,) = await self.book.look([intent])
        if isinstance(found, Recorded):
            return self._known(found)
        if not isinstance(found, Doubt) or found.other:
            return None
        if not call.get("uncertain"):
            return found
        # A human had it run again, which cannot be done: to ask once more would bring no more.
        told = say("doubted_and_barred", why=found.why, bar=bar, advice=say("report_doubt"))
        return Answered(ToolResult(told, is_error=True), "cancelled", "uncertain")

    def _known(self, found: Recorded) -> Answered:
        """The answer of a write that was made before, by this call or for another one."""
        result = found.result
        if found.source and not self.plain:
            told = say("made_before", source=found.source, result=result.text)
            result = replace(result, text=told)
        return Answered(
            result, stored=found.stored, counts=not found.source, reused_from=found.source,
            args=found.arguments,
        )  # fmt: skip

    async def _in_doubt(
        self, call: PendingCall, args: dict[str, Any], doubt: Doubt, status: CallStatus
    ) -> CallRecord | _Waiting:
        """A call that may have been made: a human decides, or nobody repeats it."""
        args = doubt.arguments(args)
        if not self.scope.can_ask:
            text = say("doubted_nobody_asked", why=doubt.why, advice=say("report_doubt"))
            refused = Answered(ToolResult(text, is_error=True), "cancelled", "uncertain")
            return ended(call, args, refused, status)
        return await self._wait(call, args, status, doubt.told())

    async def _wait(
        self, call: PendingCall, args: dict[str, Any], status: CallStatus, why: Mapping[str, Any]
    ) -> _Waiting:
        """Leave a call to a human; each question has a key of its own."""
        self.held = True
        status.to("awaiting_approval", reason="uncertain" if why["uncertain"] else why["reason"])
        asked = waiting(call, args, why)
        await tell_waiting(self.scope, asked)
        return _Waiting(asked)

    async def _once_allowed(
        self, call: PendingCall, ready: Ready, status: CallStatus
    ) -> Answered | Doubt:
        """Answer a call that goes round in circles or is known, make every other."""
        exempt = ready.tool.polls or call.get("uncertain") or call.get("form")
        circle = None if exempt else repeats(
            self.history, call["name"], ready.args, again=ready.again, content=self._content
        )  # fmt: skip
        if circle is not None:
            told = ToolResult(circle.text, is_error=True)
            return Answered(told, "error", circle.reason, same_as=circle.same_as)
        async with self.memory.use(
            ready.tool,
            ready.args,
            context=self.scope.context,
            user_id=self.scope.user,
            again=ready.again,
        ) as use:
            if use.known is not None:
                known = use.known
                result = known.result if self.plain else known.reused()
                return Answered(result, stored=known.stored, reused_from=known.id)
            answer = await self._paid(call, ready, status)
            if isinstance(answer, Answered):
                use.keep(call["id"], answer.result, answer.stored)
                if answer.reason == "uncertain":
                    use.unsettled()
            return answer

    def _content(self, name: str, arguments: Mapping[str, Any]) -> str:
        tool = self.settling.gate.catalog.find(name)
        return tool.content(arguments) if tool else canonical(arguments)

    async def _paid(self, call: PendingCall, ready: Ready, status: CallStatus) -> Answered | Doubt:
        if not self.scope.budget.reserve_tool_call():
            told = say("calls_spent", advice=say("answer_with_it"))
            spent = Answered(ToolResult(told, is_error=True), "error")
            if ready.tool.read_only:
                return spent
            return await self._past(call, ready.args, told) or spent
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
            if isinstance(row, Recorded):
                return self._known(row)
            self.wrote = True
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
            ambiguous = answer.reason == "uncertain"
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
        if tool is READER:
            made, stored = await run_once(tool, self.results.read(ready.args, cap), deadline), ""
        else:
            made = await run_once(tool, self._sent(call, ready, key), deadline)
            status.returned = True
            result = await self._hooked(call, ready, made)
            result, stored = await self.results.shorten(result, cap)
            made = replace(made, result=result)
        return Answered(
            made.result,
            reason="uncertain" if made.ambiguous else "",
            stored=stored,
            ran=True,
            counts=True,
            seconds=time.monotonic() - began,
            args=ready.args,
        )

    async def _sent(self, call: PendingCall, ready: Ready, key: str) -> Any:
        tool = ready.tool
        about = {
            "loopwright/thread": self.scope.thread,
            "loopwright/task": call["task"],
            "loopwright/call": call["id"],
            "loopwright/idempotency_key": key,
        }
        if tool.tool is None:
            return await self.toolbox.call_server(
                tool, ready.args, user_id=self.scope.user, meta=about, emit=self.scope.emit,
                turn=self.scope.turn, can_ask=self.scope.can_ask and not call.get("tail_of"),
                reply=ready.reply,
            )  # fmt: skip
        told = {"type": "tool_output", "id": call["id"], "task": call["task"], "tool": call["name"]}
        return await call_python(
            tool, ready.args, call_id=call["call_id"], about=about, context=self.scope.context,
            store=self.scope.store, write=lambda value: self.scope.emit({**told, "value": value}),
        )  # fmt: skip

    async def _hooked(self, call: PendingCall, ready: Ready, made: Ended) -> ToolResult:
        if "AfterTool" not in self.scope.hooks.events:
            return made.result
        original = call.get("tail_of", "")
        tail: TailCall | None = None if original else partial(self._tail, call)
        return await after_tool(
            ready.tool, ready.args, made.result, self.scope.hooks, emit=self.scope.emit, tail=tail,
            original=original,
        )  # fmt: skip

    async def _tail(self, call: PendingCall, name: str, args: dict[str, Any]) -> ToolResult:
        """The call a hook wants right after another one, if policy allows it without a question."""
        tool = self.settling.gate.catalog.find(name)
        tail = cast("PendingCall", {
            **call, "id": f"{call['id']}.tail", "name": name, "args": args, "action": "allow",
            "server": tool.server if tool else None, "uncertain": "", "doubted": [],
            "tail_of": call["name"], "intent": f"{call.get('intent')}.tail", "before": [],
        })  # fmt: skip
        step = await self.settling.settle_tail(tail)
        if isinstance(step, Settled):
            return failure(say("tail_refused", tool=name, why=step.text))
        if not step.tool.read_only:
            self.memory.written(step.tool.server)
        status = CallStatus(tail, self.scope.emit, "scheduled")
        answer = await self._paid(tail, step, status)
        if isinstance(answer, Doubt):
            return failure(say("tail_in_doubt", tool=name, why=answer.why))
        ended(tail, step.args, answer, status)
        return answer.result

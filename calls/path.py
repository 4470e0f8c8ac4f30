"""The one path by which a tool call runs: a list of wrappers, and the calls of one pass along it.

`open_calls` in `gate` comes before it. A pass reads the human's answers (`apply_decision` in
`approval`), then each of its calls goes through `list_wrappers`. A wrapper is a function that can
be read alone. It answers a call, or lets those behind it do so by `await then(call)` and looks at
what came of it: afterwards the call has a `result` or a `doubt`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, TypeVar, cast

from langgraph.errors import GraphInterrupt

from ..state.calls import SERVER_ASKS, CallState, Evidence
from ..tools.mcp.call import ElicitationPending
from ..turn.scope import RunScope
from ..turn.spans import is_traced
from .after_tool import show_to_hooks
from .approval import Decisions, apply_decision, find_decision, select_for_pass
from .call_records import (
    Call,
    PassResult,
    PendingCall,
    emit_waiting,
    mark_waiting,
    tell_end,
    update_call,
)
from .gate import Gate
from .guard import guard_by_tables, note_verification
from .journal import CallJournal, answer_unasked, journal_write
from .limits import count_unmade, guard_against_loops, pay_for_call
from .result_store import ResultStore, cap_size
from .reuse import ReadCache, reuse_result
from .sending import answer_by_handler, mark_executing, send_call, trace_call
from .subjects import note_change
from .toolbox import Toolbox

T = TypeVar("T")

Then = Callable[[Call], Awaitable[None]]
"""Hands a call to the wrappers behind."""

Wrapper = Callable[["PassScope", Call, Then], Awaitable[None]]
"""One stage of the path; what its tool, its server or a hook asks is raised through it."""


@dataclass(kw_only=True)
class PassScope:
    """What the calls of one pass share."""

    scope: RunScope
    toolbox: Toolbox
    gate: Gate
    book: CallJournal
    results: ResultStore
    memory: ReadCache | None
    """Results that may be reused; None where no tool's may be."""
    history: Sequence[Evidence]
    """The calls before this message."""
    beside: list[Evidence]
    """The calls of the same message that have ended, in this pass or an earlier one."""
    plain: bool
    state: CallState | None
    shared: bool
    """Several calls run in this pass."""
    run_along: Callable[["PassScope", Call], Awaitable[None]]
    """Takes a call through its wrappers."""
    closed: bool = False
    """No further call of the pass begins."""
    wrote: bool = False
    asked: dict[str, PendingCall] = field(default_factory=dict)
    """The calls that a human must decide on first, by id."""


NOT_RECORDED: Final = (
    "Tool calls are recorded in memory only, so a resume after a crash has to ask about each that "
    "may have changed something: build the graph with durability=open_durability(url), or set "
    "LOOPWRIGHT_DATABASE_URL where a server loads it."
)


def list_wrappers(work: PassScope, call: Call) -> list[Wrapper]:
    """The wrappers of a call, outermost first; what is not configured is not among them."""
    tool, pending, has_tables = call.known_tool, call.pending, work.gate.guard is not None
    of_hook = bool(pending.get("tail_of"))  # the call before it has passed the outer ones
    may_repeat = tool.polls or any(pending.get(key) for key in ("doubt", "form"))
    chosen = {
        guard_by_tables: has_tables,
        guard_against_loops: work.history and not (may_repeat or of_hook),
        answer_by_handler: tool.own,
        reuse_result: work.memory is not None and not of_hook,
        pay_for_call: True,
        journal_write: not tool.read_only,
        note_change: has_tables,
        mark_executing: True,
        cap_size: True,
        note_verification: has_tables,
        show_to_hooks: "AfterTool" in work.scope.hooks.events,
        trace_call: is_traced(),
        send_call: True,
    }
    return [wrapper for wrapper, is_configured in chosen.items() if is_configured]


async def _run_wrappers(work: PassScope, call: Call) -> None:
    """Take a call through its wrappers."""
    await _run_next(work, list_wrappers(work, call), call)


async def _run_next(work: PassScope, wrappers: Sequence[Wrapper], call: Call) -> None:
    await wrappers[0](work, call, partial(_run_next, work, wrappers[1:]))


async def run_calls(
    scope: RunScope,
    toolbox: Toolbox,
    calls: Sequence[Mapping[str, Any]],
    *,
    decisions: Decisions | None = None,
    history: Sequence[Evidence] = (),
    plain: bool = False,
    state: CallState | None = None,
) -> PassResult:
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
    planned, decided = [cast("PendingCall", call) for call in calls], decisions or {}
    now = select_for_pass(planned, decided)
    # What policy asks about by now was approved, or is refused as such: see `settle`.
    gate = await Gate.for_run(toolbox, replace(scope, can_ask=True))
    work = PassScope(
        scope=scope,
        gate=gate,
        book=CallJournal(scope, plain=plain),
        toolbox=toolbox,
        memory=toolbox.find_read_cache(scope),
        results=toolbox.open_results(scope),
        history=(before := _list_earlier(history, planned)),
        beside=[*history[len(before) :]],
        plain=plain,
        state=state,
        shared=len(now) > 1,
        run_along=_run_wrappers,
    )
    ready = [Call.from_pending(call, scope.emit, gate.find_tool(call)) for call in now]
    for call in ready:
        await apply_decision(gate, call, find_decision(call.pending, decided))
    is_write = [call.result is None and not call.known_tool.read_only for call in ready]
    runs = [partial(_finish_call, work, call) for call in ready]
    ends = await run_in_order([*zip(is_write, runs, strict=True)])
    if work.wrote and scope.run.durable and not scope.journal.durable:
        scope.notes.append(NOT_RECORDED)
    answered = [call for call, has_ended in zip(ready, ends, strict=True) if has_ended]
    ended = {call.id for call in answered}
    waiting = [work.asked.get(c["id"], c) for c in planned if c["id"] not in ended]
    return PassResult(answered, waiting)


def _list_earlier(history: Sequence[Evidence], calls: Sequence[PendingCall]) -> list[Evidence]:
    """The calls before this message, of which earlier passes may have answered some."""
    message, end = calls[0]["id"].rpartition(".")[0] if calls else "", len(history)
    while end and history[end - 1]["id"].rpartition(".")[0] == message:
        end -= 1
    return [*history[:end]]


async def _finish_call(work: PassScope, call: Call) -> bool:
    """Take one call to its end; False if it must wait."""
    if not await _answer_call(work, call):
        return False
    if (doubt := call.doubt) is not None:
        args = doubt.arguments(call.args)
        if work.scope.can_ask:
            await _ask_human(work, call, args, doubt.reason, doubt=doubt.to_in_doubt())
            return False
        call.args = args
        answer_unasked(call, doubt)
    tell_end(call)
    work.beside.append(call.evidence)
    return True


async def _answer_call(work: PassScope, call: Call) -> bool:
    """Make a call unless it is known; False where it waits, for others or for a human."""
    if call.result is not None:
        await work.book.record_decision(call)
        if call.result is not None:
            count_unmade(work, call)
        return True
    reads = call.known_tool.read_only
    if work.closed or work.scope.run.stopped() or (work.asked and not reads):
        return False
    if call.status != "scheduled":
        call.change_status("scheduled")
    try:
        await _run_wrappers(work, call)
    except ElicitationPending as asked:
        await _ask_human(work, call, call.args, SERVER_ASKS, form=asked.form)
        return False
    except GraphInterrupt:
        # LangGraph matches answers to interrupts by position, so only one call of a pass may
        # interrupt: a read among others waits for a pass of its own.
        if call.returned is not None or not (work.shared and reads):
            raise
        work.asked[call.id] = update_call(call.pending, alone=True)
        return False
    return True


async def _ask_human(
    work: PassScope, call: Call, args: dict[str, Any], reason: str, **why: object
) -> None:
    """Leave a call to a human."""
    call.pending = work.asked[call.id] = mark_waiting(call.pending, args, reason, **why)
    await emit_waiting(work.scope, call)


async def run_in_order(
    steps: Sequence[tuple[bool, Callable[[], Coroutine[Any, Any, T]]]],
) -> list[T]:
    """Run some work side by side and some alone, everything after what stands before it.

    Args:
        steps: Pairs of (must run alone, coroutine function).

    Returns:
        The results, in the order given.
    """
    results: list[T] = []
    together: list[Coroutine[Any, Any, T]] = []
    for alone, run in steps:
        if not alone:
            together.append(run())
            continue
        results += await run_parallel(together)
        results += await run_parallel([run()])
        together = []
    return results + await run_parallel(together)


async def run_parallel(work: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """Wait for all of it, also when one raises: its siblings' results must not get lost."""
    tasks = [asyncio.ensure_future(coroutine) for coroutine in work]
    if not tasks:
        return []
    try:
        await asyncio.wait(tasks)
    except asyncio.CancelledError:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        raise
    for task in tasks:  # each exception has to be looked at, though only the first is raised
        if not task.cancelled():
            task.exception()
    return [task.result() for task in tasks]

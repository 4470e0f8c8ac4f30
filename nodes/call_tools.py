"""Run the calls of one model turn along the one path every call takes."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

from langgraph.runtime import Runtime

from ..calls.approval import still_open
from ..calls.call_records import CallRecord, as_evidence
from ..calls.commands import messages_of, values_of, wanted
from ..calls.path import run_calls
from ..state.calls import (
    STOPPED,
    UNCERTAIN,
    CallState,
    CallsUpdate,
    left_in_doubt,
    stopped_after,
)
from ..state.context import Context
from ..state.outcome import Spend
from ..text.told import say
from ..turn.repetition import LAST_STRIKE, LOOP_DETECTED, loop_told, strikes_of
from ..turn.scope import RunScope, scope_of
from .parts import Parts


class PassUpdate(CallsUpdate, total=False):
    """What a pass over the calls changes."""

    messages: list[Any]
    spend: Spend
    warnings: list[str]


Ended = Callable[[str, str], Any]
"""What a graph changes besides where it cannot go on behind calls: `uncertain`, `loop_detected` or
`denied`, and why in words; `stopped` where the turn ends before some of them began."""


def turn_ended(reason: str, why: str) -> Any:
    """A doubt with nobody to ask, a loop or a hook ends the turn; whoever stops it does so."""
    if reason == STOPPED:
        return {}
    if reason == UNCERTAIN:  # the outcome names the call
        return {"halt": "NOT_INTERACTIVE"}
    return {"halt": "LOOP_DETECTED" if reason == LOOP_DETECTED else "DENIED", "unmet": [why]}


async def call_tools(
    state: CallState, runtime: Runtime[Context], *, parts: Parts, role: str, ended: Ended
) -> PassUpdate:
    """Run what may run now; each call gets one tool message, in this pass or in a later one."""
    scope = await scope_of(state, runtime, parts)
    scope = replace(scope, run=replace(scope.run, role=role))
    done = await run_calls(
        scope, parts.toolbox, state.calls, decisions=state.decisions, history=state.own_evidence,
        state=state,
    )  # fmt: skip
    records, before = done.records, state.denied if _goes_on(state) else ""
    cancelled = [r["reason"] for r in records if r["status"] == "cancelled"]
    update = _by_tools(state, records, waits=bool(done.waiting)) | PassUpdate(
        evidence=[as_evidence(record) for record in records if not record.get("own")],
        denied=cancelled[-1] if cancelled else before,
        strikes=max(state.strikes, strikes_of(records)),
        spend=scope.used(Spend(tool_calls=sum(r["counts"] for r in records))),
        warnings=scope.notes,
    )
    update |= still_open(state, done.waiting)
    if why := _cannot_go_on(scope, records):
        update |= ended(*why)
    elif done.waiting and scope.run.stopped():
        update |= ended(STOPPED, "")
    return update


def _by_tools(state: CallState, records: Sequence[CallRecord], *, waits: bool) -> PassUpdate:
    """What tools want changed; their messages follow once every call of the turn has its answer."""
    answers = [record["message"] for record in records]
    if not (state.held or any(record.get("update") for record in records)):
        return PassUpdate(messages=answers, held=[], found=[])
    wishes = wanted(records)
    held = [*state.held, *(wish for wish in wishes if wish.get("messages"))]
    added = [] if waits else messages_of(held, state.turn_id, state.messages)
    found = [name for wish in wishes for name in wish.get("found", [])]
    return (
        PassUpdate(messages=[*answers, *added], held=held if waits else [])
        | cast("PassUpdate", values_of(wishes))
        | PassUpdate(found=found)
    )


def _goes_on(state: CallState) -> bool:
    """Whether an earlier pass has answered some calls of the same message."""
    newest = state.evidence[-1]["id"].rpartition(".")[0] if state.evidence else ""
    return bool(state.calls) and str(state.calls[0]["id"]).rpartition(".")[0] == newest


def _cannot_go_on(scope: RunScope, records: Sequence[CallRecord]) -> tuple[str, str] | None:
    """A doubt with nobody to ask, a loop that goes on after a warning, or a hook's word."""
    evidence = [as_evidence(record) for record in records]
    if doubtful := [record for record in evidence if left_in_doubt(record)]:
        words = "; ".join(f"{record['tool']} ({record['id']})" for record in doubtful)
        return UNCERTAIN, say("task_in_doubt", calls=words)
    if strikes_of(records) >= LAST_STRIKE:
        what = loop_told(evidence, scope.run.model_turn)
        scope.emit({"type": "loop", "task": scope.path, "strike": LAST_STRIKE, "what": what})
        return LOOP_DETECTED, what
    stopped = stopped_after([record["message"] for record in records])
    return ("denied", stopped) if stopped else None

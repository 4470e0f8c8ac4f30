"""Run the calls of one model turn along the one path every call takes."""

from collections.abc import Callable, Sequence
from typing import Any

from langgraph.runtime import Runtime
from langgraph.types import Overwrite
from typing_extensions import TypedDict

from ..calls.approval import decision_key
from ..calls.call_records import Pass, PendingCall, as_evidence
from ..calls.path import run_calls
from ..state.calls import UNCERTAIN, CallState, Evidence, left_in_doubt, stopped_after
from ..state.context import Context
from ..state.loop import changes
from ..state.outcome import Spend
from ..state.repetition import LAST_STRIKE, LOOP_DETECTED, loop_told, strikes_of
from ..state.told import say
from ..turn.scope import RunScope, scope_of
from .parts import Parts


class CallsUpdate(TypedDict, total=False):
    """What a pass over the calls changes."""

    messages: list[Any]
    calls: list[Any]
    decisions: Overwrite
    objections: Overwrite
    evidence: list[Evidence]
    denied: str
    strikes: int
    spend: Spend
    warnings: list[str]


Ended = Callable[[str, str], Any]
"""What a graph changes besides where calls say that it cannot go on: `uncertain`, `loop_detected`
or `denied`, and why in words."""


async def call_tools(
    state: CallState, runtime: Runtime[Context], *, parts: Parts, ended: Ended
) -> CallsUpdate:
    """Run what may run now; each call gets one tool message, in this pass or in a later one."""
    scope = await scope_of(state, runtime, parts)
    done = await run_calls(
        scope, parts.toolbox, state.calls, decisions=state.decisions, history=state.evidence
    )
    update = _changed(state, done)
    update["spend"] = scope.used(Spend(tool_calls=sum(r["counts"] for r in done.records)))
    if scope.notes:
        update["warnings"] = scope.notes
    if why := _cannot_go_on(scope, update):
        update |= ended(*why)
    return changes(state, update)


def _cannot_go_on(scope: RunScope, changed: CallsUpdate) -> tuple[str, str] | None:
    """A doubt with nobody to ask, a loop that goes on after a warning, or a hook's word."""
    evidence = changed["evidence"]
    if doubtful := [record for record in evidence if left_in_doubt(record)]:
        words = "; ".join(f"{record['tool']} ({record['id']})" for record in doubtful)
        return UNCERTAIN, say("task_in_doubt", calls=words)
    if changed.get("strikes", 0) >= LAST_STRIKE:
        what = loop_told(evidence)
        scope.emit({"type": "loop", "task": scope.path, "strike": LAST_STRIKE, "what": what})
        return LOOP_DETECTED, what
    stopped = stopped_after(changed["messages"])
    return ("denied", stopped) if stopped else None


def _changed(state: CallState, done: Pass) -> CallsUpdate:
    cancelled = [r["reason"] for r in done.records if r["status"] == "cancelled"]
    before = state.denied if _goes_on(state) else ""
    update = _still_open(state, done.waiting) | CallsUpdate(
        messages=[record["message"] for record in done.records],
        evidence=[as_evidence(record) for record in done.records],
        denied=cancelled[-1] if cancelled else before,
    )
    if strikes_of(done.records) > state.strikes:
        update["strikes"] = strikes_of(done.records)
    return update


def _goes_on(state: CallState) -> bool:
    """Whether an earlier pass has answered some calls of the same message."""
    newest = state.evidence[-1]["id"].rpartition(".")[0] if state.evidence else ""
    return bool(state.calls) and str(state.calls[0]["id"]).rpartition(".")[0] == newest


def _still_open(state: CallState, waiting: Sequence[PendingCall]) -> CallsUpdate:
    """The calls that wait, and the answers to them: an approval is good for one call only."""
    keys, update = {decision_key(call) for call in waiting}, CallsUpdate(calls=[*waiting])
    if state.decisions or state.objections:  # every key written is a row in the database
        update["decisions"] = Overwrite({k: v for k, v in state.decisions.items() if k in keys})
        update["objections"] = Overwrite({k: v for k, v in state.objections.items() if k in keys})
    return update

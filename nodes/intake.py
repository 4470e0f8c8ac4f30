"""Intake: the start of every user turn; begins a new request or takes the last one up again."""

import hashlib
import uuid

from langgraph.types import Overwrite

from ..state.loop import PlanState, PlanUpdate, changes
from ..state.migrations import SCHEMA_VERSION
from ..state.plan import Task


async def intake(state: PlanState) -> PlanUpdate:
    """Reset the guards; keep plan and evidence only where the same request goes on."""
    request = _request_id(state)
    same_request = bool(request) and request == state.request_id
    update = _fresh_guards(state)
    update["request_id"] = request
    update["allowance"] = state.allowance + 1 if same_request else 1
    if same_request or _was_cut_off(state):
        update["todos"] = Overwrite([_reopened(task) for task in state.todos])
        update["improvements"] = state.improvements if same_request else []
    else:
        update |= {"todos": Overwrite([]), "evidence": Overwrite([]), "answers": []}
    return changes(state, update)


def _request_id(state: PlanState) -> str:
    """The newest human message, by its id and its words: clients may reuse an id."""
    newest = next((m for m in reversed(state.messages) if m.type == "human"), None)
    if newest is None:
        return ""
    words = hashlib.sha256(newest.text.encode("utf-8", "replace")).hexdigest()[:8]
    return f"{newest.id}-{words}"


def _fresh_guards(state: PlanState) -> PlanUpdate:
    return PlanUpdate(
        schema_version=SCHEMA_VERSION,
        turn=state.turn + 1,
        turn_id=f"{state.turn + 1}-{uuid.uuid4().hex[:12]}",
        outcome=None,
        task_completed=False,
        should_continue=True,
        improvements=[],
        halt=None,
        spend=Overwrite({}),
        warnings=Overwrite([]),
        planning_rounds=0,
        cycles=0,
        missing=[],
        blockers=[],
    )


def _was_cut_off(state: PlanState) -> bool:
    """A crashed turn left finished tasks and no outcome: a new message may still use them."""
    return state.outcome is None and any(t["status"] == "completed" for t in state.todos)


def _reopened(task: Task) -> Task:
    """Fresh limits for every task; what did not finish may be planned again."""
    afresh: Task = {**task, "rounds_this_turn": 0}
    if task["status"] == "completed":
        return afresh
    return {**afresh, "status": "pending", "denied": ""}

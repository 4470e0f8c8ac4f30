"""Run the calls of a task's model turn, and end the task where one of them is in doubt."""

from typing import cast

from langgraph.runtime import Runtime

from ...state.context import Context
from ...state.evidence import left_in_doubt
from ...state.loop import TaskState, TaskUpdate
from ...state.told import say
from ..call_tools import CallsUpdate, call_tools
from ..parts import Parts


async def call_task_tools(
    state: TaskState, runtime: Runtime[Context], *, parts: Parts
) -> TaskUpdate:
    """Run what may run now; a call that may have run, with nobody to ask, fails the task."""
    changed = await call_tools(state, runtime, parts=parts)
    return cast("TaskUpdate", changed) | _ended(changed)


def _ended(changed: CallsUpdate) -> TaskUpdate:
    doubtful = [record for record in changed["evidence"] if left_in_doubt(record)]
    if not doubtful:
        return TaskUpdate()
    words = "; ".join(f"{record['tool']} ({record['id']})" for record in doubtful)
    why = say("task_in_doubt", calls=words)
    return TaskUpdate(status="failed", feedback=why, denied="uncertain")

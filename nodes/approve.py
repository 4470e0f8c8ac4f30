"""Ask a human about one tool call. One interrupt, one action, nothing before it."""

from langgraph.types import interrupt

from ..state.answers import Answer
from ..state.loop import TaskState, TaskUpdate
from ..tools.planning import question, undecided


async def approve(state: TaskState) -> TaskUpdate:
    """Put the first undecided call to the human and keep the answer under its id."""
    call = undecided(state.calls, state.decisions)[0]
    answer = interrupt(question(call), response_schema=Answer)
    return TaskUpdate(decisions={call["id"]: answer.model_dump()})

"""Ask a human about one tool call. One interrupt, one action, nothing before it."""

from langgraph.runtime import Runtime
from langgraph.types import interrupt

from ..state.answers import Answer
from ..state.context import Context, context_of
from ..state.loop import TaskState, TaskUpdate
from ..tools.planning import Gate, objection_to, question, undecided
from .parts import Parts
from .run_facts import user_id


async def approve(state: TaskState, runtime: Runtime[Context], *, parts: Parts) -> TaskUpdate:
    """Put the first undecided call to the human and keep the answer under its id.

    An edit that cannot run is no decision: the call stays undecided, and is asked about again
    with what is wrong.
    """
    call = undecided(state.calls, state.decisions)[0]
    answer = interrupt(question(call, state.objections.get(call["id"], "")), response_schema=Answer)
    if answer.type == "edit":
        catalog = await parts.toolbox.catalog(user_id())
        gate = Gate(catalog, parts.toolbox.policy, context_of(runtime), can_ask=True)
        objection = objection_to(call, answer.name, answer.args, gate)
        if objection:
            return TaskUpdate(objections={call["id"]: objection})
    return TaskUpdate(decisions={call["id"]: answer.model_dump()})

"""Finish: the honest outcome of a turn of prompt_flow, and its final answer."""

from langchain_core.messages import RemoveMessage
from langgraph.runtime import Runtime

from ...state.context import Context
from ...state.flow import FlowState, FlowUpdate
from ...state.loop import changes
from ...turn.end import answer_id, end_turn
from ...turn.scope import scope_of
from ..parts import Parts
from .outcome import facts_of


async def flow_finish(state: FlowState, runtime: Runtime[Context], *, parts: Parts) -> FlowUpdate:
    """End the turn, or go back for another answer from the same results."""
    scope = await scope_of(state, runtime, parts)
    another = FlowUpdate(messages=[RemoveMessage(id=answer_id(state))])
    update: FlowUpdate = await end_turn(scope, state, facts_of(state), lambda _: another)
    return changes(state, update)

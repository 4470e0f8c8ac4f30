"""check_limits: a limit is reached, so one more turn may save what there is."""

from langgraph.runtime import Runtime

from ...state.agent import AgentState, AgentUpdate, find_reached_limit
from ...state.context import Context
from .shared.agent import Agent


async def check_limits(
    state: AgentState, runtime: Runtime[Context], *, agent: Agent
) -> AgentUpdate:
    """Say which limit ends the work."""
    await agent.scope(state, runtime)
    return AgentUpdate(halt=state.halt or find_reached_limit(state))

"""Intake: begins a turn of the graph's own agent; calls that were cut off are answered."""

from langgraph.runtime import Runtime

from ...state.agent import TaskAgentState, TaskAgentUpdate, limits_of
from ...state.context import Context
from ...turn.begin import answered, begin_turn
from ...turn.scope import RunScope, scope_of
from .shared.agent import Agent
from .shared.requests import behind_newest
from .team.background import cut_off_beside
from .team.delegate import how_cut_off


async def agent_intake(
    state: TaskAgentState, runtime: Runtime[Context], *, agent: Agent
) -> TaskAgentUpdate:
    """Begin the turn, with the agent's limits or the run's where those are tighter."""
    scope = await scope_of(state, runtime, agent.parts)

    async def adopted(scope: RunScope, state: TaskAgentState) -> TaskAgentUpdate:
        known = await how_cut_off(scope, state)
        beside, evidence = await cut_off_beside(scope, state)
        messages = await answered(scope, state, [*state.calls, *state.delegations], known)
        messages += behind_newest(state, beside) if beside else []
        limits = limits_of(scope.context, agent.definition.limits)
        update = TaskAgentUpdate(messages=messages, limits=limits, background=[], awaited=False)
        if state.stopping and (state.cut_off or evidence):
            ended = [record for end in state.cut_off for record in end["evidence"]]
            update["evidence"] = [*ended, *evidence]
        return update

    for text in agent.definition.warnings:
        scope.emit({"type": "warning", "text": text})
    update: TaskAgentUpdate = await begin_turn(scope, state, adopted, agent.parts.missing)
    update["found"] = await agent.parts.likely(scope, state, update)
    return update

"""gather: takes in what came of those in the background, and tells whoever delegated to them."""

from collections.abc import Sequence
from functools import reduce

from langgraph.errors import GraphInterrupt
from langgraph.runtime import Runtime

from ....state.agent import AgentState, AgentUpdate
from ....state.context import Context
from ....state.outcome import Spend, add_spend
from ....text.sentences import say
from ....turn.schedule import collect_questions, raise_first
from ....turn.scope import RunScope
from ..shared.agent import Agent
from ..shared.requests import append_to_newest
from .background import Runs, get_background, keep_background_running
from .sub_agents import AgentEnd, SubAgents


async def gather(
    state: AgentState, runtime: Runtime[Context], *, agent: Agent, runs: Runs
) -> AgentUpdate:
    """Take in those that have ended, and wait for all where the agent has nothing else to do.

    Only then is asked what one of them asks: until then the work goes on without it.
    """
    scope = await agent.scope(state, runtime)
    waits = is_waiting(state)
    with keep_background_running(scope, state, agent, runs, state.background) as crew:
        found = await get_background().collect_results(wait=waits)
        ends = [end for end in found.values() if not isinstance(end, BaseException)]
        failed = [end for end in found.values() if isinstance(end, BaseException)]
        for end in ends:
            crew.note_end(end)
        if waits and (questions := collect_questions(failed)):
            await crew.show_asked(questions, ends)
            raise GraphInterrupt(questions)
        if waits:
            raise_first(failed)
    return _fold_ends(scope, state, crew, ends)


def is_waiting(state: AgentState) -> bool:
    """Whether the agent has nothing to do before it knows what came of those in the background."""
    over = state.report or state.halt or not state.should_continue
    return bool(state.awaited or state.nudged or over)


def _fold_ends(
    scope: RunScope, state: AgentState, crew: SubAgents, ends: Sequence[AgentEnd]
) -> AgentUpdate:
    """What those that ended change in the agent that delegated: it is told, and goes on."""
    update = AgentUpdate(awaited=False)
    if not ends:
        return update
    for end in ends:
        get_background().forget(end["call"])
    over = {end["call"] for end in ends}
    told = [say("background_ended", handle=end["told"]["path"], result=end["text"]) for end in ends]
    update |= crew.update(ends)
    update["messages"] = [*update["messages"], *append_to_newest(state, "\n\n".join(told))]
    update["background"] = [call for call in state.background if call["id"] not in over]
    used = reduce(add_spend, (end["spend"] for end in ends), Spend())
    update["spend"] = scope.add_seconds(
        used | Spend(seconds=0.0)
    )  # the agent's own nodes take the time
    if state.halt or not state.should_continue:
        return update
    return update | AgentUpdate(report=None, nudged=False, task_completed=False)

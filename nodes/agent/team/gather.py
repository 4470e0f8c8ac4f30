"""gather: takes in what came of those in the background, and tells whoever delegated to them."""

from collections.abc import Sequence
from functools import reduce

from langgraph.errors import GraphInterrupt
from langgraph.runtime import Runtime

from ....state.agent import AgentState, AgentUpdate
from ....state.context import Context
from ....state.outcome import Spend, add_spend
from ....text.told import say
from ....turn.schedule import questions_in, raise_first
from ....turn.scope import RunScope
from ..shared.agent import Agent
from ..shared.requests import behind_newest
from .background import Runs, accompanied_by, beside_of_run
from .crew import AgentEnd, Crew


async def gather(
    state: AgentState, runtime: Runtime[Context], *, agent: Agent, runs: Runs
) -> AgentUpdate:
    """Take in those that have ended, and wait for all where the agent has nothing else to do.

    Only then is asked what one of them asks: until then the work goes on without it.
    """
    scope = await agent.scope(state, runtime)
    waits = is_waiting(state)
    with accompanied_by(scope, state, agent, runs, state.background) as crew:
        found = await beside_of_run().ends(wait=waits)
        ends = [end for end in found.values() if not isinstance(end, BaseException)]
        failed = [end for end in found.values() if isinstance(end, BaseException)]
        for end in ends:
            crew.ended(end)
        if waits and (questions := questions_in(failed)):
            await crew.asked(questions, ends)
            raise GraphInterrupt(questions)
        if waits:
            raise_first(failed)
    return _gathered(scope, state, crew, ends)


def is_waiting(state: AgentState) -> bool:
    """Whether the agent has nothing to do before it knows what came of those in the background."""
    over = state.report or state.halt or not state.should_continue
    return bool(state.awaited or state.nudged or over)


def _gathered(
    scope: RunScope, state: AgentState, crew: Crew, ends: Sequence[AgentEnd]
) -> AgentUpdate:
    """What those that ended change in the agent that delegated: it is told, and goes on."""
    update = AgentUpdate(awaited=False)
    if not ends:
        return update
    for end in ends:
        beside_of_run().forget(end["call"])
    over = {end["call"] for end in ends}
    told = [say("background_ended", handle=end["told"]["path"], result=end["text"]) for end in ends]
    update |= crew.update(ends)
    update["messages"] = [*update["messages"], *behind_newest(state, "\n\n".join(told))]
    update["background"] = [call for call in state.background if call["id"] not in over]
    used = reduce(add_spend, (end["spend"] for end in ends), Spend())
    update["spend"] = scope.used(used | Spend(seconds=0.0))  # the agent's own nodes take the time
    if state.halt or not state.should_continue:
        return update
    return update | AgentUpdate(report=None, nudged=False, task_completed=False)

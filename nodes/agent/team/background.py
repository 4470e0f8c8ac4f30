"""Sub-agents in the background work beside the steps of the agent that delegated to them.

Each is saved at its own place, so the next node resumes it whatever ended the run.
"""

from collections import ChainMap
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import reduce
from typing import Any, Final, cast

from langgraph.errors import GraphBubbleUp, GraphInterrupt
from langgraph.runtime import RunControl, Runtime, get_runtime

from ....calls.call_records import PendingCall
from ....run.side_work import get_side_work
from ....state.agent import AgentState, AgentUpdate, TaskAgentState, make_agent_path
from ....state.calls import Evidence
from ....state.context import Context
from ....state.outcome import Spend, add_spend
from ....store.locks.control import InnerControl
from ....text.sentences import say
from ....turn.begin import describe_rows, explain_cut, make_evidence
from ....turn.schedule import collect_questions, raise_first
from ....turn.scope import RunScope, share_scope
from ..shared.agent import Agent
from ..shared.requests import append_to_newest
from .sub_agents import AgentEnd, RunAgent, SubAgents, list_rows

RUNNING: Final = "running"
"""What the call of one is answered as its status."""

Runs = Mapping[str, RunAgent]
"""By the name of an agent: what runs it."""


async def run_with_background(
    state: AgentState,
    runtime: Runtime[Context],
    *,
    action: Callable[..., Awaitable[Any]],
    agent: Agent,
    runs: Runs,
) -> Any:
    """Run a node of the loop while those in the background work on."""
    if not state.background:
        return await action(state, runtime)
    scope = await agent.scope(state, runtime)
    with keep_background_running(scope, state, agent, runs, state.background):
        return await action(state, runtime)


@contextmanager
def keep_background_running(
    scope: RunScope, state: AgentState, agent: Agent, runs: Runs, calls: Sequence[PendingCall]
) -> Iterator[SubAgents]:
    """A node that those work beside who were given these calls; who does not yet, begins."""
    if not calls:
        yield SubAgents(scope, state, agent, runs, ())
        return
    beside = get_side_work()
    for call in calls:
        beside.wishes.setdefault(make_agent_path(state.path, call), [*call.get("wishes", ())])
    wishes = ChainMap(beside.wishes, cast("Any", scope.around.wishes))
    around_it = replace(scope.around, heard=beside.heard, seen=beside.seen, wishes=wishes)
    own = replace(scope, emit=beside.tell, around=around_it)
    beside.control = beside.control or InnerControl(get_runtime().control or RunControl())
    crew = SubAgents(own, state, agent, runs, calls, beside)
    for call in calls:
        if not beside.has(call["id"]):
            most = scope.context.max_parallel_tasks
            beside.begin(call["id"], _work(crew, call["id"]), most=most)
    with beside.forward_events(scope.emit):
        yield crew


async def _work(crew: SubAgents, name: str) -> AgentEnd:
    with share_scope(crew.scope):
        return await crew.run(name, {})


async def recover_background(scope: RunScope, state: TaskAgentState) -> tuple[str, list[Evidence]]:
    """Of a turn that ends before its time: what is told of those in the background, and proven."""
    told: list[str] = []
    evidence: list[Evidence] = []
    for call in state.background:
        path = make_agent_path(state.path, call)
        made = await list_rows(scope, path)
        result = describe_rows(made) if made else explain_cut(state)
        told.append(say("background_ended", handle=path, result=result))
        evidence += [make_evidence(row) for row in made]
        cut = Evidence(unmet=[say("turn_ended_first")])
        evidence += [known | cut for known in state.evidence if known["id"] == call["id"]]
    return "\n\n".join(told), evidence


async def gather(
    state: AgentState, runtime: Runtime[Context], *, agent: Agent, runs: Runs
) -> AgentUpdate:
    """Take in those that have ended; wait for all if the agent has nothing else to do.

    Only then are their questions asked.
    """
    scope = await agent.scope(state, runtime)
    waits = is_waiting(state)
    with keep_background_running(scope, state, agent, runs, state.background) as crew:
        found = await get_side_work().collect_results(wait=waits)
        for name, end in found.items():  # such as one that waits for an answer
            if isinstance(end, GraphBubbleUp) and crew.is_cancelled(name):
                found[name] = await crew.end_cancelled(name)
        ends = [end for end in found.values() if not isinstance(end, BaseException)]
        failed = [end for end in found.values() if isinstance(end, BaseException)]
        for end in ends:
            crew.note_end(end)
        if waits and (questions := collect_questions(failed)):
            await crew.show_asked(questions, ends)
            raise GraphInterrupt(questions)
        if waits:
            raise_first(failed)
    return _fold_results(scope, state, crew, ends)


def is_waiting(state: AgentState) -> bool:
    """Whether the agent has nothing to do before it knows what came of those in the background."""
    over = state.report or state.halt or not state.should_continue
    return bool(state.awaited or state.nudged or over)


def _fold_results(
    scope: RunScope, state: AgentState, crew: SubAgents, ends: Sequence[AgentEnd]
) -> AgentUpdate:
    """The update from ended background agents: the delegating agent gets their reports."""
    update = AgentUpdate(awaited=False)
    if not ends:
        return update
    for end in ends:
        get_side_work().forget(end["call"])
    over = {end["call"] for end in ends}
    told = [say("background_ended", handle=end["told"]["path"], result=end["text"]) for end in ends]
    update |= crew.update(ends)
    update["messages"] = [*update["messages"], *append_to_newest(state, "\n\n".join(told))]
    update["background"] = [call for call in state.background if call["id"] not in over]
    used = reduce(add_spend, (end["spend"] for end in ends), Spend())
    used |= Spend(seconds=0.0)  # the agent's own nodes take the time
    update["spend"] = scope.add_seconds(used)
    if state.halt or not state.should_continue:
        return update
    return update | AgentUpdate(report=None, nudged=False, task_completed=False)

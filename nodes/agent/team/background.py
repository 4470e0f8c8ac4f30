"""Sub-agents in the background: they work beside the steps of the agent that delegated to them.

The state knows whom it waits for, and each is saved at a place of its own. Whatever ends the run
loses nothing: the next node has each of them go on where it was.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from langgraph.config import get_config
from langgraph.runtime import RunControl, Runtime, get_runtime

from ....calls.call_records import PendingCall
from ....run.beside import BESIDE_KEY, Beside
from ....state.agent import AgentState, handle
from ....state.calls import Evidence
from ....state.context import Context
from ....store.locks.control import EndsItself
from ....text.told import say
from ....turn.begin import evidence_of, made_in
from ....turn.scope import RunScope, around
from ..shared.agent import Agent
from .crew import AgentEnd, Crew, RunAgent, is_of

RUNNING: Final = "running"
"""What the call of one is answered as its status."""

Runs = Mapping[str, RunAgent]


async def accompanied(
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
    with accompanied_by(scope, state, agent, runs, state.background):
        return await action(state, runtime)


@contextmanager
def accompanied_by(
    scope: RunScope, state: AgentState, agent: Agent, runs: Runs, calls: Sequence[PendingCall]
) -> Iterator[Crew]:
    """A node that those work beside who were given these calls; who does not yet, begins."""
    if not calls:
        yield Crew(scope, state, agent, runs, ())
        return
    beside = beside_of_run()
    around_it = replace(scope.around, heard=beside.heard, seen=beside.seen)
    own = replace(scope, emit=beside.tell, around=around_it)
    beside.control = beside.control or EndsItself(get_runtime().control or RunControl())
    crew = Crew(own, state, agent, runs, calls, beside)
    for call in calls:
        if not beside.has(call["id"]):
            most = scope.context.max_parallel_tasks
            beside.begin(call["id"], _work(crew, call["id"]), most=most)
    with beside.told_by(scope.emit):
        yield crew


async def _work(crew: Crew, name: str) -> AgentEnd:
    with around(crew.scope):
        return await crew.run(name, {})


def beside_of_run() -> Beside:
    """What works beside the run of the node's graph."""
    beside: Beside = get_config()["configurable"][BESIDE_KEY]
    return beside


async def cut_off_beside(scope: RunScope, state: AgentState) -> tuple[str, list[Evidence]]:
    """Of a turn that ends before its time: what is told of those in the background, and proven."""
    rows = await scope.journal.rows(scope.journaled) if state.background and scope.turn else []
    told: list[str] = []
    evidence: list[Evidence] = []
    for call in state.background:
        path = handle(state.path, call)
        made = [row for row in rows if row.turn == scope.turn and is_of(row.task, path)]
        result = made_in(made) if made else say("superseded")
        told.append(say("background_ended", handle=path, result=result))
        evidence += [evidence_of(row) for row in made]
    return "\n\n".join(told), evidence

"""delegate: sub-agents work on what a message gave them, each in a namespace of its own."""

import json
from collections.abc import Mapping

from langgraph.runtime import Runtime

from ....calls.call_records import PendingCall, changed
from ....state.agent import AgentState, AgentUpdate, TaskAgentState, handle
from ....state.context import Context
from ....text.told import say
from ....turn.begin import How, made_in
from ....turn.schedule import run_ready, used_by
from ....turn.scope import RunScope
from ..shared.agent import Agent
from .background import RUNNING, accompanied_by
from .crew import Crew, RunAgent, end_of, is_of


async def delegate(
    state: AgentState,
    runtime: Runtime[Context],
    *,
    agent: Agent,
    runs: Mapping[str, RunAgent],
) -> AgentUpdate:
    """Run them side by side; whatever becomes of one is data for who delegated, and harms none.

    Those for the background are only begun, and their calls answered with a handle.
    """
    scope = await agent.scope(state, runtime)
    crew = Crew(scope, state, agent, runs, state.delegations)
    later = [
        changed(call, place=f"delegate:{state.turn_id}.{handle(state.path, call)}")
        for call in state.delegations
        if call["args"].get("background") and not crew.told(call)[1]
    ]
    order = [name for name in crew.calls if name not in {call["id"] for call in later}]
    waits: dict[str, list[str]] = {name: [] for name in order}
    background = [*state.background, *later]
    with accompanied_by(scope, state, agent, runs, background):
        ended = await run_ready(
            scope,
            runtime,
            order,
            waits,
            crew.run,
            ended=crew.ended,
            asked=crew.asked,
            together=True,
        )
    for call in later:
        _begun(crew, call)
    update = crew.update(ended) | AgentUpdate(spend=used_by(scope, ended), delegations=[])
    return update | (AgentUpdate(background=background) if later else AgentUpdate())


def _begun(crew: Crew, call: PendingCall) -> None:
    """Answer the call of one that works in the background."""
    path = handle(crew.state.path, call)
    told = {"agent": call["args"]["agent_name"], "status": RUNNING, "path": path}
    text = {"agent": told["agent"], "status": RUNNING, "handle": path, "told": say("in_background")}
    crew.answer(call, told, json.dumps(text, ensure_ascii=False, indent=1))


async def how_cut_off(scope: RunScope, state: TaskAgentState) -> dict[str, How]:
    """What became of the sub-agents of a turn that ends before its time, by the ids of the calls.

    Those that ended have their result; of the others the journal tells what they have changed.
    """
    known: dict[str, How] = {
        end["call"]: (end["text"], {"status": end_of(end["told"])}) for end in state.cut_off
    }
    left = [call for call in state.delegations if call["id"] not in known]
    rows = await scope.journal.rows(scope.journaled) if left and scope.turn else []
    for call in left:
        path = handle(state.path, call)
        if made := [row for row in rows if row.turn == scope.turn and is_of(row.task, path)]:
            known[call["id"]] = made_in(made), {"status": "cancelled", "reason": "superseded"}
    return known

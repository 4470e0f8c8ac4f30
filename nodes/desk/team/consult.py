"""delegate: sub-agents of a desk look into what one search does not settle; they only read."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from langgraph.runtime import Runtime

from ....state.agent import DELEGATE, AgentState
from ....state.context import Context
from ....state.desk import DeskState, DeskUpdate, Source
from ....turn.schedule import run_ready, sum_spend
from ....turn.scope import make_scope
from ...agent.team.sub_agents import RunAgent, SubAgents
from ..shared.desk import Desk


def select_tools(
    specs: Sequence[dict[str, Any]], state: DeskState, sources: Mapping[str, Source]
) -> list[dict[str, Any]]:
    """The tools that a model turn is shown: a sub-agent only where it may pay."""
    if is_worth_asking(state, sources):
        return [*specs]
    return [spec for spec in specs if spec["function"]["name"] != DELEGATE]


def is_worth_asking(state: DeskState, sources: Mapping[str, Source]) -> bool:
    """Whether to ask a sub-agent may pay: in a case, or where searching or an answer was in vain.

    For all else one model call with a search is enough, and costs less.
    """
    searched = any(r["status"] == "success" for r in state.evidence)
    found = any(source["turn"] == state.turn for source in sources.values())
    case = state.intent in ("refund", "technical", "complaint")
    return state.again > 0 or bool(state.improvements) or case or (searched and not found)


async def consult(
    state: DeskState, runtime: Runtime[Context], *, desk: Desk, runs: Mapping[str, RunAgent]
) -> DeskUpdate:
    """Run them side by side; what becomes of one is data for the model that asked it."""
    scope = await make_scope(state, runtime, desk.parts)
    crew = SubAgents(scope, cast("AgentState", state), desk.agent, runs, state.delegations)
    order = [*crew.calls]
    waits: dict[str, list[str]] = {name: [] for name in order}
    ended = await run_ready(
        scope,
        runtime,
        order,
        waits,
        crew.run,
        ended=crew.note_end,
        asked=crew.show_asked,
        together=True,
    )
    told = crew.update(ended)
    return DeskUpdate(
        messages=told["messages"], evidence=told["evidence"], warnings=told["warnings"],
        spend=sum_spend(scope, ended), delegations=[],
    )  # fmt: skip

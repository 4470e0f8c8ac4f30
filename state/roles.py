"""The one table of roles, which ask models.

A new role is a row here, a template `prompts/core/<language>/<name>.md` and the node that asks.
Roles of one conversation share a template, so that each request begins with the one before it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, get_args

Tier = Literal["fast", "balanced", "powerful"]
TIERS: Final[tuple[Tier, ...]] = get_args(Tier)
"""Weakest first."""

ROLE_METADATA: Final = "loopwright_role"
"""Key of the role in the metadata of a model call's config; a chat model reads it there."""


@dataclass(frozen=True)
class Role:
    """One role."""

    name: str
    graph: str
    """Whose role it is; "" for a graph of the user's own."""
    tier: Tier
    """The default strength of its model."""
    label: str
    """What it does, as the terminal shows it."""
    contract: str = ""
    """Class name of what it must answer; "" if it answers in words."""
    shares: str = ""
    """The template it shares with other roles of its graph."""
    like: str = ""
    """The role whose model it has where it is given none: it asks at the end of that one's
    requests, which a provider knows by then."""


_PLAN, _REACT, _FLOW = "plan_execute_verify", "react", "prompt_flow"
_AGENT, _DESK, _ROUTER = "task_agent", "customer_service", "router"

ROLES: Final[Mapping[str, Role]] = {
    role.name: role
    for role in (
        Role("planner", _PLAN, "powerful", "planning", "PlannerResponse"),
        Role("executor", _PLAN, "balanced", "working", "ExecutorResponse"),
        Role("verifier", _PLAN, "powerful", "checking the results", "VerifierResponse"),
        Role("thought", _REACT, "balanced", "thinking", shares=_REACT),
        Role("action", _REACT, "balanced", "choosing the next step", shares=_REACT),
        Role("observation", _REACT, "fast", "looking at the results", shares=_REACT),
        Role("flow_planner", _FLOW, "powerful", "planning", "ExecutionPlan"),
        Role("recovery", _FLOW, "powerful", "looking for another way", "RecoveryDecision"),
        Role("answerer", _FLOW, "balanced", "writing the answer"),
        Role("llm_call", _FLOW, "balanced", "writing"),
        Role("agent", _AGENT, "balanced", "working", shares=_AGENT),
        Role("loop_judge", _AGENT, "balanced", "looking for loops", "LoopVerdict", like="agent"),
        Role("summariser", _AGENT, "balanced", "summing up", "Snapshot", like="agent"),
        Role("listener", _DESK, "fast", "listening", "Understanding"),
        Role("support", _DESK, "balanced", "working"),
        Role("proofreader", _DESK, "fast", "checking the reply", "Proofreading"),
        Role("dispatcher", _ROUTER, "fast", "choosing a graph", "RouteChoice"),
        Role("responder", _ROUTER, "balanced", "answering"),
        Role("reviewer", "", "powerful", "reviewing"),
    )
}

GRAPHS: Final[tuple[str, ...]] = tuple(dict.fromkeys(r.graph for r in ROLES.values() if r.graph))
"""The graphs whose roles these are."""


def find_template(role: str) -> str:
    """The template that ships for a role: one it shares with others, else one of its name."""
    row = ROLES.get(role)
    return (row.shares if row else "") or role


def roles_of(graph: str) -> list[str]:
    """The roles of a graph, in the order in which they are asked; the router runs other graphs."""
    graphs = {_ROUTER, _PLAN, _REACT, _FLOW, _AGENT} if graph == _ROUTER else {graph}
    return [name for name, role in ROLES.items() if role.graph in graphs]

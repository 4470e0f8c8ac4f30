"""A graph's settings as a form: those its nodes read, in groups, with its roles as choices.

`Context` is one for all graphs; what a client is shown of it is this view.
"""

from collections.abc import Collection, Mapping
from copy import deepcopy
from functools import cache
from typing import Any, Final

from ..state.context import Context
from ..state.roles import ROLES, TIERS, roles_of

GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "Models": ("model", "models", "tiers", "fallback_models", "observe"),
    "Told to models": (
        "system_context", "business_context", "language", "resource_id", "task_id",
    ),
    "Permissions": ("interactive", "review_plan", "policy", "question_expires_in"),
    "Limits": (
        "max_planning_rounds", "max_executor_rounds", "max_verify_cycles", "max_iterations",
        "max_turns", "max_agent_depth", "max_tasks", "max_steps", "max_recoveries",
        "max_parallel_tasks", "max_parallel_models", "max_model_calls", "max_tool_calls",
        "max_tokens", "max_seconds", "max_cost", "max_output_tokens", "prices", "context_budget",
        "context_target",
    ),
    "Routing": ("route_length", "route_asks", "route_tools", "route_share"),
    "Loops": ("loop_repeats", "loop_phrases", "loop_check_after", "loop_confidence"),
    "Time": ("model_deadline", "model_retries", "tool_deadline", "startup_timeout"),
    "Tools": ("result_cap", "dedupe", "dedupe_seconds", "tool_context"),
}  # fmt: skip
"""Every setting, in the order of a form."""

READ_BY: Final[Mapping[str, tuple[str, ...]]] = {
    "observe": ("observation",),
    "review_plan": ("planner", "review_plan", "check_flow", "review_flow"),
    "max_planning_rounds": ("planner",),
    "max_executor_rounds": ("work",),
    "max_verify_cycles": ("verifier",),
    "max_iterations": ("thought",),
    "max_turns": ("check_limits", "act"),
    "context_budget": ("compress",),
    "context_target": ("compress",),
    "max_agent_depth": ("delegate",),
    "max_tasks": ("planner", "review_plan"),
    "max_steps": ("plan_flow", "check_flow"),
    "max_recoveries": ("recover", "answer_flow"),
    "max_parallel_tasks": ("work", "run_flow", "delegate"),
    "route_length": ("choose",),
    "route_asks": ("choose",),
    "route_tools": ("choose",),
    "route_share": ("react", "prompt_flow", "task_agent"),
    "loop_phrases": ("work", "thought", "check_loop"),
    "loop_check_after": ("check_loop",),
    "loop_confidence": ("check_loop",),
}
"""The nodes that a setting is for; any other setting is for every graph."""


def form_of(nodes: Collection[tuple[str, str]], graph: str) -> dict[str, Any]:
    """The JSON schema of the settings that the nodes of a graph read; a server asks at each run.

    `nodes` are those of graphs inside as well, each with the node of this graph that it is in.
    """
    return deepcopy(_form(frozenset(nodes), graph))


@cache
def _form(nodes: frozenset[tuple[str, str]], graph: str) -> dict[str, Any]:
    whole = Context.model_json_schema()
    shown: dict[str, Any] = {}
    for group, names in GROUPS.items():
        for name in names:
            readers = READ_BY.get(name)
            here = sorted({at for node, at in nodes if readers is None or node in readers})
            if here:
                place = {"x-group": group, "x-order": len(shown)}
                at = {"langgraph_nodes": here} if name in READ_BY else {}
                shown[name] = {**whole["properties"][name], **place, **at}
    for name, choices in _choices(roles_of(graph) or ROLES).items():
        shown[name] |= {"properties": choices, "additionalProperties": False}
    return {**whole, "properties": shown}


def _choices(roles: Collection[str]) -> dict[str, dict[str, Any]]:
    """What may be said of each role, by the settings that say it."""
    text = {
        role: {"type": "string", "title": role, "description": ROLES[role].label} for role in roles
    }
    of_tiers = {
        tier: {"type": "string", "title": tier, "description": f"each {tier} role"}
        for tier in TIERS
    }
    tiers = {role: {**about, "enum": [*TIERS]} for role, about in text.items()}
    return {"models": text | of_tiers, "tiers": tiers, "business_context": text}

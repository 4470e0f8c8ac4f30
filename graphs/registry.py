"""The one list of graphs.

What else names them follows from it, or is held to it by a test: the command, the public names,
langgraph.json, the table of roles.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from ..run.graph import LoopGraph
from ..state.errors import SettingsError
from . import (
    agent_loop,
    customer_service,
    plan_execute_verify,
    prompt_flow,
    react,
    router,
    task_agent,
    task_execution,
)


@dataclass(frozen=True)
class GraphEntry:
    """One graph: its name, its `build_<name>`, the graph as a server loads it, and one sentence."""

    name: str
    build: Callable[..., Any]
    graph: LoopGraph[Any, Any, Any, Any]
    description: str


_DESCRIPTIONS: Final = {
    plan_execute_verify: "Plans tasks, carries them out with tools, and proves the result.",
    react: "Thinks, calls tools and observes, step by step, until it has the answer.",
    prompt_flow: "Plans a DAG of tool calls, checks it, runs it in parallel, and repairs it.",
    task_agent: "Works with tools, turn by turn, until it says how the work ended.",
    customer_service: "Talks with customers by articles and policy, and hands over to a human.",
    router: "Gives each request to the cheapest graph that can do it, else to a stronger one.",
}

REGISTRY: Final[dict[str, GraphEntry]] = {
    module.NAME: GraphEntry(
        module.NAME, getattr(module, f"build_{module.NAME}"), module.graph, text
    )
    for module, text in _DESCRIPTIONS.items()
}

PARTS: Final[dict[str, LoopGraph[Any, Any, Any, Any]]] = {
    task_execution.NAME: task_execution.graph,
    agent_loop.NAME: agent_loop.graph,
}
"""Graphs that are part of another one; they can be drawn, too."""


def find_builder(name: str) -> Callable[..., Any]:
    """The `build_<name>` function of a graph; a SettingsError if there is none of this name."""
    if name not in REGISTRY:
        raise SettingsError(_explain_no_graph(name, REGISTRY))
    return REGISTRY[name].build


def find_drawable_graph(name: str) -> LoopGraph[Any, Any, Any, Any]:
    """A graph to look at, also a part of another one; a SettingsError if there is none."""
    graphs = {entry.name: entry.graph for entry in REGISTRY.values()} | PARTS
    if name not in graphs:
        raise SettingsError(_explain_no_graph(name, graphs))
    return graphs[name]


def _explain_no_graph(name: str, graphs: dict[str, Any]) -> str:
    ours = ", ".join(sorted(graphs))
    return f"There is no graph {name!r} here, only {ours}; your own program runs its own graphs."

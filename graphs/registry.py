"""The one list of graphs.

What else names them follows from it, or is held to it by a test: the command, the public names,
langgraph.json, the table of roles.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

from ..run.graph import LoopGraph
from ..state.errors import SettingsError


@dataclass(frozen=True)
class GraphEntry:
    """One graph: its name and one sentence. To load it draws it, so it is loaded when asked for."""

    name: str
    description: str

    @property
    def build(self) -> Callable[..., Any]:
        """Its `build_<name>`."""
        build: Callable[..., Any] = getattr(_load(self.name), f"build_{self.name}")
        return build

    @property
    def graph(self) -> LoopGraph[Any, Any, Any, Any]:
        """The graph as a server loads it."""
        return find_drawable_graph(self.name)


_DESCRIPTIONS: Final = {
    "plan_execute_verify": "Plans tasks, carries them out with tools, and proves the result.",
    "react": "Thinks, calls tools and observes, step by step, until it has the answer.",
    "prompt_flow": "Plans a DAG of tool calls, checks it, runs it in parallel, and repairs it.",
    "task_agent": "Works with tools, turn by turn, until it says how the work ended.",
    "customer_service": "Talks with customers by articles and policy, and hands over to a human.",
    "router": "Gives each request to the cheapest graph that can do it, else to a stronger one.",
}

REGISTRY: Final = {name: GraphEntry(name, text) for name, text in _DESCRIPTIONS.items()}

DRAWABLE: Final = (*REGISTRY, "task_execution", "agent_loop")
"""All graphs to look at, also those that are part of another one."""


def _load(name: str) -> Any:
    return import_module(f".{name}", __package__)


def find_builder(name: str) -> Callable[..., Any]:
    """The `build_<name>` function of a graph; a SettingsError if there is none of this name."""
    if name not in REGISTRY:
        raise SettingsError(_explain_no_graph(name, REGISTRY))
    return REGISTRY[name].build


def find_drawable_graph(name: str) -> LoopGraph[Any, Any, Any, Any]:
    """A graph to look at, also a part of another one; a SettingsError if there is none."""
    if name not in DRAWABLE:
        raise SettingsError(_explain_no_graph(name, DRAWABLE))
    graph: LoopGraph[Any, Any, Any, Any] = _load(name).graph
    return graph


def _explain_no_graph(name: str, graphs: Iterable[str]) -> str:
    ours = ", ".join(sorted(graphs))
    return f"There is no graph {name!r} here, only {ours}; your own program runs its own graphs."

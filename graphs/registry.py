"""The graphs by name: those that can be run, and those that can be drawn."""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from ..doors.graph import LoopGraph
from ..state.errors import SettingsError
from . import plan_execute_verify, prompt_flow, react, task_execution

T = TypeVar("T")

BUILDERS: Final[dict[str, Callable[..., Any]]] = {
    plan_execute_verify.NAME: plan_execute_verify.build_plan_execute_verify,
    react.NAME: react.build_react,
    prompt_flow.NAME: prompt_flow.build_prompt_flow,
}

DRAWINGS: Final[dict[str, LoopGraph[Any, Any, Any, Any]]] = {
    plan_execute_verify.NAME: plan_execute_verify.graph,
    react.NAME: react.graph,
    prompt_flow.NAME: prompt_flow.graph,
    task_execution.NAME: task_execution.graph,
}


def builder_of(name: str) -> Callable[..., Any]:
    """The `build_<name>` function of a graph.

    Raises:
        SettingsError: There is no graph of this name that can be run.
    """
    return _named(BUILDERS, name)


def drawn_graph(name: str) -> LoopGraph[Any, Any, Any, Any]:
    """A graph to look at; one that is part of another can be drawn, too.

    Raises:
        SettingsError: There is no graph of this name.
    """
    return _named(DRAWINGS, name)


def _named(graphs: Mapping[str, T], name: str) -> T:
    if name not in graphs:
        msg = f"There is no graph {name!r}; there are {', '.join(sorted(graphs))}."
        raise SettingsError(msg)
    return graphs[name]

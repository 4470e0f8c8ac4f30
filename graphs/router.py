"""router: the cheapest graph that can do a request does it; where it fails, a stronger one."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final, Literal

from typing_extensions import Unpack

from ..nodes.parts import Parts
from ..nodes.route.choose import choose, judge
from ..nodes.route.direct import direct
from ..nodes.route.run_chosen import run_chosen_graph
from ..nodes.route.turn import END, adopt_state
from ..nodes.turns import finish, intake
from ..run.graph import LoopBuilder, LoopGraph
from ..state.context import Context
from ..state.loop import LoopInput, LoopOutput
from ..state.outcome import Way
from ..state.route import RouterState
from .build import assemble_served_parts, build_graph, draw_graph, make_outer_builder
from .options import BuildOptions, ModelOption, ToolsOption, document_options
from .plan_execute_verify import plan_builder
from .prompt_flow import flow_builder
from .react import react_builder
from .task_agent import task_agent_builder

NAME = "router"

RouterGraph = LoopGraph[RouterState, Context, LoopInput, LoopOutput]

_INSIDE: Final[dict[str, Callable[[Parts], LoopBuilder[Any, Any, Any, Any]]]] = {
    "react": partial(react_builder, observe="direct"),  # a call less a step, as what is small asks
    "prompt_flow": flow_builder,
    "task_agent": task_agent_builder,
    "plan_execute_verify": plan_builder,
}


def route_after_intake(state: RouterState) -> Literal["choose", "finish"]:
    """Nothing is asked of a model where nothing was asked by the user."""
    return "finish" if state.halt else "choose"


def route_after_choose(state: RouterState) -> Literal[Way, "judge", "finish"]:
    """To the graph that was chosen, unless the answer came with the choice."""
    return "judge" if state.inner is not None else route_to_graph(state)


def route_to_graph(state: RouterState) -> Literal[Way, "finish"]:
    """To the graph that was chosen."""
    return "finish" if state.halt or state.way == "" else state.way


def route_after_judge(state: RouterState) -> Literal[Way, "finish"]:
    """To a stronger graph, if there is one that may help."""
    return "finish" if state.inner is not None else route_to_graph(state)


def route_after_finish(state: RouterState) -> Literal[Way, "__end__"]:
    """End with the outcome; without one a hook rejected the answer, and it is written again."""
    return "__end__" if state.outcome is not None or state.way == "" else state.way


def router_builder(parts: Parts) -> LoopBuilder[RouterState, Context, LoopInput, LoopOutput]:
    """Draw the graph."""
    builder = make_outer_builder(NAME, RouterState, parts, LoopInput)
    builder.scratch = tuple(_INSIDE)
    # The turn is the router's: its hooks and its typed result are made once.
    mine = replace(parts, hooks=parts.hooks.exclude("BeforeAgent", "AfterAgent"), result=None)
    mine = replace(mine, inside=True)
    builder.inside = {name: draw(mine).compile(name=name) for name, draw in _INSIDE.items()}
    builder.borders = ("choose",)
    inner = {n: partial(run_chosen_graph, parts=parts, graph=g) for n, g in builder.inside.items()}
    begin = partial(intake, parts=parts, adopt=adopt_state, finds_tools=False)
    return draw_graph(
        builder,
        intake=(begin, route_after_intake),
        choose=(partial(choose, parts=parts), route_after_choose),
        direct=(partial(direct, parts=parts), "judge"),
        **{name: (run, "judge") for name, run in inner.items()},
        judge=(partial(judge, parts=parts), route_after_judge),
        finish=(partial(finish, parts=parts, end=END), route_after_finish),
    )


@document_options
def build_router(
    model: ModelOption = None, tools: ToolsOption = None, **options: Unpack[BuildOptions]
) -> RouterGraph:
    """Build the graph, ready to be invoked, streamed or embedded, sync or async.

    The outcome's warnings and the `route` events say which graph had the request, and why.
    """
    return build_graph(NAME, router_builder, options, model, tools)


builder = router_builder(assemble_served_parts(NAME))
graph = builder.compile(name=NAME)

"""react: thought → action → observation, until a thought has the answer."""

from functools import partial
from typing import Literal

from typing_extensions import Unpack

from ..calls.approval import route_calls
from ..nodes.approve import approve
from ..nodes.call_tools import call_tools, end_turn_after_calls
from ..nodes.parts import Parts
from ..nodes.react.action import action, observation
from ..nodes.react.phases import has_only_searches
from ..nodes.react.thought import thought
from ..nodes.react.turn import END, adopt_state
from ..nodes.turns import finish, intake
from ..run.graph import LoopBuilder, LoopGraph
from ..state.context import Context
from ..state.loop import LoopInput, LoopOutput
from ..state.react import Observe, ReactState
from .build import (
    assemble_served_parts,
    build_graph,
    draw_graph,
    make_outer_builder,
    route_after_approve,
)
from .options import BuildOptions, ModelOption, ToolsOption, document_options

NAME = "react"

ReactGraph = LoopGraph[ReactState, Context, LoopInput, LoopOutput]


def route_after_intake(state: ReactState) -> Literal["thought", "action", "finish"]:
    """To the first thought, unless it was made before; to the end if there is no request."""
    if state.halt:
        return "finish"
    return "action" if state.phase == "thought" else "thought"


def route_after_thought(state: ReactState) -> Literal["action", "finish"]:
    """Take the step the thought decided on, unless it ended the loop."""
    return "action" if state.should_continue and not state.halt else "finish"


def route_after_action(state: ReactState) -> Literal["approve", "call_tools", "thought", "finish"]:
    """To the calls; without one to the end, or to a last thought where the budget is spent."""
    if not state.should_continue or state.halt:
        return "finish"
    if not state.calls:
        return "thought"
    step = route_calls(state.calls, state.decisions)
    return "approve" if step == "approve" else "call_tools"


def route_after_calls(
    state: ReactState,
) -> Literal["approve", "call_tools", "observation", "thought", "finish"]:
    """On with the calls that are left; then to what sums them up, if they brought anything."""
    if state.halt:
        return "finish"
    step = route_calls(state.calls, state.decisions)
    if step != "done":
        return step
    if not state.should_continue:  # a tool ended the loop
        return "finish"
    skips = state.observe == "direct" or has_only_searches(state.messages)
    return "thought" if skips else "observation"


def route_after_finish(state: ReactState) -> Literal["thought", "__end__"]:
    """End with the outcome; where there is none a hook rejected the answer, so think again."""
    return "thought" if state.outcome is None else "__end__"


def react_builder(
    parts: Parts, observe: Observe | None = None
) -> LoopBuilder[ReactState, Context, LoopInput, LoopOutput]:
    """Draw the graph."""
    builder = make_outer_builder(NAME, ReactState, parts, LoopInput)
    builder.borders = ("thought", "approve")
    adopt = partial(adopt_state, observe=observe or "model")
    call = partial(call_tools, parts=parts, role="action", ended=end_turn_after_calls)
    return draw_graph(
        builder,
        intake=(partial(intake, parts=parts, adopt=adopt), route_after_intake),
        thought=(partial(thought, parts=parts), route_after_thought),
        action=(partial(action, parts=parts), route_after_action),
        approve=(partial(approve, parts=parts), route_after_approve),
        call_tools=(call, route_after_calls),
        observation=(partial(observation, parts=parts), "thought"),
        finish=(partial(finish, parts=parts, end=END), route_after_finish),
    )


@document_options
def build_react(
    model: ModelOption = None,
    tools: ToolsOption = None,
    *,
    observe: Observe | None = None,
    **options: Unpack[BuildOptions],
) -> ReactGraph:
    """Build the graph, ready to be invoked, streamed or embedded, sync or async.

    With observe="model" a model sums up results, with "direct" the next thought gets them as they
    are; a run's Context may say otherwise. None means "model".
    """
    return build_graph(NAME, partial(react_builder, observe=observe), options, model, tools)


builder = react_builder(assemble_served_parts(NAME))
graph = builder.compile(name=NAME)

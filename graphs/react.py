"""react: thought → action → observation, until a thought has the answer."""

from functools import partial
from typing import Literal

from langgraph.graph import START
from typing_extensions import Unpack

from ..calls.approval import route_calls
from ..nodes.approve import approve
from ..nodes.call_tools import call_tools, end_turn_after_calls
from ..nodes.parts import Parts
from ..nodes.react.action import action
from ..nodes.react.finish import react_finish
from ..nodes.react.intake import react_intake
from ..nodes.react.observation import observation
from ..nodes.react.phases import has_only_searches
from ..nodes.react.thought import thought
from ..run.graph import LoopBuilder, LoopGraph
from ..state.context import Context
from ..state.loop import LoopInput, LoopOutput
from ..state.react import Observe, ReactState
from .build import (
    BuildOptions,
    assemble_served_parts,
    build_graph,
    document_options,
    make_outer_builder,
)

NAME = "react"

ReactGraph = LoopGraph[ReactState, Context, LoopInput, LoopOutput]


def route_after_intake(state: ReactState) -> Literal["thought", "finish"]:
    """Nothing is asked of a model where nothing was asked by the user."""
    return "finish" if state.halt else "thought"


def route_after_thought(state: ReactState) -> Literal["action", "finish"]:
    """Take the step the thought decided on, unless it ended the loop."""
    return "action" if state.should_continue and not state.halt else "finish"


def route_after_action(
    state: ReactState,
) -> Literal["approve", "call_tools", "thought", "finish"]:
    """To the calls; without one to the end, or to a last thought where the budget is spent."""
    if not state.should_continue or state.halt:
        return "finish"
    if not state.calls:
        return "thought"
    step = route_calls(state.calls, state.decisions)
    return "approve" if step == "approve" else "call_tools"


def route_after_approve(state: ReactState) -> Literal["approve", "call_tools"]:
    """Run what may run by now, else ask about the next call, one question at a time."""
    return "approve" if route_calls(state.calls, state.decisions) == "approve" else "call_tools"


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
    return (
        "thought"
        if state.observe == "direct" or has_only_searches(state.messages)
        else "observation"
    )


def route_after_finish(state: ReactState) -> Literal["thought", "__end__"]:
    """End with the outcome; where there is none a hook rejected the answer, so think again."""
    return "thought" if state.outcome is None else "__end__"


def react_builder(
    parts: Parts, observe: Observe | None = None
) -> LoopBuilder[ReactState, Context, LoopInput, LoopOutput]:
    """Draw the graph."""
    builder = make_outer_builder(NAME, ReactState, parts, LoopInput)
    builder.borders = ("thought", "approve")
    builder.add_node("intake", partial(react_intake, parts=parts, observe=observe or "model"))
    builder.add_node("thought", partial(thought, parts=parts))
    builder.add_node("action", partial(action, parts=parts))
    builder.add_node("approve", partial(approve, parts=parts))
    builder.add_node(
        "call_tools", partial(call_tools, parts=parts, role="action", ended=end_turn_after_calls)
    )
    builder.add_node("observation", partial(observation, parts=parts))
    builder.add_node("finish", partial(react_finish, parts=parts))
    builder.add_edge(START, "intake")
    builder.add_conditional_edges("intake", route_after_intake)
    builder.add_conditional_edges("thought", route_after_thought)
    builder.add_conditional_edges("action", route_after_action)
    builder.add_conditional_edges("approve", route_after_approve)
    builder.add_conditional_edges("call_tools", route_after_calls)
    builder.add_edge("observation", "thought")
    builder.add_conditional_edges("finish", route_after_finish)
    return builder


@document_options
def build_react(*, observe: Observe | None = None, **options: Unpack[BuildOptions]) -> ReactGraph:
    """Build the graph, ready to be invoked, streamed or embedded, sync or async.

    With observe="model" a model sums up results, with "direct" the next thought gets them as they
    are; a run's Context may say otherwise. None means "model".
    """
    return build_graph(NAME, partial(react_builder, observe=observe), options)


builder = react_builder(assemble_served_parts(NAME))
graph = builder.compile(name=NAME)

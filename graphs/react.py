"""react: thought → action → observation, until a thought has the answer."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

from langchain_core.language_models import BaseChatModel
from langchain_core.tools import BaseTool
from langgraph.graph import START
from langgraph.store.base import BaseStore
from langgraph.types import Checkpointer

from ..calls.gate import next_step
from ..calls.policy import PolicyLike
from ..doors.durability import Durability
from ..doors.graph import LoopBuilder, LoopGraph
from ..doors.journal import Journal
from ..hooks.contract import Hook
from ..nodes.approve import approve
from ..nodes.parts import Parts
from ..nodes.react.action import action
from ..nodes.react.call_react_tools import call_react_tools
from ..nodes.react.finish import react_finish
from ..nodes.react.intake import react_intake
from ..nodes.react.observation import observation
from ..nodes.react.thought import thought
from ..prompts.prompt_manager import PromptManager
from ..state.context import Context
from ..state.loop import LoopInput, LoopOutput
from ..state.react import Observe, ReactState
from .assembly import assemble, kept_by, outer_builder, served_parts

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
    step = next_step(state.calls, state.decisions)
    return "approve" if step == "approve" else "call_tools"


def route_after_approve(state: ReactState) -> Literal["approve", "call_tools"]:
    """Run what may run by now, else ask about the next call, one question at a time."""
    return "approve" if next_step(state.calls, state.decisions) == "approve" else "call_tools"


def route_after_calls(
    state: ReactState,
) -> Literal["approve", "call_tools", "observation", "thought", "finish"]:
    """On with the calls that are left; then to what sums them up, unless they end the loop."""
    if state.halt:
        return "finish"
    step = next_step(state.calls, state.decisions)
    if step != "done":
        return step
    return "observation" if state.observe == "model" else "thought"


def route_after_finish(state: ReactState) -> Literal["thought", "__end__"]:
    """End with the outcome; where there is none a hook rejected the answer, so think again."""
    return "thought" if state.outcome is None else "__end__"


def react_builder(
    parts: Parts, observe: Observe | None = None
) -> LoopBuilder[ReactState, Context, LoopInput, LoopOutput]:
    """Draw the graph."""
    builder = outer_builder(ReactState, parts)
    builder.add_node("intake", partial(react_intake, parts=parts, observe=observe or "model"))
    builder.add_node("thought", partial(thought, parts=parts))
    builder.add_node("action", partial(action, parts=parts))
    builder.add_node("approve", partial(approve, parts=parts))
    builder.add_node("call_tools", partial(call_react_tools, parts=parts))
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


def build_react(
    *,
    model: str | BaseChatModel | Mapping[str, str | BaseChatModel] | None = None,
    tools: Sequence[BaseTool | Callable[..., Any]] = (),
    mcp: str | Path | Mapping[str, Any] | None = None,
    policy: PolicyLike = None,
    prompts: PromptManager | None = None,
    hooks: Sequence[Hook] = (),
    durability: Durability | None = None,
    checkpointer: Checkpointer = None,
    store: BaseStore | None = None,
    journal: Journal | None = None,
    name: str = NAME,
    observe: Observe | None = None,
) -> ReactGraph:
    """Build the graph, ready to be invoked, streamed or embedded, sync or async.

    Args:
        model: `provider:name`, a chat model, or a mapping of role (thought, action, observation)
            or tier to either. Without one: the run's Context, LOOPWRIGHT_MODEL, the OpenAI
            variables, then offline.
        tools: Python tools; MCP tools come by `mcp`.
        mcp: Path or mapping in the `mcpServers` format; None means no server.
        policy: "allow", "ask", "deny", rules, or a Policy; None asks before MCP writes.
        prompts: Core templates and business contexts.
        hooks: Callables around sessions, turns, model calls and tool calls.
        durability: What `open_durability` gave; the three arguments after it win over it.
        checkpointer: Where threads are saved.
        store: Where long results are kept.
        journal: Where calls are recorded before they are made; in memory without one.
        name: Of the compiled graph.
        observe: "model" sums up results with a model call, "direct" hands them straight to the
            next thought; a run's Context may say otherwise. None means "model".

    Raises:
        SettingsError: A setting is wrong; the message says which and what to do.
    """
    checkpointer, store, journal = kept_by(durability, checkpointer, store, journal)
    parts = assemble(
        model=model,
        tools=tools,
        mcp=mcp,
        policy=policy,
        prompts=prompts,
        hooks=hooks,
        journal=journal,
        name=name,
    )
    return react_builder(parts, observe).compile(checkpointer, store=store, name=name)


builder = react_builder(served_parts(NAME))
graph = builder.compile(name=NAME)

"""inside: runs the chosen graph as a part of this one, within this turn's budget."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.runtime import Runtime

from ...state.context import Context
from ...state.outcome import spent_by
from ...state.route import RouterState, RouterUpdate
from ...turn.scope import around, scope_of
from ..parts import Parts

_NOT_OURS = frozenset({"outcome"})


async def inside(
    state: RouterState,
    runtime: Runtime[Context],
    *,
    parts: Parts,
    run: Callable[[Any, RunnableConfig], Any],
) -> RouterUpdate:
    """Give it the conversation; its messages are ours, and its outcome is what judge reads."""
    scope = await scope_of(state, runtime, parts)

    def told(event: dict[str, Any]) -> None:
        if event["type"] not in _NOT_OURS:  # the turn has one end, which finish tells
            scope.emit(event)

    with around(replace(scope, emit=told)):
        final = await run({"messages": state.messages}, RunnableConfig(run_name=state.way))
    known = {message.id for message in state.messages}
    news = [message for message in final["messages"] if message.id not in known]
    outcome = final["outcome"]
    return RouterUpdate(messages=news, inner=outcome, spend=spent_by(outcome))

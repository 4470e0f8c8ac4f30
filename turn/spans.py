"""What tracers get of a call: who makes it, for which task, at what cost; never its words.

LangSmith shows the metadata of a run's config. OpenTelemetry gets a span by its conventions for
generative AI, if the program has set up a tracer.
"""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from types import MappingProxyType
from typing import Any, Final, cast

from langchain_core.messages import AIMessage

from ..state.roles import ROLE_METADATA
from ..stream.meters import AGENT, ERROR, OPERATION, TOKENS, is_metered, measure
from ..stream.tracer import find_tracer, mark_failed, start_span
from .scope import RunScope

TASK, CALL, TURN = "loopwright/task", "loopwright/call", "loopwright/turn"
MODEL_TURN: Final = "loopwright/model_turn"
SPENT: Final = "loopwright/spent_"
"""Before `model_calls`, `tool_calls` and `tokens`: what the turn had used when the call began."""
_FINISH: Final = ("finish_reason", "stop_reason")


def build_metadata(
    scope: RunScope, role: str, call: Mapping[str, Any] = MappingProxyType({})
) -> dict[str, Any]:
    """The metadata of the run of a model call, or of a tool `call`."""
    used, task = scope.budget.usage, find_task(scope, call.get("task"))
    known = {ROLE_METADATA: role, TASK: task, CALL: call.get("id"), TURN: scope.turn}
    known |= {MODEL_TURN: scope.run.model_turn}
    spent = {f"{SPENT}{name}": used[name] for name in ("model_calls", "tool_calls", "tokens")}
    return {key: value for key, value in known.items() if value} | spent


def is_traced() -> bool:
    """Whether the program has set up OpenTelemetry, or something has imported it."""
    return "opentelemetry.trace" in sys.modules


def is_observed() -> bool:
    """Whether the program has set up a tracer or a meter."""
    return find_tracer() is not None or ("opentelemetry.metrics" in sys.modules and is_metered())


@contextmanager
def open_model_span(
    scope: RunScope, role: str, model: Any, name: str
) -> Iterator[Callable[..., None]]:
    """A span around a model call, and its numbers; call what it yields with the answer."""
    tracer = find_tracer()
    bare = name.partition(":")[2] or name
    provider = model._get_ls_params().get("ls_provider", "")
    asked = {"gen_ai.request.model": bare, "gen_ai.provider.name": provider}
    attributes = _build_attributes(scope, "chat") | asked | {"loopwright.role": role}
    about = {"gen_ai.operation.name": "chat", AGENT: scope.agent, **asked}
    spanned = start_span(tracer, f"chat {bare}", "CLIENT", attributes) if tracer else nullcontext()
    with _measure_time(about) if is_metered() else nullcontext(), spanned as span:
        yield partial(_record_answer, span, about)


@contextmanager
def open_tool_span(
    scope: RunScope, call: Mapping[str, Any], name: str, server: str | None
) -> Iterator[Callable[..., None]]:
    """A span around a tool call; call what it yields with whether the result is a failure."""
    tracer = find_tracer()
    if tracer is None:
        yield lambda _: None
        return
    attributes = _build_attributes(scope, "execute_tool", call["task"]) | {
        "loopwright.role": scope.run.role,
        "gen_ai.tool.name": name,
        "gen_ai.tool.call.id": call["call_id"],
        "gen_ai.tool.type": "extension" if server else "function",
        "loopwright.call": call["id"],
        "loopwright.server": server or "",
    }
    with start_span(tracer, f"execute_tool {name}", "INTERNAL", attributes) as span:
        yield lambda failed: mark_failed(span, "tool_error") if failed else None


@contextmanager
def _measure_time(about: dict[str, str]) -> Iterator[None]:
    """Measure how long it took, with the type of the error that ended it."""
    began, ended = time.monotonic(), {}
    try:
        yield
    except BaseException as error:
        ended = {ERROR: type(error).__name__}
        raise
    finally:
        measure(OPERATION, time.monotonic() - began, about | ended)


def _record_answer(span: Any, about: dict[str, str], answer: AIMessage) -> None:
    if span is not None:
        span.set_attributes(_read_answer(answer))
    for kind, tokens in (answer.usage_metadata or {}).items():
        if kind in ("input_tokens", "output_tokens"):
            of_kind = {"gen_ai.token.type": kind.removesuffix("_tokens")}
            measure(TOKENS, cast("int", tokens), about | of_kind)


def find_task(scope: RunScope, task: str | None = None) -> str:
    """The task or step; "" in a graph without them."""
    named = task or scope.path
    return "" if named == scope.agent else named


def _build_attributes(scope: RunScope, operation: str, task: str | None = None) -> dict[str, Any]:
    return {
        "gen_ai.operation.name": operation,
        "gen_ai.agent.name": scope.agent,
        "gen_ai.conversation.id": scope.thread,
        "loopwright.task": find_task(scope, task),
        "loopwright.turn": scope.turn,
    }


def _read_answer(answer: AIMessage) -> dict[str, Any]:
    about, usage = answer.response_metadata, answer.usage_metadata
    attributes: dict[str, Any] = {"gen_ai.response.id": answer.id}
    attributes["gen_ai.response.model"] = about.get("model_name") or about.get("model")
    if ended := next((about[key] for key in _FINISH if about.get(key)), None):
        attributes["gen_ai.response.finish_reasons"] = [str(ended)]
    if usage:
        attributes["gen_ai.usage.input_tokens"] = usage["input_tokens"]
        attributes["gen_ai.usage.output_tokens"] = usage["output_tokens"]
    return {key: value for key, value in attributes.items() if value}

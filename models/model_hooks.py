"""Hooks around model calls: what is asked, with which tools, and what is taken as the answer.

Hooks see messages in the form OpenAI's chat format has, texts only. A message a hook leaves alone
is sent as it was, with everything that form does not show.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    convert_to_messages,
    convert_to_openai_messages,
)
from pydantic.alias_generators import to_snake

from ..hooks.contract import ToolConfig, Verdict
from ..hooks.registry import Hooks
from ..state.attachments import blocks_in
from ..state.context import Emit
from ..state.messages import calls_in
from ..text.told import say
from ..turn.budget import Limit
from .choice import Chosen
from .reading import Reading

_SETTINGS: Final = ("temperature", "top_p", "top_k", "max_tokens", "stop")
_OTHER_NAMES: Final = {"max_output_tokens": "max_tokens", "stop_sequences": "stop"}
# What reading a mapping of another shape raises; pydantic's ValidationError is a ValueError.
_UNREADABLE: Final = (ValueError, TypeError, KeyError, AttributeError, NotImplementedError)


@dataclass(frozen=True)
class Request:
    """One model call as the hooks left it."""

    messages: list[BaseMessage]
    tools: Sequence[dict[str, Any]] = ()
    may_call: bool = True
    """False where the tools are only shown."""
    model: str = ""
    """Another model's name, where a hook wants one."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the model that a hook replaced."""
    restricted: bool = False
    """A hook took tools away: calls of those that are left only."""
    must_call: bool = False
    """A hook wants a call."""
    answer: AIMessage | None = None
    """The model's answer, or a hook's own: then the model is not asked."""
    refused: str = ""
    """Why no model may be asked, or its answer not be used."""
    limit: Limit | None = None
    """The limit of the run that keeps the model from being asked."""


async def before_model(hooks: Hooks, request: Request, chosen: Chosen, emit: Emit) -> Request:
    """Let BeforeModel and then BeforeToolSelection hooks change a request."""
    if "BeforeModel" in hooks.events:
        shown = _shown(request, chosen)
        verdict = await hooks.fire("BeforeModel", emit=emit, llm_request=shown)
        request = _changed(request, verdict, shown["messages"])
    if request.refused or request.answer or not (request.tools and request.may_call):
        return request
    if "BeforeToolSelection" in hooks.events:
        shown = _shown(request, chosen)
        verdict = await hooks.fire("BeforeToolSelection", emit=emit, llm_request=shown)
        request = replace(request, refused=verdict.refused)
        if verdict.tool_config:
            request = _chosen_tools(request, verdict.tool_config)
    return request


async def after_model(
    hooks: Hooks, request: Request, chosen: Chosen, message: AIMessage, emit: Emit
) -> Request:
    """Let AfterModel hooks replace or refuse an answer; it is the `answer` of what is returned."""
    if "AfterModel" not in hooks.events:
        return replace(request, answer=message)
    verdict = await hooks.fire(
        "AfterModel",
        emit=emit,
        llm_request=_shown(request, chosen),
        llm_response=as_shown(message) | {"model": chosen.name},
    )
    if verdict.refused:
        return replace(request, refused=verdict.refused)
    return _answered(replace(request, answer=message), verdict)


def restrained(reading: Reading[Any], request: Request) -> Reading[Any]:
    """The reading of an answer, refused where it keeps not to what hooks said about tools."""
    message = reading.message
    names = [tool["function"]["name"] for tool in request.tools]
    called = [str(call["name"]) for call in calls_in(message)]
    if request.restricted and (bad := sorted(set(called) - set(names))):
        kind, left = "not_callable_now" if names else "not_callable_at_all", ", ".join(names)
        problem = say(kind, tools=", ".join(bad), left=left)
        return replace(reading, message=AIMessage(message.text), problems=[problem])
    if request.must_call and not called and not reading.problems:
        return replace(
            reading, parsed=None, problems=[say("must_call_one_of", tools=", ".join(names))]
        )
    return reading


def as_configured(chosen: Chosen, settings: Mapping[str, Any]) -> Chosen:
    """The model and its fallbacks with these settings, as far as they know them."""
    named = {_OTHER_NAMES.get(to_snake(k), to_snake(k)): value for k, value in settings.items()}
    known = {k: v for k, v in named.items() if k in type(chosen.model).model_fields}
    return replace(
        chosen,
        model=chosen.model.model_copy(update=known),
        fallbacks=tuple(as_configured(other, settings) for other in chosen.fallbacks),
    )


def as_shown(message: BaseMessage) -> dict[str, Any]:
    """A message as hooks see it: role, text, calls."""
    (shown,) = convert_to_openai_messages([message.model_copy(update={"content": message.text})])
    return shown


def _shown(request: Request, chosen: Chosen) -> dict[str, Any]:
    settings = {name: getattr(chosen.model, name, None) for name in _SETTINGS}
    callable_ = request.tools if request.may_call else ()
    return {
        "model": request.model or chosen.name,
        "messages": [as_shown(message) for message in request.messages],
        "config": {k: v for k, v in settings.items() if v is not None} | dict(request.settings),
        "toolConfig": {
            "mode": "AUTO" if callable_ else "NONE",
            "allowedFunctionNames": [tool["function"]["name"] for tool in callable_],
        },
    }


def _changed(request: Request, verdict: Verdict, shown: list[dict[str, Any]]) -> Request:
    """The request with the fields a hook gave, or the hook's own answer."""
    if verdict.refused:
        return replace(request, refused=verdict.refused)
    given = verdict.llm_request or {}
    try:
        if "messages" in given:
            request = replace(request, messages=_messages(request, given["messages"], shown))
        config = given.get("toolConfig", given.get("tool_config"))
        if config is not None and request.may_call:
            request = _chosen_tools(request, ToolConfig.model_validate(config))
        settings = dict(given.get("config") or {})
    except _UNREADABLE as error:
        # Sending the request as it was could send what the hook meant to take out.
        told = say("hook_unreadable_request", error=type(error).__name__)
        return replace(request, refused=told)
    changed = replace(request, model=str(given.get("model") or ""), settings=settings)
    return _answered(changed, verdict)


def _messages(
    request: Request, given: Sequence[Mapping[str, Any]], shown: list[dict[str, Any]]
) -> list[BaseMessage]:
    """The messages a hook gave; one it did not change is the very message it was."""
    before = list(zip(shown, request.messages, strict=True))
    messages: list[BaseMessage] = []
    for one in given:
        place = next((i for i, (form, _) in enumerate(before) if form == one), None)
        messages.append(_read(one) if place is None else before.pop(place)[1])
    return _with_attachments(messages, request.messages)


def _with_attachments(
    messages: list[BaseMessage], before: Sequence[BaseMessage]
) -> list[BaseMessage]:
    """The messages with what hooks are not shown: of one whose words they changed, the rest."""
    for place, (message, old) in enumerate(zip(messages, before, strict=False)):
        if message is not old and message.type == old.type and (blocks := blocks_in(old)):
            content = [*blocks, {"type": "text", "text": message.text}]
            messages[place] = message.model_copy(update={"content": content})
    return messages


def _read(given: Mapping[str, Any]) -> BaseMessage:
    role = "assistant" if given.get("role") == "model" else given.get("role")
    return convert_to_messages([{**given, "role": role}])[0]


def _answered(request: Request, verdict: Verdict) -> Request:
    """The request with the answer a hook gave."""
    given = verdict.llm_response
    if given is None:
        return request
    if isinstance(given, str):
        return replace(request, answer=AIMessage(given))
    try:
        known: dict[str, Any] = {k: given[k] for k in ("content", "tool_calls") if k in given}
        message = _read({"content": "", **known, "role": "assistant"})
    except _UNREADABLE as error:
        told = say("hook_unreadable_answer", error=type(error).__name__)
        return replace(request, answer=None, refused=told)
    return replace(request, answer=message if isinstance(message, AIMessage) else None)


def _chosen_tools(request: Request, config: ToolConfig) -> Request:
    allowed = [] if config.mode == "NONE" else config.allowed_function_names
    tools = [t for t in request.tools if allowed is None or t["function"]["name"] in allowed]
    return replace(
        request,
        tools=tools,
        restricted=request.restricted or len(tools) < len(request.tools),
        must_call=config.mode == "ANY" and bool(tools),
    )

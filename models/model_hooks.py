"""Hooks around model calls: what is asked, with which tools, and what is taken as the answer.

Hooks see messages in the form OpenAI's chat format has, texts only. A message a hook leaves alone
is sent as it was, with everything that form does not show.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    convert_to_messages,
    convert_to_openai_messages,
)

from ..hooks.contract import HookEvent, ToolConfig, Verdict
from ..state.attachments import blocks_in
from ..state.messages import calls_in
from ..text.sentences import say
from .choice import apply_settings
from .reading import Reading
from .request import Asker, Call, NotAsked, Reply, Request

_SETTINGS: Final = ("temperature", "top_p", "top_k", "max_tokens", "stop")
# What reading a mapping of another shape raises; pydantic's ValidationError is a ValueError.
_UNREADABLE: Final = (ValueError, TypeError, KeyError, AttributeError, NotImplementedError)


async def apply_hooks(asker: Asker, inner: Call, request: Request) -> Reply:
    """Let hooks change the request, answer in the model's place, and judge the model's answer.

    Raises:
        NotAsked: A hook refuses the request or the answer.
    """
    events = asker.scope.hooks.events
    if "BeforeModel" in events:
        shown = _render_request(request)
        verdict = await _fire(asker, "BeforeModel", llm_request=shown)
        request = await _apply_changes(asker, request, verdict.llm_request or {}, shown["messages"])
        if (answer := _parse_answer(verdict)) is not None:
            return Reply(answer, request)
    if "BeforeToolSelection" in events and request.tools and request.may_call:
        verdict = await _fire(asker, "BeforeToolSelection", llm_request=_render_request(request))
        if verdict.tool_config:
            request = _restrict_tools(request, verdict.tool_config)
    reply = await inner(request)
    if "AfterModel" not in events:
        return reply
    chosen = reply.request.chosen
    verdict = await _fire(
        asker,
        "AfterModel",
        llm_request=_render_request(replace(request, chosen=chosen)),
        llm_response=to_openai_message(reply.message) | {"model": chosen.name},
    )
    return Reply(_parse_answer(verdict) or reply.message, reply.request)


async def _fire(asker: Asker, event: HookEvent, **fields: Any) -> Verdict:
    """What the hooks of an event say, unless they refuse."""
    verdict = await asker.scope.hooks.fire(event, emit=asker.scope.emit, **fields)
    if verdict.refusal:
        raise NotAsked(by="hook", why=verdict.refusal)
    return verdict


def enforce_tool_rules(reading: Reading[Any], request: Request) -> Reading[Any]:
    """The reading of an answer, refused if it does not do what hooks said about tools."""
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


def to_openai_message(message: BaseMessage) -> dict[str, Any]:
    """A message as hooks see it: role, text, calls."""
    (shown,) = convert_to_openai_messages([message.model_copy(update={"content": message.text})])
    return shown


def _render_request(request: Request) -> dict[str, Any]:
    model = request.chosen.model
    settings = {name: getattr(model, name, None) for name in _SETTINGS}
    callable_ = request.tools if request.may_call else ()
    return {
        "model": request.chosen.name,
        "messages": [to_openai_message(message) for message in request.messages],
        "config": {k: v for k, v in settings.items() if v is not None},
        "toolConfig": {
            "mode": "AUTO" if callable_ else "NONE",
            "allowedFunctionNames": [tool["function"]["name"] for tool in callable_],
        },
    }


async def _apply_changes(
    asker: Asker, request: Request, fields: Mapping[str, Any], shown: list[dict[str, Any]]
) -> Request:
    """The request with the fields a hook gave."""
    try:
        if "messages" in fields:
            request = replace(request, messages=_merge_messages(request, fields["messages"], shown))
        config = fields.get("toolConfig", fields.get("tool_config"))
        if config is not None and request.may_call:
            request = _restrict_tools(request, ToolConfig.model_validate(config))
        settings = dict(fields.get("config") or {})
    except _UNREADABLE as error:
        # Sending the request as it was could send what the hook meant to take out.
        raise _refuse_unreadable(error, "request") from error
    chosen, name = request.chosen, str(fields.get("model") or "")
    if name not in ("", chosen.name):
        chosen = await asyncio.to_thread(asker.models.get_or_build, name, chosen.tier)
    return replace(request, chosen=apply_settings(chosen, settings) if settings else chosen)


def _merge_messages(
    request: Request, changed: Sequence[Mapping[str, Any]], shown: list[dict[str, Any]]
) -> list[BaseMessage]:
    """The messages a hook gave; one it did not change is the very message it was."""
    before = list(zip(shown, request.messages, strict=True))
    messages: list[BaseMessage] = []
    for message in changed:
        place = next((i for i, (form, _) in enumerate(before) if form == message), None)
        messages.append(_parse_message(message) if place is None else before.pop(place)[1])
    return _restore_attachments(messages, request.messages)


def _restore_attachments(
    messages: list[BaseMessage], before: Sequence[BaseMessage]
) -> list[BaseMessage]:
    """The messages with what hooks are not shown: of one whose words they changed, the rest."""
    for place, (message, old) in enumerate(zip(messages, before, strict=False)):
        if message is not old and message.type == old.type and (blocks := blocks_in(old)):
            content = [*blocks, {"type": "text", "text": message.text}]
            messages[place] = message.model_copy(update={"content": content})
    return messages


def _parse_message(message: Mapping[str, Any]) -> BaseMessage:
    role = "assistant" if message.get("role") == "model" else message.get("role")
    return convert_to_messages([{**message, "role": role}])[0]


def _parse_answer(verdict: Verdict) -> AIMessage | None:
    """The answer a hook gave, if it did."""
    response = verdict.llm_response
    if response is None or isinstance(response, str):
        return None if response is None else AIMessage(response)
    try:
        known: dict[str, Any] = {k: response[k] for k in ("content", "tool_calls") if k in response}
        message = _parse_message({"content": "", **known, "role": "assistant"})
    except _UNREADABLE as error:
        raise _refuse_unreadable(error, "answer") from error
    return message if isinstance(message, AIMessage) else None


def _refuse_unreadable(error: Exception, what: Literal["request", "answer"]) -> NotAsked:
    why = say(f"hook_unreadable_{what}", error=type(error).__name__)
    return NotAsked(by="hook", why=why)


def _restrict_tools(request: Request, config: ToolConfig) -> Request:
    allowed = [] if config.mode == "NONE" else config.allowed_function_names
    tools = [t for t in request.tools if allowed is None or t["function"]["name"] in allowed]
    return replace(
        request,
        tools=tools,
        restricted=request.restricted or len(tools) < len(request.tools),
        must_call=config.mode == "ANY" and bool(tools),
    )

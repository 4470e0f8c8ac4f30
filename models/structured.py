"""How one model is asked for a contract, and what it turned out not to understand.

Modes, best first: the provider's native JSON schema, a tool named like the contract, the prompt
alone. A model that refuses one with a 400 is asked in the next mode, in this call and ever after.
Parameters that are refused by name are dropped the same way.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, get_args

from langchain_core.exceptions import OutputParserException
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.constants import TAG_NOSTREAM
from pydantic import ValidationError

from ..state.contracts import Contract
from ..state.roles import ROLE_METADATA
from ..state.told import say

Mode = Literal["native", "tool", "prompt"]
_MODES: Final[tuple[Mode, ...]] = get_args(Mode)

# What providers call the parts of a request that carry a contract or tools.
_CONTRACT_WORDS: Final = re.compile(
    r"response_?format|json_?schema|structured[ _]outputs?|output_(?:config|format)|"
    r"tool_?choice|parallel_tool_calls|\bstrict\b|\bschema\b",
    re.IGNORECASE,
)
_TOOL_WORDS: Final = re.compile(r"\btools?\b|\bfunctions?\b|function[_ ]call", re.IGNORECASE)
# Complaints about one tool, its schema or its result must not disarm the model.
_ONE_TOOL: Final = re.compile(r"tools?[.\[]\s*\d|schema|propert|role", re.IGNORECASE)
_NOT_TAKEN: Final = re.compile(
    r"not (?:currently )?(?:support|permit|allow|avail|enabl|implement)|n't support|unsupported|"
    r"unknown|unrecogni[sz]ed|extra (?:fields|inputs)|no endpoints found|enable-auto-tool-choice",
    re.IGNORECASE,
)
# One request may be refused for a mode, for tools and for several parameters, one after another.
_MOST_QUIRKS: Final = 6
_MALFORMED: Final = frozenset(
    {"LengthFinishReasonError", "ContentFilterFinishReasonError", "OpenAIRefusalError"}
)


@dataclass
class Quirks:
    """What is known about one model, learnt from its refusals; kept while the process lives."""

    mode: Mode = "native"
    takes_tools: bool = True
    spells_out: bool = False
    """Tool traffic goes in words where no tools are offered."""
    dropped: set[str] = field(default_factory=set)


async def ask_once(
    model: BaseChatModel,
    quirks: Quirks,
    messages: Sequence[BaseMessage],
    *,
    role: str = "",
    tools: Sequence[dict[str, Any]] = (),
    contract: type[Contract] | None = None,
) -> AIMessage:
    """Ask a model once and give its message; a refusal or a broken answer is a message too.

    With tools the contract is left to the prompt: tools and a forced schema exclude each other.

    Args:
        model: The model itself.
        quirks: What is known about it; what this call learns is added.
        messages: The conversation.
        role: Who asks; it travels in the metadata of the call's config.
        tools: Tools in OpenAI's format.
        contract: What the answer must be, where there are no tools.

    Raises:
        Exception: What the provider raises for a call that failed.
    """
    config: RunnableConfig = {"tags": [TAG_NOSTREAM], "metadata": {ROLE_METADATA: role}}
    for _ in range(_MOST_QUIRKS):
        asked = _prepare(model, quirks, tools, contract)
        known = replace(quirks, dropped=set(quirks.dropped))
        try:
            sent = list(messages) if tools or not quirks.spells_out else _spelled_out(messages)
            return _message(await asked.ainvoke(sent, config))
        except Exception as error:
            broken = _broken_answer(error)
            if broken is not None:
                return broken
            if not (tools or quirks.spells_out) and _wants_tools(error, messages):
                quirks.spells_out = True
            # A parallel call may have learnt the same in the meantime.
            if known == quirks and not _learn(error, model, quirks, tools, contract):
                raise
            refusal = error
    raise refusal


def _prepare(
    model: BaseChatModel,
    quirks: Quirks,
    tools: Sequence[dict[str, Any]],
    contract: type[Contract] | None,
) -> Runnable[Any, Any]:
    plain = _without(model, quirks.dropped)
    if tools and quirks.takes_tools:
        try:
            return plain.bind_tools(list(tools))
        except NotImplementedError:
            quirks.takes_tools = False
    if tools or contract is None:
        return plain
    schema = contract.wire_schema()
    try:
        if quirks.mode == "native":
            return plain.with_structured_output(schema, method="json_schema", include_raw=True)
        if quirks.mode == "tool":
            # No tool_choice: it is the parameter refused most often, and the prompt asks already.
            return plain.bind_tools([_as_tool(schema)])
    except (NotImplementedError, TypeError, ValueError):
        _demote(quirks)
        return _prepare(model, quirks, tools, contract)
    return plain


def _as_tool(schema: dict[str, Any]) -> dict[str, Any]:
    description = schema.get("description", "The answer.")
    return {
        "type": "function",
        "function": {"name": schema["title"], "description": description, "parameters": schema},
    }


def _message(answer: object) -> AIMessage:
    raw = answer.get("raw") if isinstance(answer, dict) else answer
    if isinstance(raw, AIMessage):
        return raw
    return AIMessage(raw if isinstance(raw, str) else json.dumps(raw, default=str))


def _demote(quirks: Quirks) -> bool:
    place = _MODES.index(quirks.mode) + 1
    if place >= len(_MODES):
        return False
    quirks.mode = _MODES[place]
    return True


def _learn(
    error: Exception,
    model: BaseChatModel,
    quirks: Quirks,
    tools: Sequence[dict[str, Any]],
    contract: type[Contract] | None,
) -> bool:
    """Take from a 400 what the model does not understand; False if it says nothing of use."""
    status = status_of(error)
    if status not in (400, 404, 422):
        return False
    text = f"{getattr(error, 'param', None) or ''} {error}"
    about_tools = bool(_TOOL_WORDS.search(text))
    if tools and about_tools and _NOT_TAKEN.search(text) and not _ONE_TOOL.search(text):
        quirks.takes_tools = False
        return True
    if status == 404:  # nothing else about a request gives it
        return False
    refused = _refused_settings(text, model) - quirks.dropped
    quirks.dropped |= refused
    if refused:
        return True
    forced = contract is not None and not tools
    return forced and bool(about_tools or _CONTRACT_WORDS.search(text)) and _demote(quirks)


def status_of(error: BaseException) -> int | None:
    """The HTTP status of a provider's error, wherever its package keeps it."""
    for holder in (error, getattr(error, "response", None)):
        for name in ("status_code", "status", "http_status", "code"):
            if isinstance(status := getattr(holder, name, None), int):
                return status
    return None


# What a request calls a field, where that is not the field's own name.
_WIRE_NAMES: Final = {
    "max_completion_tokens": "max_tokens",
    "stream_options": "stream_usage",
    "include_usage": "stream_usage",
}
# Without these a client does not reach its model, or reaches another one.
_NEEDED: Final = re.compile(r"model|name|.*(?:key|url|base|client|deployment|version|kwargs).*")


def _refused_settings(text: str, model: BaseChatModel) -> set[str]:
    """The settings of a model that a 400 names: its fields, and keys of its `model_kwargs`."""
    words = set(re.findall(r"[a-z][a-z0-9_]*", text.lower()))
    words |= {_WIRE_NAMES[word] for word in words & _WIRE_NAMES.keys()}
    fields = type(model).model_fields
    set_fields = {
        name
        for name in words & fields.keys()
        if not _NEEDED.fullmatch(name)
        and not fields[name].is_required()
        and getattr(model, name, None) != fields[name].get_default(call_default_factory=True)
    }
    return set_fields | (words & _extras(model).keys())


def _extras(model: BaseChatModel) -> dict[str, Any]:
    extras = getattr(model, "model_kwargs", None)
    return extras if isinstance(extras, dict) else {}


def _without(model: BaseChatModel, dropped: set[str]) -> BaseChatModel:
    if not dropped:
        return model
    fields = type(model).model_fields
    changes: dict[str, Any] = {
        name: fields[name].get_default(call_default_factory=True)
        for name in dropped & fields.keys()
    }
    extras = _extras(model)
    if extras.keys() & dropped:
        changes["model_kwargs"] = {k: v for k, v in extras.items() if k not in dropped}
    return model.model_copy(update=changes)


def _broken_answer(error: Exception) -> AIMessage | None:
    """The message in an error that says the answer, not the call, was bad."""
    kind = type(error).__name__
    if kind == "OpenAIRefusalError":
        return AIMessage("", additional_kwargs={"refusal": str(error)})
    if kind in _MALFORMED:
        return _from_completion(getattr(error, "completion", None), kind)
    if isinstance(error, OutputParserException | json.JSONDecodeError | ValidationError):
        return AIMessage(
            str(getattr(error, "llm_output", None) or getattr(error, "doc", None) or "")
        )
    return None


def _from_completion(completion: Any, kind: str) -> AIMessage:
    reason = "content_filter" if kind.startswith("Content") else "length"
    message = AIMessage("", response_metadata={"finish_reason": reason})
    if completion is None:
        return message
    choices = getattr(completion, "choices", None)
    text = getattr(getattr(choices[0], "message", None), "content", None) if choices else None
    usage = getattr(completion, "usage", None)
    message.content = text or ""
    if usage is not None:
        message.usage_metadata = {
            "input_tokens": usage.prompt_tokens,
            "output_tokens": usage.completion_tokens,
            "total_tokens": usage.total_tokens,
        }
    return message


# Anthropic's API and Bedrock's refuse a conversation with calls and results in it unless the
# request defines tools. A phase that must not call any offers none, so it is shown them in words:
# "Requests which include `tool_use` or `tool_result` blocks must define tools",
# "The toolConfig field must be defined when using toolUse and toolResult content blocks".
_NO_TOOLS: Final = re.compile(
    r"must define tools|toolConfig field must be defined|expects the `?tools=?`? param",
    re.IGNORECASE,
)


def _wants_tools(error: BaseException, messages: Sequence[BaseMessage]) -> bool:
    """Whether a provider refused a conversation because of the tool traffic in it."""
    return bool(_NO_TOOLS.search(str(error))) and any(map(_is_traffic, messages))


def _spelled_out(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """The conversation with each call and each result as words; results as the user's."""
    return [_spelled(message) if _is_traffic(message) else message for message in messages]


def _is_traffic(message: BaseMessage) -> bool:
    if isinstance(message, AIMessage):
        return bool(message.tool_calls or message.invalid_tool_calls)
    return isinstance(message, ToolMessage)


def _spelled(message: BaseMessage) -> BaseMessage:
    if not isinstance(message, AIMessage):
        kind = "result_of" if message.name else "result_of_the_call"
        return HumanMessage(say(kind, tool=message.name, text=message.text), id=message.id)
    calls = [(c["name"], json.dumps(c["args"], ensure_ascii=False)) for c in message.tool_calls]
    calls += [(c["name"] or "", c["args"] or "") for c in message.invalid_tool_calls]
    told = [say("call_of", tool=name, arguments=arguments) for name, arguments in calls]
    return AIMessage("\n".join([*filter(None, [message.text]), *told]), id=message.id)

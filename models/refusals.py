"""What a provider's error says: whether and when to ask again, and what a model does not take.

Backoff is exponential with full jitter (Brooker, "Exponential Backoff and Jitter", AWS 2015). A
model that refuses a way to ask for a contract, tools, or a parameter with a 400 is asked without
it, in this call and ever after.
"""

import contextlib
import json
import random
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any, Final, Literal, get_args

from langchain_core.exceptions import ContextOverflowError, ModelError, OutputParserException
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.messages.ai import UsageMetadata
from pydantic import ValidationError

from ..state.attachments import blocks_in
from ..state.errors import ModelCallFailed
from ..state.messages import calls_in
from ..text.secrets import read_own_secrets
from ..text.sentences import say

_FIRST_DELAY: Final = 0.5
_LONGEST_DELAY: Final = 30.0
# A server that wants more patience than this is treated as gone: the thread waits, not the process.
_LONGEST_RETRY_AFTER: Final = 120.0
_RETRYABLE_STATUSES: Final = frozenset({408, 409, 425, 429, *range(500, 600)})
# httpx's and its forks' transport errors have no common base that could be imported here.
_TRANSPORT_ERRORS: Final = frozenset({"TransportError", "APIConnectionError", "ServiceUnavailable"})

# How a model is told to call none of the tools it is shown: OpenAI's way, then Anthropic's.
_NO_CALL: Final[tuple[Any, ...]] = ("none", {"type": "none"})

_PHRASES: Final = {
    name: re.compile("|".join(phrases), re.IGNORECASE)
    for name, phrases in {
        "another loop": [r"event loop is closed", r"different (?:event )?loop"],
        "too long": [
            r"context[_ ](?:length|window)", r"(?:prompt|input) token count",
            r"(?:prompt|input|request|conversation) (?:is|was) too (?:long|large)",
            r"too many (?:input |prompt )?tokens", r"maximum (?:prompt|input) length",
            r"range of input length", r"exceed_context_size",
        ],
        "the contract": [
            r"response_?format", r"json_?schema", r"structured[ _]outputs?",
            r"output_(?:config|format)", r"tool_?choice", r"parallel_tool_calls", r"\bstrict\b",
            r"\bschema\b",
        ],
        "tools": [r"\btools?\b", r"\bfunctions?\b", r"function[_ ]call"],
        # A complaint about one tool, its schema or its result must not disarm the model.
        "one tool": [r"tools?[.\[]\s*\d", r"schema", r"propert", r"role"],
        "not taken": [
            r"not (?:currently )?(?:support|permit|allow|avail|enabl|implement)", r"n't support",
            r"unsupported", r"unknown", r"unrecogni[sz]ed", r"extra (?:fields|inputs)",
            r"no endpoints found", r"enable-auto-tool-choice",
        ],
        # Anthropic's API and Bedrock's refuse a conversation with calls and results in it unless
        # the request defines tools: a phase that may call none, and has none, is shown them in
        # words.
        "no tools defined": [
            r"must define tools", r"toolConfig field must be defined",
            r"expects the `?tools=?`? param",
        ],
        "the choice of tools": [r"tool[ _]?choice", r"\bnone\b"],
    }.items()
}  # fmt: skip
"""What providers say in English: many of them give no code that says it. Read together with the
error's code and the parameter it names."""


class DeadlinePassed(TimeoutError):
    """The model did not answer within the deadline; asking it again would hang as long."""


def refuse_answer(why: str) -> ModelCallFailed:
    """The error for an answer that is too long to be read; asking again would bring it again."""
    advice = "Set max_output_tokens, or name another model, then resume the thread."
    return ModelCallFailed(f"A model's answer was not read: {why}. {advice}")


def status_of(error: BaseException) -> int | None:
    """The HTTP status of a provider's error, wherever its package keeps it."""
    for holder in (error, getattr(error, "response", None)):
        for name in ("status_code", "status", "http_status", "code"):
            if isinstance(status := getattr(holder, name, None), int):
                return status
    return None


def _is_about(kind: str, error: BaseException) -> bool:
    return _PHRASES[kind].search(_text_of(error)) is not None


def _text_of(error: BaseException) -> str:
    fields = (getattr(error, "code", None), getattr(error, "param", None), error)
    return " ".join(str(field) for field in fields if field)


def delay_before(attempt: int, error: Exception) -> float | None:
    """Seconds to wait before a further attempt; None if it is of no use."""
    if not is_retryable(error):
        return None
    asked = retry_after(error)
    if asked is not None:
        return asked if asked <= _LONGEST_RETRY_AFTER else None
    return random.uniform(0, min(_LONGEST_DELAY, _FIRST_DELAY * 2**attempt))


def is_retryable(error: BaseException) -> bool:
    """Say whether the same call may succeed a moment later."""
    if isinstance(error, DeadlinePassed):
        return False
    if isinstance(error, ModelError):
        return error.is_retryable
    if isinstance(error, TimeoutError | ConnectionError):
        return True
    if any(kind.__name__ in _TRANSPORT_ERRORS for kind in type(error).__mro__):
        return True
    return status_of(error) in _RETRYABLE_STATUSES


def retry_after(error: BaseException) -> float | None:
    """Seconds the provider asks to wait (`Retry-After` as number or date); None if it does not."""
    headers = getattr(getattr(error, "response", None), "headers", None) or {}
    value, unit = headers.get("retry-after-ms"), 0.001
    if not value:
        value, unit = headers.get("retry-after") or "", 1.0
    with contextlib.suppress(ValueError):
        return max(0.0, float(value) * unit)
    with contextlib.suppress(ValueError):
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    return None


def is_stale(error: Exception) -> bool:
    """Whether a client's pool gave a connection of another, closed event loop.

    No answer can come over such a connection, and each failure takes one out of the pool.
    """
    return isinstance(error, RuntimeError) and _is_about("another loop", error)


def is_too_long(error: BaseException) -> bool:
    """Whether a request was refused because it is longer than the model takes."""
    if isinstance(error, ContextOverflowError):
        return True
    return status_of(error) in (400, 413, 422) and _is_about("too long", error)


def describe(error: BaseException) -> str:
    """An error in one short line, with its type."""
    text = read_own_secrets().mask_words(" ".join(str(error).split()))[:300]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


_CANNOT_READ: Final = (400, 404, 413, 415, 422)
# What a provider's client raises for a block it cannot translate.
_NOT_SENT: Final = (ValueError, TypeError, KeyError, NotImplementedError)


def explain_failure(
    role: str, model: str, error: Exception, messages: Sequence[BaseMessage] = ()
) -> str:
    """The sentence for a user if no model answered; `messages` are what it was sent."""
    advice = "resume the thread when it is reachable again"
    if status_of(error) in (400, 401, 403, 404, 413, 422):
        advice = "correct that, then resume the thread"
    if is_too_long(error):
        advice = (
            "the request is longer than it takes: lower context_budget, name a model that takes "
            "more, or send less at once, then resume the thread"
        )
    kinds = sorted({str(block.get("type")) for m in messages for block in blocks_in(m)})
    if kinds and (status_of(error) in _CANNOT_READ or isinstance(error, _NOT_SENT)):
        advice = (
            f"it was sent {', '.join(kinds)}: if it cannot read that, resume the thread with a "
            "model that can, or send it as text"
        )
    return f"The {role}'s model {model} did not answer ({describe(error)}); {advice}."


_STOPPED: Final = {
    "LengthFinishReasonError": "length",
    "ContentFilterFinishReasonError": "content_filter",
}


def read_broken_answer(error: Exception) -> AIMessage | None:
    """The message in an error that says the answer, not the call, was bad."""
    if reason := _STOPPED.get(type(error).__name__):
        completion = getattr(error, "completion", None)
        choices, usage = getattr(completion, "choices", None), getattr(completion, "usage", None)
        text = choices[0].message.content if choices else None
        message = AIMessage(text or "", response_metadata={"finish_reason": reason})
        if usage is not None:
            message.usage_metadata = UsageMetadata(
                input_tokens=usage.prompt_tokens,
                output_tokens=usage.completion_tokens,
                total_tokens=usage.total_tokens,
            )
        return message
    if isinstance(error, ValidationError):  # mostly arguments that are a text or a list
        return AIMessage("", response_metadata={"finish_reason": "malformed_function_call"})
    if isinstance(error, OutputParserException | json.JSONDecodeError):
        return AIMessage(
            str(getattr(error, "llm_output", None) or getattr(error, "doc", None) or "")
        )
    return None


# What a model does not take.

Mode = Literal["native", "tool", "prompt"]
_MODES: Final[tuple[Mode, ...]] = get_args(Mode)


@dataclass
class Quirks:
    """What is known about one model, learned from its refusals; kept while the process lives."""

    mode: Mode = "native"
    """How it is asked for a contract: by its JSON schema, a tool like it, the prompt alone."""
    takes_tools: bool = True
    no_call: tuple[Any, ...] = _NO_CALL
    """The ways that are left of telling it, by `tool_choice`, to call nothing."""
    calls_anyway: bool = False
    """It called a tool though it must not, so the prompt forbids it, too."""
    spells_out: bool = False
    """Tool traffic goes in words if no tools are offered."""
    thinks_first: bool = False
    """It ends its thoughts with a tag that it never opens."""
    dropped: set[str] = field(default_factory=set)
    """Settings that are not sent."""
    room: int = field(default=0, compare=False)
    """Tokens that a request may have since one of twice as many was refused as too long."""
    price: Any = field(default=..., compare=False)
    """By the list of prices; `...` if nobody has looked, None if it is not there."""
    bytes_per_token: int = field(default=2, compare=False)
    """Of what it reads, at least; 1 once its provider has counted more tokens than that allows."""

    def demote(self) -> bool:
        """Ask for a contract in the next mode; False if there is none."""
        if self.mode == _MODES[-1]:
            return False
        self.mode = _MODES[_MODES.index(self.mode) + 1]
        return True

    def choose_otherwise(self) -> bool:
        """Tell it in the next way to call nothing; False if it was told in none."""
        had_one, self.no_call = bool(self.no_call), self.no_call[1:]
        return had_one

    def learn(
        self,
        error: Exception,
        model: BaseChatModel,
        messages: Sequence[BaseMessage],
        *,
        tools: bool,
        contract: bool,
        may_call: bool = True,
    ) -> bool:
        """Learn from a refusal what the model does not support; False if it says nothing of use.

        Args:
            error: The refusal.
            model: The model that refused.
            messages: The request.
            tools: Whether it offered tools.
            contract: Whether the answer had to fit a contract.
            may_call: Whether it might have called a tool.
        """
        says = {kind for kind in _PHRASES if _is_about(kind, error)}
        if not tools and "no tools defined" in says and any(map(_is_traffic, messages)):
            self.spells_out = True
            return True
        if (status := status_of(error)) not in (400, 404, 422):
            return False
        if tools and not may_call and "the choice of tools" in says and self.choose_otherwise():
            return True
        if tools and {"tools", "not taken"} <= says and "one tool" not in says:
            self.takes_tools = False
            return True
        if status == 404:  # nothing else about a request gives it
            return False
        if refused := _find_refused_settings(_text_of(error), model) - self.dropped:
            self.dropped |= refused
            return True
        about_contract = bool({"tools", "the contract"} & says)
        return contract and not tools and about_contract and self.demote()


# What a request calls a field, if that is not the field's own name.
_WIRE_NAMES: Final = {
    "max_completion_tokens": "max_tokens",
    "stream_options": "stream_usage",
    "include_usage": "stream_usage",
}
# Without these a client does not reach its model, or reaches another one.
_NEEDED: Final = re.compile(r"model|name|.*(?:key|url|base|client|deployment|version|kwargs).*")


def _find_refused_settings(text: str, model: BaseChatModel) -> set[str]:
    """The settings of a model that a 400 names: its fields, and keys of its `model_kwargs`."""
    words = set(re.findall(r"[a-z][a-z0-9_]*", text.lower()))
    words |= {_WIRE_NAMES[word] for word in words & _WIRE_NAMES.keys()}
    fields = type(model).model_fields
    free = {
        n for n in words & fields.keys() if not (_NEEDED.fullmatch(n) or fields[n].is_required())
    }
    usual = {name: fields[name].get_default(call_default_factory=True) for name in free}
    changed = {name for name in free if getattr(model, name, None) != usual[name]}
    return changed | (words & _extras(model).keys())


def _extras(model: BaseChatModel) -> dict[str, Any]:
    extras = getattr(model, "model_kwargs", None)
    return extras if isinstance(extras, dict) else {}


def drop_settings(model: BaseChatModel, dropped: set[str]) -> BaseChatModel:
    """The model without these settings."""
    fields = type(model).model_fields
    changes: dict[str, Any] = {
        name: fields[name].get_default(call_default_factory=True)
        for name in dropped & fields.keys()
    }
    extras = _extras(model)
    if extras.keys() & dropped:
        changes["model_kwargs"] = {k: v for k, v in extras.items() if k not in dropped}
    return model.model_copy(update=changes)


def spell_out_calls(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """The conversation with each call and each result as words; results as the user's."""
    return [_spell_out(message) if _is_traffic(message) else message for message in messages]


def _is_traffic(message: BaseMessage) -> bool:
    return isinstance(message, ToolMessage) or bool(calls_in(message))


def _spell_out(message: BaseMessage) -> BaseMessage:
    if not isinstance(message, AIMessage):
        kind = "result_of" if message.name else "result_of_the_call"
        return HumanMessage(say(kind, tool=message.name, text=message.text), id=message.id)
    calls = [(c["name"], json.dumps(c["args"], ensure_ascii=False)) for c in message.tool_calls]
    calls += [(c["name"] or "", c["args"] or "") for c in message.invalid_tool_calls]
    lines = [say("call_of", tool=name, arguments=arguments) for name, arguments in calls]
    return AIMessage("\n".join([*filter(None, [message.text]), *lines]), id=message.id)

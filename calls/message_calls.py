"""The calls of a message as they stand in it: read, named, and spelled as providers take them."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk, AnyMessage

from ..state.calls import call_id
from ..state.messages import calls_in
from ..text.canonical import hash_of, make_storable_json
from ..text.sentences import say
from ..tools.catalog import is_name, normalize_name
from ..turn.scope import RunScope


def read_calls(message: AIMessage) -> Iterator[tuple[Mapping[str, Any], str]]:
    """Every call in the message, invalid ones last, with what is wrong with its form, or ""."""
    raw = _read_raw_arguments(message)
    for index, call in enumerate(message.tool_calls):
        problem = _explain_no_object(raw[index]) if index < len(raw) else ""
        yield call, say("arguments_no_json", why=problem) if problem else ""
    for invalid in message.invalid_tool_calls:
        why = _explain_no_object(invalid.get("args") or "") or invalid.get("error")
        yield invalid, say("arguments_no_json", why=str(why or say("not_readable"))[:200])


def make_unique_ids(message: AIMessage, scope: RunScope, *, task: str, round_: int) -> list[str]:
    """An id for each call of a message: the provider's, or ours where the thread knows it.

    Providers repeat ids, or give none. Ours holds the turn, and a hash: calls of two steps may
    differ in characters alone that no id may have, and OpenAI takes 40 characters.
    """
    given, ids = [call.get("id") for call in calls_in(message)], list[str]()
    known = scope.around.public.get("messages", ()) if any(given) else ()
    taken = {call["id"] for before in known for call in calls_in(before)}
    for index, own in enumerate(given):
        made = hash_of([scope.agent, call_id(task, round_, index)])[:12]
        is_new = isinstance(own, str) and own and own not in taken
        ids.append(str(own) if is_new else f"call_{scope.turn}_{made}")
        taken.add(ids[-1])
    return ids


def set_call_ids(message: AIMessage, calls: Sequence[Mapping[str, Any]]) -> AIMessage:
    """The message with the call ids of its planned calls, so that each answer finds its call.

    A name that was made up, such as `multi_tool_use.parallel`, is spelled as providers take it:
    one they refuse would fail every later request with this message.
    """
    ids = iter(calls)
    update = {
        "tool_calls": [
            {
                **_fix_call_name(call),
                "args": make_storable_json(call["args"]),
                "id": next(ids)["call_id"],
            }
            for call in message.tool_calls
        ],
        "invalid_tool_calls": [
            {**_fix_call_name(call), "id": next(ids)["call_id"]}
            for call in message.invalid_tool_calls
        ],
    }
    return message.model_copy(update=update)


def assign_call_ids(message: AIMessage, scope: RunScope, *, round_: int) -> AIMessage:
    """The message with an id of its own for each call, where none of them is to run."""
    ids = make_unique_ids(message, scope, task=scope.path, round_=round_)
    named = [{"call_id": one} for one in ids]
    return set_call_ids(message, named)


def fix_call_names(message: AnyMessage) -> AnyMessage:
    """The message with names of calls that providers take; mostly it is the message itself."""
    made = calls_in(message)
    if all(is_name(call["name"] or "") for call in made) or not isinstance(message, AIMessage):
        return message
    names = {
        "tool_calls": [_fix_call_name(call) for call in message.tool_calls],
        "invalid_tool_calls": [_fix_call_name(call) for call in message.invalid_tool_calls],
    }
    return message.model_copy(update=names)


def _fix_call_name(call: Any) -> dict[str, Any]:
    return {**call, "name": normalize_name(call["name"] or "unknown")}


def _read_raw_arguments(message: AIMessage) -> list[str]:
    """The arguments as the provider sent them, where the message still has them.

    A streaming parser closes what was cut, so a broken call looks whole once it is parsed.
    """
    if isinstance(message, AIMessageChunk):
        texts = [chunk.get("args") or "" for chunk in message.tool_call_chunks]
    else:
        calls = message.additional_kwargs.get("tool_calls")
        functions = [c.get("function") or {} for c in calls or () if isinstance(c, Mapping)]
        texts = [str(function.get("arguments") or "") for function in functions]
    # More raw texts than calls means that some were unreadable, so the order tells nothing.
    return texts if len(texts) == len(message.tool_calls) else []


def _explain_no_object(text: str) -> str:
    """Why a text is no JSON object; no text at all stands for no arguments."""
    if not text.strip():
        return ""
    try:
        value = json.loads(text)
    except ValueError as error:
        return str(error)
    except RecursionError:
        return say("nested_too_deeply")
    return "" if isinstance(value, dict) else say("it_is_a", kind=type(value).__name__)

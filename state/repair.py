"""Whole tool pairs: every call of a conversation is answered right behind the message it is in.

A new message may arrive while calls wait for approval, or after a crash or a cancelled run. Some
front ends then put an answer of their own into the conversation, which no tool has given.
"""

from collections.abc import Callable, Collection, Sequence
from itertools import takewhile
from typing import Any, Final

from langchain_core.messages import AIMessage, AnyMessage, RemoveMessage, ToolMessage

PLACEHOLDER: Final = "do-not-render-"
"""How Agent Chat UI begins the id of an answer it made up: "Successfully handled tool call"."""

Answer = Callable[[str], ToolMessage]
"""From the id of a call that has no answer to the message that answers it."""


def repairs(
    messages: Sequence[AnyMessage], answer: Answer, *, open_calls: Collection[str] = ()
) -> list[Any]:
    """The writes that make a conversation whole; none where it is.

    Args:
        messages: The conversation, oldest first, each with an id.
        answer: Makes the missing answers. Their ids must be new, or those of the ones replaced.
        open_calls: Ids of calls of the newest message with calls which our own tool node has not
            answered: whatever else answers them is made up.

    Returns:
        Messages to remove from the first defect on, then everything as it should follow.
    """
    whole = _whole(messages, answer, frozenset(open_calls))
    same = sum(
        1 for _ in takewhile(lambda pair: pair[0] is pair[1], zip(messages, whole, strict=False))
    )
    if same == len(messages) == len(whole):
        return []
    return [*(RemoveMessage(id=str(m.id)) for m in messages[same:]), *whole[same:]]


def _whole(
    messages: Sequence[AnyMessage], answer: Answer, open_calls: frozenset[str]
) -> list[AnyMessage]:
    newest = max((i for i, m in enumerate(messages) if _calls(m)), default=-1)
    whole: list[AnyMessage] = []
    for place, message in enumerate(messages):
        if isinstance(message, ToolMessage):
            continue  # follows its call below; an answer without a call is dropped
        whole.append(message)
        if calls := _calls(message):
            made_up = open_calls if place == newest else frozenset()
            given = _given(messages[place + 1 :], made_up)
            whole += [given.get(call) or answer(call) for call in calls]
    return whole


def _calls(message: AnyMessage) -> list[str]:
    """Ids of the calls a message makes, unreadable ones included, each once."""
    if not isinstance(message, AIMessage):
        return []
    made = [*message.tool_calls, *message.invalid_tool_calls]
    return list(dict.fromkeys(call["id"] for call in made if call["id"]))


def _given(behind: Sequence[AnyMessage], made_up: frozenset[str]) -> dict[str, ToolMessage]:
    """Call id to the first answer before the next message with calls: providers repeat ids."""
    given: dict[str, ToolMessage] = {}
    for message in takewhile(lambda m: not _calls(m), behind):
        if isinstance(message, ToolMessage) and not _is_made_up(message, made_up):
            given.setdefault(message.tool_call_id, message)
    return given


def _is_made_up(message: ToolMessage, open_calls: frozenset[str]) -> bool:
    if "evidence" in message.additional_kwargs:  # our own tool node signs its answers
        return False
    return message.tool_call_id in open_calls or str(message.id).startswith(PLACEHOLDER)

"""Long results of tools that are shown shortened: the newest stay, of older ones head and tail."""

from collections.abc import Sequence
from typing import Final

from langchain_core.messages import AnyMessage, ToolMessage

from ....state.snapshot import estimate_message_tokens, make_short_name
from ....text.sentences import say

PROTECTED: Final = 50_000
"""Tokens of the newest results that stay whole, where there is room; what is worth shortening:"""
PRUNABLE: Final = 30_000
_PROTECTED_SHARE: Final = 0.4
_PRUNABLE_SHARE: Final = 0.2
_EDGE: Final = 250
"""Characters of head and tail each that stay."""


def mask_message(message: AnyMessage) -> AnyMessage:
    """A result as it is shown from then on: whole, if that is hardly longer."""
    if not isinstance(message, ToolMessage) or len(text := message.text) <= 3 * _EDGE:
        return message
    told = say("result_masked", left=len(text) - 2 * _EDGE, id=make_short_name(message.id))
    content = f"{text[:_EDGE]}\n{told}\n{text[-_EDGE:]}"
    return message.model_copy(update={"content": content})


def choose_mask(messages: Sequence[AnyMessage], room: int, known: str = "") -> str:
    """The id of the message before which results are to be shortened; `known` where nothing is won.

    Args:
        messages: What requests hold.
        room: Tokens they may have.
        known: What it is so far.
    """
    protected = min(PROTECTED, int(room * _PROTECTED_SHARE))
    place = len(messages)
    while place:
        protected -= (
            estimate_message_tokens([messages[place - 1]])
            if messages[place - 1].type == "tool"
            else 0
        )
        if protected < 0:
            break
        place -= 1
    place = min(place, len(messages) - 1)  # the newest was never shown
    if place <= 0:
        return known
    old = mask_older_results(messages, known)[:place]
    won = estimate_message_tokens(old) - estimate_message_tokens(map(mask_message, old))
    if won < min(PRUNABLE, int(room * _PRUNABLE_SHARE)):
        return known
    return str(messages[place].id)


def mask_older_results(messages: Sequence[AnyMessage], mask: str) -> list[AnyMessage]:
    """The messages with the results before a message shortened."""
    if not mask:
        return [*messages]
    places = (place for place, message in enumerate(messages) if message.id == mask)
    border = next(places, 0)
    return [*map(mask_message, messages[:border]), *messages[border:]]

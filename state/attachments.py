"""Attachments of the user's messages: images, audio, files. Blocks are passed on unchanged."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from langchain_core.messages import AnyMessage, BaseMessage

from ..text.sentences import say

Block = dict[str, Any]

MOST_BEFORE: Final = 8
"""Attachments of earlier messages that a role is shown, the newest; in this many characters:"""
SIZE_BEFORE: Final = 10_000_000

_KINDS: Final = ("image", "audio", "video")


class Attachment(NamedTuple):
    """One block, and its name: `image 1` is the first attachment of the thread."""

    name: str
    place: int
    """Of the message that holds it."""
    block: Block


def blocks_in(message: BaseMessage) -> list[Block]:
    """The blocks of a message that are no text."""
    if isinstance(message.content, str):
        return []
    return [b for b in message.content if isinstance(b, Mapping) and b.get("type") != "text"]


def list_attachments(messages: Sequence[AnyMessage]) -> Iterator[Attachment]:
    """What the user's messages have attached, numbered through, oldest first."""
    number = 0
    for place, message in enumerate(messages):
        for block in blocks_in(message) if message.type == "human" else ():
            number += 1
            written = str(block.get("type"))
            kind = next((kind for kind in _KINDS if kind in written), "file")
            yield Attachment(f"{kind} {number}", place, block)


def name_attachments(messages: Sequence[AnyMessage]) -> dict[int, list[str]]:
    """The names of what each message has attached, by its place."""
    names: dict[int, list[str]] = {}
    for item in list_attachments(messages):
        names.setdefault(item.place, []).append(item.name)
    return names


def build_attachment_blocks(messages: Sequence[AnyMessage], place: int) -> list[Block]:
    """The attachments of the request at this place, and the newest of the messages before it.

    A line of text precedes each; the first one says how many are left out.
    """
    attached = list(list_attachments(messages[: place + 1]))
    before = [item for item in attached if item.place != place]
    kept, room = 0, SIZE_BEFORE
    for item in before[: -MOST_BEFORE - 1 : -1]:
        room -= len(str(item.block))
        if room < 0:
            break
        kept += 1
    left = len(before) - kept
    shown = [_make_text_block(say("older_attachments_left_out", count=left))] if left else []
    for item in attached[left:]:
        name = "attached_to_request" if item.place == place else "attached_before"
        shown += [_make_text_block(say(name, name=item.name)), item.block]
    return shown


def _make_text_block(text: str) -> Block:
    return {"type": "text", "text": f"{text}\n"}

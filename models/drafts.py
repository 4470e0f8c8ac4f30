"""The visible part of what a model writes, shown while it is written.

Words are shown as they come, but for what may become a hidden tag; of a structured answer one
field is. What a model thinks before it speaks stands beside its words, never among them.
"""

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Final, Protocol

import regex  # type: ignore[import-untyped]  # its stubs are a package of their own
from langchain_core.messages import AIMessage, AIMessageChunk

from ..run.message_stream import Shown, begin_draft
from ..state.messages import REASONING, ROLE
from ..text.canonical import storable
from ..turn.scope import RunScope
from .refusals import Quirks
from .veil import Musings, Veil

_LONGEST: Final = 16_000
"""Characters of thoughts that are kept of one message."""


class _Reader(Protocol):
    shown: str
    thoughts: str
    unopened: bool

    def read(self, piece: str) -> None: ...


class Draft:
    """What one call of a model says, as far as it is written; a second try begins it anew."""

    def __init__(self, shown: Shown, field: str = "", but: str = "", call: str = "") -> None:
        """Show the words, or a field of an object; nothing that may turn out to fit `but`.

        With `call` the object is the arguments of a call of that tool.
        """
        self._shown, self._field, self._call = shown, field, call
        self._but = regex.compile(but, regex.IGNORECASE | regex.DOTALL) if but else None
        self.begin(Quirks())

    def begin(self, quirks: Quirks) -> None:
        """A model is asked, perhaps again; `quirks` is what is known of it."""
        self._quirks, veil = quirks, Veil(thinks=quirks.thinks_first)
        self._words: _Reader = _Field(self._field) if self._field else veil
        self._thoughts, self._thought, self._block = Musings(), 0, ""
        self._half, self._calls = "", dict[object, str]()

    def hear(self, chunk: AIMessageChunk) -> None:
        """Take note of a piece, and show what may be shown by now."""
        for block, text in _reasoned(chunk):
            apart = self._block not in ("", block)
            self._block = block
            self._thoughts.read(storable("\n\n" + text if apart else text))
        self._words.read(self._whole(self._said(chunk)))
        self._quirks.thinks_first |= self._words.unopened
        if more := self._words.thoughts[self._thought :]:
            self._thoughts.read(more)
            self._thought += len(more)
        text = self._words.shown
        if self._but is not None and self._but.fullmatch(text, partial=True):
            text = ""
        if text or not self._field:
            self._shown.show(text, self._thoughts.shown[:_LONGEST])

    def _said(self, chunk: AIMessageChunk) -> str:
        """The text of a piece; of an answer by a call also its arguments, or those alone."""
        if not self._call:
            return _words(chunk, with_calls=bool(self._field))
        for part in chunk.tool_call_chunks:
            if part["name"]:
                self._calls[part["index"]] = part["name"]
        ours = (p for p in chunk.tool_call_chunks if self._calls.get(p["index"]) == self._call)
        return "".join(part["args"] or "" for part in ours)

    def _whole(self, piece: str) -> str:
        """The piece without the half of a character at its end, which waits for the other one."""
        piece, self._half = self._half + piece, ""
        if piece and "\ud800" <= piece[-1] <= "\udbff":
            piece, self._half = piece[:-1], piece[-1]
        return storable(piece)


def drafted(
    scope: RunScope,
    name: str,
    role: str,
    *,
    field: str = "",
    but: str = "",
    call: str = "",
) -> Draft | None:
    """A draft of the message with this id, where somebody listens who may see it.

    Args:
        scope: The run. Where hooks judge what models answered, nothing is shown before they have.
        name: The id that the message will have in the state.
        role: Who writes it.
        field: The field with the words, where the answer is an object.
        but: A regular expression for what the text may be that is for no reader.
        call: The tool whose arguments are that object.
    """
    if "AfterModel" in scope.hooks.events:
        return None
    shown = begin_draft(name, {ROLE: role})
    return None if shown is None else Draft(shown, field, but, call)


def reasoning_of(message: AIMessage) -> str:
    """What the model thought before it spoke; '' where it is not known."""
    blocks: list[str] = []
    before = ""
    for block, text in _reasoned(message):
        blocks.append("\n\n" + text if before not in ("", block) else text)
        before = block
    text = message.text
    if "</think" in text or "<think" in text:
        veil = Veil()
        veil.read(text)
        blocks.append(veil.thoughts)
    musings = Musings()
    musings.read("".join(blocks))
    return storable(musings.whole[:_LONGEST])


def thinking(reasoning: str) -> dict[str, str]:
    """The thoughts as a message carries them; `content_blocks` has them as a block of their own."""
    return {REASONING: reasoning} if reasoning else {}


def without_thoughts(message: AIMessage) -> AIMessage:
    """The message as a later request holds it: what was said, not what was thought."""
    extra = {
        k: v for k, v in message.additional_kwargs.items() if k not in (REASONING, "reasoning")
    }
    content = message.content
    if isinstance(content, list):
        kinds = [
            block.get("type", "text") if isinstance(block, dict) else "text" for block in content
        ]
        others = [block for block, kind in zip(content, kinds, strict=True) if kind not in _THOUGHT]
        plain = set(kinds) <= {"text", *_THOUGHT}
        content = message.text if plain else others
    return message.model_copy(update={"content": content, "additional_kwargs": extra})


_THOUGHT: Final = frozenset({"reasoning", "thinking", "redacted_thinking", "reasoning_content"})


def _reasoned(message: AIMessage) -> Iterator[tuple[str, str]]:
    """The thoughts in a message or a piece of one, each with what names its block."""
    extra = message.additional_kwargs.get(REASONING)
    if isinstance(extra, str) and extra:
        yield REASONING, extra
    elif isinstance(message.content, list) or "reasoning" in message.additional_kwargs:
        for place, block in enumerate(message.content_blocks):
            if block["type"] == "reasoning" and (text := block.get("reasoning")):
                yield str(block.get("index", place)), text


def _words(chunk: AIMessageChunk, *, with_calls: bool) -> str:
    """The text of a piece; of an answer by a call also its arguments."""
    args = [part["args"] or "" for part in chunk.tool_call_chunks] if with_calls else []
    return "".join([str(chunk.text), *args])


_APART: Final = r"think|thinking|thought|reasoning|reflection"
_THOUGHTS: Final = re.compile(rf"<(?:{_APART})>.*?(?:</(?:{_APART})>|\Z)", re.I | re.DOTALL)
_UNTIL: Final = re.compile(rf"\A.*</(?:{_APART})>", re.I | re.DOTALL)
_REFUSED: Final = re.compile(r'"(?:all_?completed|user_?needs_?satisfied)"\s*:\s*false', re.I)
# Whole characters of a JSON text; two escapes that stand for one character are one.
_HEX: Final = "[0-9a-fA-F]"
_CHARACTERS: Final = re.compile(
    rf'(?:[^"\\]|\\[^u]|\\u(?:(?![dD][89abAB]){_HEX}{{4}}'
    rf"|[dD][89abAB]{_HEX}{{2}}(?:\\u{_HEX}{{4}}|(?=[^\\]|\\[^u]))))*"
)
_LONG: Final = 2_000
_MORE: Final = 50
"""Before the field, what is longer than `_LONG` is read again when one part in so many is new."""


class _Field:
    """Reads a JSON object piece by piece for the text of a field, unless a flag speaks against it.

    Whoever waits for the end of the answer reads it properly; this is for the eye alone.
    """

    def __init__(self, name: str) -> None:
        """Nothing is read yet."""
        self.shown, self.thoughts, self.unopened = "", "", False
        self._name = re.compile(rf'(?<!\\)"{name}"\s*:\s*"')
        self._rest, self._next = "", 0
        self._found = self._over = False

    def read(self, piece: str) -> None:
        """Read on."""
        self._rest += piece
        if not self._found and len(self._rest) >= self._next:
            self._next = len(self._rest) + max(0, len(self._rest) - _LONG) // _MORE
            said = _UNTIL.sub("", _THOUGHTS.sub("", self._rest))
            if found := self._name.search(said):
                self._found, self._rest = True, said[found.end() :]
                self._over = _REFUSED.search(said, 0, found.start()) is not None
        if self._found and not self._over:
            self._take()

    def _take(self) -> None:
        """Decode what is there of the value; half an escape waits for its other half."""
        found = _CHARACTERS.match(self._rest)
        whole = found[0] if found else ""
        self._over = self._rest[len(whole) : len(whole) + 1] == '"'
        with suppress(ValueError):
            self.shown += str(json.loads(f'"{whole}"', strict=False))
        self._rest = self._rest[len(whole) :]

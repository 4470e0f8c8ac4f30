"""The visible part of what a model writes, shown while it is written.

Words are shown as they come, but for what may become a hidden tag; of a structured answer one
field is, and its finished fields are emitted as drafts. What a model thinks before it speaks
stands beside its words, never among them.
"""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field as dataclass_field
from functools import partial
from typing import Any, Final, Protocol

import regex  # type: ignore[import-untyped]  # its stubs are a package of their own
from langchain_core.messages import AIMessage, AIMessageChunk
from pydantic import BaseModel
from pydantic.alias_generators import to_snake
from pydantic_core import from_json

from ..run.message_stream import begin_draft
from ..state.messages import REASONING, ROLE
from ..text.canonical import make_storable
from ..text.loose_json import AROUND_JSON, strip_thoughts
from ..turn.scope import RunScope
from .hidden_tags import Throttle, VisibleText, VisibleThoughts
from .refusals import Quirks
from .request import Listener

_LONGEST: Final = 16_000
"""Characters of thoughts that are kept of one message."""


class _Reader(Protocol):
    shown: str
    thoughts: str
    unopened: bool

    def read(self, piece: str) -> None: ...


class _Shown(Protocol):
    def show(self, text: str, reasoning: str = "", /) -> None: ...


class Draft:
    """What one call of a model says, as far as it is written; a second try starts again."""

    def __init__(self, shown: _Shown, field: str = "", but: str = "", call: str = "") -> None:
        """Show the words, or a field of an object; nothing that may turn out to fit `but`.

        With `call` the object is the arguments of a call of that tool.
        """
        self._shown, self._field, self._call = shown, field, call
        self._but = regex.compile(but, regex.IGNORECASE | regex.DOTALL) if but else None
        self.begin(Quirks())

    def begin(self, quirks: Quirks) -> None:
        """A model is asked, perhaps again; `quirks` is what is known of it."""
        self._quirks, visible = quirks, VisibleText(thinks=quirks.thinks_first)
        self._words: _Reader = _Field(self._field) if self._field else visible
        self._thoughts, self._thought, self._block = VisibleThoughts(), 0, ""
        self._half, self._calls = "", dict[object, str]()

    def hear(self, chunk: AIMessageChunk) -> None:
        """Take note of a piece, and show what may be shown by now."""
        for block, text in _iter_reasoning(chunk):
            apart = self._block not in ("", block)
            self._block = block
            self._thoughts.read(make_storable("\n\n" + text if apart else text))
        self._words.read(self._hold_half_character(self._text_of(chunk)))
        self._quirks.thinks_first |= self._words.unopened
        if more := self._words.thoughts[self._thought :]:
            self._thoughts.read(more)
            self._thought += len(more)
        text = self._words.shown
        if self._but is not None and self._but.fullmatch(text, partial=True):
            text = ""
        if text or not self._field:
            self._shown.show(text, self._thoughts.shown[:_LONGEST])

    def _text_of(self, chunk: AIMessageChunk) -> str:
        """The text of a piece; of an answer by a call also its arguments, or those alone."""
        if not self._call:
            args = [part["args"] or "" for part in chunk.tool_call_chunks] if self._field else []
            return "".join([str(chunk.text), *args])
        for part in chunk.tool_call_chunks:
            if part["name"]:
                self._calls[part["index"]] = part["name"]
        ours = (p for p in chunk.tool_call_chunks if self._calls.get(p["index"]) == self._call)
        return "".join(part["args"] or "" for part in ours)

    def _hold_half_character(self, piece: str) -> str:
        """The piece without the half of a character at its end, which waits for the other one."""
        piece, self._half = self._half + piece, ""
        if piece and "\ud800" <= piece[-1] <= "\udbff":
            piece, self._half = piece[:-1], piece[-1]
        return make_storable(piece)


def make_draft_listeners(
    scope: RunScope, name: str, role: str, *, field: str = "", but: str = "", call: str = ""
) -> list[Listener]:
    """A draft of the message with this id; none if nobody listens who may see it.

    Args:
        scope: The run. If hooks judge what models answer, nothing is shown before they have.
        name: The id that the message will have in the state.
        role: Who writes it.
        field: The field with the words, if the answer is an object.
        but: A regular expression for what the text may be that is for no reader.
        call: The tool whose arguments are that object. A later node returns the message.
    """
    if "AfterModel" in scope.hooks.events:
        return []
    shown = begin_draft(name, {ROLE: role}, stands=bool(call))
    return [] if shown is None else [Draft(shown, field, but, call)]


@dataclass
class _ToldDraft:
    """A message that is told by events while it is written, the longer it is the more at once."""

    field: str
    tell: Callable[[dict[str, Any]], bool]
    throttle: Throttle = dataclass_field(default_factory=lambda: Throttle(200, 10))

    def show(self, text: str, _: str = "", /) -> None:
        if self.throttle.is_due(len(text)):
            self.tell({self.field: text} if text else {})


def make_told_listeners(scope: RunScope, task: str, end: str) -> list[Listener]:
    """What tells the words of a sub-agent as events, and the summary of its call of `end`."""
    tell = partial(make_draft_emitter, scope, "agent", task=task)
    words = Draft(_ToldDraft("text", tell()))
    return [words, Draft(_ToldDraft("summary", tell()), "summary", call=end)]


def reasoning_of(message: AIMessage) -> str:
    """What the model thought before it spoke; '' if it is not known."""
    blocks: list[str] = []
    before = ""
    for block, text in _iter_reasoning(message):
        blocks.append("\n\n" + text if before not in ("", block) else text)
        before = block
    text = message.text
    if "</think" in text or "<think" in text:
        visible = VisibleText()
        visible.read(text)
        blocks.append(visible.thoughts)
    musings = VisibleThoughts()
    musings.read("".join(blocks))
    return make_storable(musings.final_text[:_LONGEST])


def wrap_reasoning(reasoning: str) -> dict[str, str]:
    """The thoughts as a message carries them; `content_blocks` has them as a block of their own."""
    return {REASONING: reasoning} if reasoning else {}


def drop_thoughts(message: AIMessage) -> AIMessage:
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


def _iter_reasoning(message: AIMessage) -> Iterator[tuple[str, str]]:
    """The thoughts in a message or a piece of one, each with what names its block."""
    extra = message.additional_kwargs.get(REASONING)
    if isinstance(extra, str) and extra:
        yield REASONING, extra
    elif isinstance(message.content, list) or "reasoning" in message.additional_kwargs:
        for place, block in enumerate(message.content_blocks):
            if block["type"] == "reasoning" and (text := block.get("reasoning")):
                yield str(block.get("index", place)), text


class _Field:
    """Reads a JSON object piece by piece for the text of a field, unless a flag speaks against it.

    The whole answer is read properly at its end; this is for the eye alone.
    """

    def __init__(self, name: str) -> None:
        """Nothing is read yet."""
        self.shown, self.thoughts, self.unopened = "", "", False
        self._name, self._text, self._throttle = name, "", Throttle(2_000, 200)

    def read(self, piece: str) -> None:
        """Read on."""
        self._text += piece
        if not self._throttle.is_due(len(self._text)):
            return
        found = _find_newest(strip_thoughts(self._text, AROUND_JSON), _ANY_OBJECT)
        with suppress(ValueError):
            value = from_json(found, allow_partial="trailing-strings") if found else {}
            text = value.get(self._name, "")
            if isinstance(text, str) and not any(value.get(flag) is False for flag in _FLAGS):
                self.shown = text


_FLAGS: Final = (
    "allCompleted", "all_completed", "userNeedsSatisfied", "user_needs_satisfied",
)  # fmt: skip
_ANY_OBJECT: Final = re.compile(r'\{\s*"\w+"\s*:')
_DECODER: Final = json.JSONDecoder()


def _find_newest(text: str, begins: re.Pattern[str]) -> str:
    """The last object in a text from its first brace on: models rehearse what they will say."""
    place, newest = 0, ""
    while found := begins.search(text, place):
        newest = text[found.start() :]
        try:
            _, place = _DECODER.raw_decode(text, found.start())
        except ValueError:
            return newest
        newest = text[found.start() : place]
    return newest


class PartialJson:
    """Reads an object as far as it is written: its finished fields, and finished items of lists."""

    def __init__(self, contract: type[BaseModel]) -> None:
        """Look for an object whose first field is one of the contract's."""
        fields = contract.model_fields
        names = {*fields, *(str(f.alias) for f in fields.values() if f.alias)}
        self._begins = re.compile(rf'\{{\s*"(?:{"|".join(sorted(names))})"\s*:')
        self._value: Any = {}
        self.has_begun = False
        """Whether there is an object."""

    def fields(self, text: str) -> dict[str, Any] | None:
        """What is finished; None if the text says no more of it than it did before."""
        found = _find_newest(text, self._begins)
        self.has_begun = bool(found)
        value = self._read_finished(found)
        if value is None or value == self._value:
            return None
        self._value = value
        return value

    def _read_finished(self, text: str) -> dict[str, Any] | None:
        ended = text.rstrip(", \n\t")
        for rest in ("", "]}", "}"):  # it may end between two items, or between two fields
            with suppress(ValueError):
                return dict(from_json(ended + rest))
        try:
            value: dict[str, Any] = from_json(text, allow_partial=True)
        except ValueError:
            return None
        name, last = value.popitem() if value else ("", {})
        if isinstance(last, list):
            known = self._value.get(name, [])
            is_half = last != known and last and isinstance(last[-1], dict | list)
            value[name] = last[:-1] if is_half else last
        elif not isinstance(last, dict):
            value[name] = last
        return value


class WholeAnswer:
    """Gives all that is written of an answer, text or arguments, to a function.

    The function reads all of it: of a long text that is not done at every piece.
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        """Nothing is written yet."""
        self._tell = tell
        self.begin(Quirks())

    def begin(self, _: Quirks) -> None:
        """A model is asked, perhaps again."""
        self._written, self._length, self._throttle = list[str](), 0, Throttle(1_000, 50)

    def hear(self, chunk: AIMessageChunk) -> None:
        """Take the next piece."""
        pieces = [chunk.text, *(part["args"] or "" for part in chunk.tool_call_chunks)]
        self._written += pieces
        self._length += sum(map(len, pieces))
        if self._throttle.is_due(self._length):
            self._tell("".join(self._written))


def make_field_listeners(
    scope: RunScope, role: str, contract: type[BaseModel], *, text: str = "", **about: Any
) -> list[Listener]:
    """What hears a structured answer and emits as drafts how far it is.

    Args:
        scope: The run. If hooks judge what models answer, nothing is emitted before they have.
        role: Who writes it.
        contract: What is written.
        text: Id of the message whose text the list of tasks will be, if it is one.
        about: Goes into the event.
    """
    if "AfterModel" in scope.hooks.events:
        return []
    written, emit = PartialJson(contract), make_draft_emitter(scope, role, **about)
    shown = begin_draft(text, {ROLE: role}) if text else None

    def hear(answer: str) -> None:
        found = _to_snake_keys(written.fields(answer) or {})
        fields = {name: one for name, one in found.items() if not isinstance(one, bool)}
        if emit(fields) and shown is not None:
            shown.show(_render_todos(fields.get("todos")))

    return [WholeAnswer(hear)]


def make_draft_emitter(
    scope: RunScope, role: str, **about: Any
) -> Callable[[dict[str, Any]], bool]:
    """What tells the fields that are written, and says whether that was news."""
    before = dict[str, Any]()

    def tell(fields: dict[str, Any]) -> bool:
        nonlocal before
        news = fields not in ({}, before) and "AfterModel" not in scope.hooks.events
        if news:
            before = fields
            scope.emit({"type": "draft", "role": role, **about, "fields": fields})
        return news

    return tell


def _render_todos(todos: object) -> str:
    """The tasks that are written, as `plan_in_words` will have them."""
    tasks = [task for task in todos if isinstance(task, dict)] if isinstance(todos, list) else []
    return "\n".join(
        f"{task.get('id') or place}. {task.get('description', '')}"
        for place, task in enumerate(tasks, 1)
    )


def _to_snake_keys(value: Any) -> Any:
    """The names of fields and of their items' fields as the state spells them."""
    if isinstance(value, dict):
        return {to_snake(name): _to_snake_keys(item) for name, item in value.items()}
    return [_to_snake_keys(item) for item in value] if isinstance(value, list) else value

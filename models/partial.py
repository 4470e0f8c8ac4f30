"""A structured answer while it is written: what stands of it already is told as a draft."""

import json
import re
from collections.abc import Callable
from typing import Any, Final

from pydantic import BaseModel
from pydantic.alias_generators import to_snake

from ..run.message_stream import begin_draft
from ..state.messages import ROLE
from ..turn.scope import RunScope

_TOKENS: Final = re.compile(r'"(?:[^"\\]|\\.)*("|\\?$)|[{}\[\],]', re.DOTALL)
_CLOSES: Final = {"{": "}", "[": "]"}


class Partial:
    """Reads an object as far as it is written, going on where it left off.

    What counts are its finished fields, and of its lists the finished items. Of several objects
    it is the last one: models rehearse what they will say.
    """

    def __init__(self, contract: type[BaseModel]) -> None:
        """Look for an object whose first field is one of the contract's."""
        fields = contract.model_fields
        names = {*fields, *(str(f.alias) for f in fields.values() if f.alias)}
        self._begins = re.compile(rf'\{{\s*"(?:{"|".join(sorted(names))})"\s*:')
        self._forget()

    def _forget(self, at: int = 0) -> None:
        self._at, self._start, self._end = at, -1, -1
        self._open = self._closing = ""
        self._found: Any = {}

    def fields(self, text: str) -> dict[str, Any] | None:
        """What is finished; None where the text says no more of it than it did before."""
        if len(text) < self._at:  # a retry begins from the front
            self._forget()
        if not self._open:
            if (begins := self._begins.search(text, self._at)) is None:
                return None
            self._forget(begins.start())
            self._start = begins.start()
        before = self._end
        self._read(text)
        if self._end == before:
            return None
        try:
            found = json.loads(text[self._start : self._end] + self._closing)
        except ValueError:
            return None
        if found == self._found:
            return None
        self._found = found
        return found if isinstance(found, dict) else None

    @property
    def begun(self) -> bool:
        """Whether there is an object."""
        return self._start >= 0

    def _read(self, text: str) -> None:
        """Go on to the end of the text, or of the object."""
        for found in _TOKENS.finditer(text, self._at):
            token, self._at = found[0], found.end()
            if token in _CLOSES:
                self._open += _CLOSES[token]
            elif token == ",":
                self._stands(found.start())
            elif token in "}]":
                self._open = self._open[:-1]
                self._stands(found.end())
                if not self._open:
                    return
            elif found[1] != '"':  # a text that is not whole yet
                self._at = found.start()
                return
            elif self._open == "}]":
                self._stands(found.end())

    def _stands(self, end: int) -> None:
        """A field has ended, or an item of a list, or all of it."""
        if self._open in ("", "}", "}]"):
            self._end, self._closing = end, self._open[::-1]


def drafting(
    scope: RunScope, role: str, contract: type[BaseModel], *, text: str = "", **about: Any
) -> Callable[[str], None] | None:
    """What hears a structured answer and tells as drafts how far it is; see `ask`.

    Args:
        scope: The run. Where hooks judge what models answered, nothing is told before they have.
        role: Who writes it.
        contract: What is written.
        text: Id of the message whose text the list of tasks will be, if it is one.
        about: Goes into the event.
    """
    if "AfterModel" in scope.hooks.events:
        return None
    written, told = Partial(contract), draft_teller(scope, role, **about)
    shown = begin_draft(text, {ROLE: role}) if text else None

    def hear(answer: str) -> None:
        found = _snake(written.fields(answer) or {})
        fields = {name: one for name, one in found.items() if not isinstance(one, bool)}
        if told(fields) and shown is not None:
            shown.show(_lines(fields.get("todos")))

    return hear


def draft_teller(scope: RunScope, role: str, **about: Any) -> Callable[[dict[str, Any]], bool]:
    """What tells the fields that are written, and says whether that was news; see `drafting`."""
    before = dict[str, Any]()

    def tell(fields: dict[str, Any]) -> bool:
        nonlocal before
        news = fields not in ({}, before) and "AfterModel" not in scope.hooks.events
        if news:
            before = fields
            scope.emit({"type": "draft", "role": role, **about, "fields": fields})
        return news

    return tell


def _lines(todos: object) -> str:
    """The tasks that are written, as `plan_in_words` will have them."""
    tasks = [one for one in todos if isinstance(one, dict)] if isinstance(todos, list) else []
    return "\n".join(
        f"{one.get('id') or place}. {one.get('description', '')}"
        for place, one in enumerate(tasks, 1)
    )


def _snake(value: Any) -> Any:
    """The names of fields and of their items' fields as the state spells them."""
    if isinstance(value, dict):
        return {to_snake(name): _snake(one) for name, one in value.items()}
    return [_snake(one) for one in value] if isinstance(value, list) else value

"""Answers to pending questions, in every shape the known front ends send them."""

import json
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, model_validator

AnswerKind = Literal["approve", "reject", "edit", "respond"]
_KIND_WORDS: dict[str, AnswerKind] = {
    "approve": "approve", "accept": "approve", "yes": "approve", "y": "approve",
    "reject": "reject", "ignore": "reject", "no": "reject", "n": "reject",
    "edit": "edit", "respond": "respond", "response": "respond",
}  # fmt: skip


class Answer(BaseModel):
    """One human answer: approve, reject with a reason, edited arguments, or words.

    Accepted: `{"type": …}`, `{"decisions": [one]}`, `[{"type", "args"}]` with one element, the
    bare words `approve`, `reject[: reason]`, `respond: text`, and JSON text of any of these.
    """

    model_config = ConfigDict(extra="ignore")

    type: AnswerKind
    message: str = ""
    name: str = ""
    args: dict[str, Any] | None = None

    @model_validator(mode="before")
    @classmethod
    def _any_shape(cls, value: object) -> object:
        return _unfold(value)

    @model_validator(mode="after")
    def _edit_has_arguments(self) -> "Answer":
        if self.type == "edit" and self.args is None:
            msg = "an edit needs the new arguments: {'type': 'edit', 'args': {…}}"
            raise ValueError(msg)
        return self


def _unfold(value: object) -> object:
    if isinstance(value, Answer):
        return value.model_dump()
    if isinstance(value, str):
        return _from_text(value)
    if isinstance(value, dict) and isinstance(value.get("decisions"), list):
        value = value["decisions"]
    if isinstance(value, list):
        if len(value) != 1:
            msg = f"one answer is wanted, {len(value)} were given"
            raise ValueError(msg)
        return _unfold(value[0])
    return _from_dict(value) if isinstance(value, dict) else value


def _from_text(text: str) -> object:
    if text.lstrip()[:1] in {"{", "["}:
        try:
            return _unfold(json.loads(text))
        except json.JSONDecodeError:
            pass
    word, _, rest = text.partition(":")
    kind = _KIND_WORDS.get(word.strip().lower())
    if kind in {"reject", "respond"} or (kind == "approve" and not rest.strip()):
        return {"type": kind, "message": rest.strip()}
    msg = (
        "an answer is approve, reject[: reason], respond: text, or JSON such as "
        '{"type": "edit", "args": {…}}'
    )
    raise ValueError(msg)


def _from_dict(value: dict[str, Any]) -> dict[str, Any]:
    kind = _KIND_WORDS.get(str(value.get("type", "")).strip().lower())
    if kind is None:
        msg = f"an answer's type is approve, reject, edit or respond, not {value.get('type')!r}"
        raise ValueError(msg)
    args = value.get("args")
    read = {
        "type": kind,
        "name": value.get("name") or "",
        "args": args if isinstance(args, dict) else None,
        "message": value.get("message") or (args if isinstance(args, str) else ""),
    }
    return read | _edited_action(value.get("edited_action") or args)


def _edited_action(value: object) -> dict[str, Any]:
    """Name and arguments as Chat UI (`name`, `args`) and Inbox (`action`, `args`) nest them."""
    if isinstance(value, dict) and set(value) in ({"name", "args"}, {"action", "args"}):
        return {"name": value.get("name") or value.get("action") or "", "args": value["args"]}
    return {}


class Words(Answer):
    """An answer to a question that asks for words: some words, or a refusal to answer."""

    @model_validator(mode="after")
    def _has_words(self) -> "Words":
        if self.type != "reject" and not self.words:
            msg = "this question wants words: respond: text, or reject to leave it unanswered"
            raise ValueError(msg)
        return self

    @property
    def words(self) -> str:
        """What was said: as a message, or as the edited argument `answer`."""
        said = self.message if self.type == "respond" else (self.args or {}).get("answer")
        return said.strip() if isinstance(said, str) else ""

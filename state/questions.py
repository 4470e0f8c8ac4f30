"""A question to a human in the one shape both known front ends accept, and any answer as one."""

import json
from collections.abc import Mapping
from typing import Any, Final, Literal, Required

from pydantic import BaseModel, ConfigDict, field_validator, model_validator
from typing_extensions import TypedDict

from ..text.canonical import make_storable
from ..text.sentences import say

Allowed = Literal["decide", "settle", "respond"]

By = Literal["customer", "operator"]
ANSWERED_BY: Final = "answered_by"
"""What says so of a question, of a call's questions, and of the answers of a run."""

AnswerKind = Literal["approve", "edit", "reject", "respond"]
DecisionKind = AnswerKind | Literal["expired"]
"""What was decided: an approval that came too late decides nothing but that time is up."""

DECISIONS: Final[Mapping[Allowed, tuple[AnswerKind, ...]]] = {
    "decide": ("approve", "edit", "reject", "respond"),
    "settle": ("approve", "respond", "reject"),
    "respond": ("respond", "edit", "reject"),
}
"""The answers a question takes: whether to act, how an uncertain act ended, or words."""


def make_question(
    name: str,
    args: dict[str, Any],
    description: str,
    *,
    answers: Allowed = "decide",
    **extra: object,
) -> dict[str, Any]:
    """Build one question about one action.

    Agent Chat UI reads `action_requests` and `review_configs`, Agent Inbox reads `action_request`
    and `config`. Chat UI has no place for words but the fields of the action, so a question that
    wants words has an empty field `answer`.

    Args:
        name: The action.
        args: Its arguments, shown as fields.
        description: The question in words.
        answers: Which answers it takes, see `DECISIONS`.
        extra: Goes into the action request.
    """
    decisions = list(DECISIONS[answers])
    shown = {**args, "answer": ""} if answers == "respond" else args
    return {
        "action_requests": [{"name": name, "args": shown, "description": description, **extra}],
        "review_configs": [{"action_name": name, "allowed_decisions": decisions}],
        "action_request": {"action": name, "args": shown},
        "config": {
            "allow_accept": "approve" in decisions,
            "allow_edit": "edit" in decisions,
            "allow_respond": True,
            "allow_ignore": True,
        },
        "description": description,
    }


def is_for_operator(question: object) -> bool:
    """Whether a question is put to the operator, so that no customer's answer is taken."""
    return isinstance(question, Mapping) and question.get(ANSWERED_BY) == "operator"


Remembered = Literal["", "call", "tool"] | dict[str, str]

_KIND_WORDS: Final[dict[str, AnswerKind]] = {
    "approve": "approve", "accept": "approve", "yes": "approve", "y": "approve",
    "reject": "reject", "ignore": "reject", "no": "reject", "n": "reject",
    "edit": "edit", "respond": "respond", "response": "respond",
}  # fmt: skip
_NEVER: Final = (None, False, "", "never", "no")
_SESSION: Final = (True, "session")


class Answer(BaseModel):
    """One human answer: approve, reject with a reason, edited arguments, or words.

    Accepted: `{"type": …}`, `{"decisions": [one]}`, `[{"type", "args"}]` with one element, the
    bare words `approve`, `reject[: reason]`, `respond: text`, and JSON text of any of these.

    Attributes:
        type: What is decided.
        message: The reason of a rejection, or the words of a response.
        name: The tool of an edit, where the front end repeats it.
        args: The new arguments of an edit.
        tool_call_id: Which call the answer is for; "" where the front end does not say.
        remember: What an approval covers for the rest of the thread: this call again (`call`),
            every call of the tool (`tool`, `session` or true), or those with these values,
            `{argument path: value}`; "" only this one call.
    """

    model_config = ConfigDict(extra="ignore")

    type: AnswerKind
    message: str = ""
    name: str = ""
    args: dict[str, Any] | None = None
    tool_call_id: str = ""
    remember: Remembered = ""

    @model_validator(mode="before")
    @classmethod
    def _any_shape(cls, value: object) -> object:
        return _normalize_decision(_unwrap_decision(value))

    @field_validator("remember", mode="before")
    @classmethod
    def _what_to_remember(cls, value: object) -> object:
        return _check_remember(value)

    @model_validator(mode="after")
    def _edit_has_arguments(self) -> "Answer":
        if self.type == "edit" and self.args is None:
            msg = "an edit needs the new arguments: {'type': 'edit', 'args': {…}}"
            raise ValueError(msg)
        return self

    def read_edited_plan(self, listed: str) -> dict[str, Any]:
        """The edited plan; front ends that edit in text fields send what it lists as JSON text."""
        args = self.args or {}
        try:
            return {**args, listed: json.loads(args[listed])}
        except (KeyError, TypeError, ValueError, RecursionError):
            return args

    @property
    def plan_feedback(self) -> str:
        """The words with which a plan goes back to its planner."""
        return say("user_says", words=self.message.strip() or say("plan_rejected"))


def describe_review(answer: Answer, plan: str) -> str:
    """What a review came to, in words; `plan` is the edited one, where that can run."""
    if answer.type == "approve":
        return "The plan was approved."
    if answer.type == "edit" and plan:
        return f"The plan was edited:\n{plan}"
    return f"The plan goes back to the planner. {answer.message}"


class Decision(TypedDict, total=False):
    """An answer as it is kept, bound to the `arguments` (their hash) that it was given for."""

    type: Required[DecisionKind]
    message: str
    name: str
    args: dict[str, Any] | None
    tool_call_id: str
    remember: Remembered
    arguments: str


def _unwrap_decision(value: object) -> object:
    """The one decision in whatever it is wrapped in."""
    try:
        return _unfold(value)
    except RecursionError:
        msg = "the answer is wrapped too deeply"
        raise ValueError(msg) from None


def _unfold(value: object) -> object:
    if isinstance(value, Answer):
        return value.model_dump()
    if isinstance(value, str):
        return _from_text(value)
    if isinstance(value, dict) and isinstance(value.get("decisions"), list):
        inner = _unfold_single(value["decisions"])
        around = {key: value[key] for key in ("remember", "tool_call_id") if key in value}
        return {**around, **inner} if isinstance(inner, dict) else inner
    return _unfold_single(value) if isinstance(value, list) else value


def _unfold_single(values: list[Any]) -> object:
    if len(values) != 1:
        msg = f"one answer is wanted, {len(values)} were given"
        raise ValueError(msg)
    return _unfold(values[0])


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


def _normalize_decision(value: object) -> object:
    """A decision in any front end's words as the fields of an answer."""
    if not isinstance(value, dict):
        return value
    kind = _KIND_WORDS.get(str(value.get("type", "")).strip().lower())
    if kind is None:
        msg = f"an answer's type is approve, reject, edit or respond, not {value.get('type')!r}"
        raise ValueError(msg)
    args = value.get("args")
    read = {
        "type": kind,
        "name": value.get("name") or "",
        "args": args if isinstance(args, dict) else None,
        "message": _make_storable(value.get("message") or (args if isinstance(args, str) else "")),
        "tool_call_id": str(value.get("tool_call_id") or value.get("id") or ""),
        "remember": value.get("remember"),
    }
    return read | _read_edited_action(value.get("edited_action") or args)


def _make_storable(words: object) -> object:
    """Words go into messages, where half a character would break every later model call."""
    return make_storable(words) if isinstance(words, str) else words


def _read_edited_action(value: object) -> dict[str, Any]:
    """Name and arguments as Chat UI (`name`, `args`) and Inbox (`action`, `args`) nest them."""
    if isinstance(value, dict) and set(value) in ({"name", "args"}, {"action", "args"}):
        return {"name": value.get("name") or value.get("action") or "", "args": value["args"]}
    return {}


def _check_remember(value: object) -> object:
    """What an approval covers.

    Values must be texts, as they are, and at least one: none would cover every call.
    """
    if value in _NEVER:
        return ""
    if value in _SESSION:
        return "tool"
    if isinstance(value, Mapping):
        if not value or not all(isinstance(one, str) for one in value.values()):
            msg = "remember names argument paths and the value of each, as a text"
            raise ValueError(msg)
    elif value not in ("call", "tool"):
        msg = "remember is call, tool, session, or argument paths with their values"
        raise ValueError(msg)
    return value


class TextAnswer(Answer):
    """An answer to a question that a text can answer: what is no decision is the answer itself.

    `approve`, `reject[: reason]` and `respond: text` are decisions here as everywhere; `yes` and
    `no` are what was asked for.
    """

    @model_validator(mode="before")
    @classmethod
    def _any_shape(cls, value: object) -> object:
        plain = _read_plain_text(value)
        return _normalize_decision(
            _fix_inbox_response(
                _unwrap_decision(value) if plain is None else {"message": plain, **_SAID}
            )
        )


class Words(TextAnswer):
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


_SAID: Final = {"type": "respond"}
_ANSWERS: Final = frozenset({"yes", "y", "no", "n"})


def _read_plain_text(value: Any) -> str | None:
    """The text that an answer is, in no shape of a front end; None where it is a decision."""
    match value:
        case [one]:
            return _read_plain_text(one)
        case dict() if len(value) == 1 and "type" not in value:
            (text,) = value.values()  # one field, whatever a front end calls it
            return text if isinstance(text, str) else None
        case bool() | int() | float():
            return json.dumps(value)
        case str() if value.strip().lower() in _ANSWERS:
            return value
        case str():
            try:
                decision: Any = _unwrap_decision(value)
            except ValueError:
                return value
            known = isinstance(decision, dict) and "type" in decision
            return None if known and str(decision["type"]).lower() in _KIND_WORDS else value
    return None


def _fix_inbox_response(value: object) -> object:
    """Agent Inbox sends what was typed as a rejection with text for `args`; it means the text."""
    if isinstance(value, dict) and value.get("type") == "reject" and not value.get("message"):
        args = value.get("args")
        if isinstance(args, str) and args.strip():
            return {**value, "type": "respond"}
    return value

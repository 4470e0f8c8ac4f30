"""A question to a human in the shape that both known front ends accept, and its answer."""

import json
from collections.abc import Mapping
from typing import Any, Final, Literal, Required

from langgraph.checkpoint.serde.types import INTERRUPT
from langgraph.types import Interrupt, PregelTask, StateSnapshot
from pydantic import BaseModel, ConfigDict, field_validator, model_validator
from typing_extensions import TypedDict

from ..text.canonical import make_storable
from ..text.sentences import say

Allowed = Literal["decide", "settle", "respond", "confirm"]

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
    "confirm": ("approve", "reject"),
}
"""The answers a question takes: whether to act, how an uncertain act ended, words, yes or no."""


def make_question(
    name: str,
    args: dict[str, Any],
    description: str,
    *,
    answers: Allowed = "decide",
    **extra: object,
) -> dict[str, Any]:
    """Build one question about one action; `extra` goes into the action request.

    Agent Chat UI reads `action_requests` and `review_configs`, Agent Inbox reads `action_request`
    and `config`. Chat UI takes words only in the fields of the action, so a question that wants
    words has an empty field `answer`.
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
    """Whether only the operator may answer a question."""
    return isinstance(question, Mapping) and question.get(ANSWERED_BY) == "operator"


SHOWN: Final = "customer_sees"
"""The words of a question of the operator's that its customer is shown instead."""

_HOLDS_QUESTIONS: Final = frozenset({INTERRUPT, "interrupts", "tasks", "payload", "data"})
"""Where chunks of LangGraph's streams have their questions, by key."""


def hide_operator_questions(part: Any) -> Any:
    """A chunk of a stream, a state's questions or a task, as a customer may see it.

    The operator's questions keep their id and type, and say no more than that somebody has them.
    """
    match part:
        case Interrupt():
            return Interrupt(_hide(part.value), part.id) if is_for_operator(part.value) else part
        case PregelTask():
            inner, asked = hide_operator_questions(part.state), part.interrupts
            return part._replace(interrupts=hide_operator_questions(asked), state=inner)
        case StateSnapshot():
            tasks, asked = hide_operator_questions(part.tasks), part.interrupts
            return part._replace(tasks=tasks, interrupts=hide_operator_questions(asked))
        case {"value": value, "id": _} if is_for_operator(value):
            return {**part, "value": _hide(value)}
        case dict() if _HOLDS_QUESTIONS & part.keys():
            return {
                key: hide_operator_questions(one) if key in _HOLDS_QUESTIONS else one
                for key, one in part.items()
            }
        case list() | tuple() if type(part) in (list, tuple):
            return type(part)(hide_operator_questions(one) for one in part)
    return part


def _hide(value: Mapping[str, Any]) -> dict[str, Any]:
    words = value.get(SHOWN) or say("operator_has_question")
    return {"type": value.get("type", ""), ANSWERED_BY: "operator", "description": words}


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
    """

    model_config = ConfigDict(extra="ignore")

    type: AnswerKind
    message: str = ""
    """The reason of a rejection, or the words of a response."""
    name: str = ""
    """The tool of an edit, if the front end repeats it."""
    args: dict[str, Any] | None = None
    """The new arguments of an edit."""
    tool_call_id: str = ""
    """Which call the answer is for; "" if the front end does not say."""
    remember: Remembered = ""
    """What an approval covers for the rest of the thread: "" only this call, `call` this call
    again, `tool` every call of the tool (also `session` or true), or `{argument path: value}`."""

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
        """The edited plan; `listed` may be JSON text, as front ends with text fields send it."""
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
    """The result of a review in words; `plan` is the edited plan if it can run."""
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
    match value:
        case Answer():
            return value.model_dump()
        case str():
            return _from_text(value)
        case dict() if isinstance(value.get("decisions"), list):
            if {"type", "approved"} & value.keys():
                raise ValueError(_BOTH)
            inner = _unfold(value["decisions"])
            around = {key: value[key] for key in ("remember", "tool_call_id") if key in value}
            return {**around, **inner} if isinstance(inner, dict) else inner
        case [decision]:
            return _unfold(decision)
        case list():
            msg = f"one answer is wanted, {len(value)} were given"
            raise ValueError(msg)
    return value


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
    raise ValueError(_SHAPES)


_BOTH: Final = "one answer is wanted, and this says two things"
_SHAPES: Final = (
    "an answer is approve, reject[: reason], respond: text, or JSON such as "
    '{"type": "edit", "args": {…}}'
)


def _normalize_decision(value: object) -> object:
    """A decision in any front end's words as the fields of an answer."""
    if not isinstance(value, dict) or not (value := _read_protocol_answer(value)).get("type"):
        raise ValueError(_SHAPES)
    kind = _KIND_WORDS.get(str(value.get("type", "")).strip().lower())
    if kind is None:
        msg = f"an answer's type is approve, reject, edit or respond, not {value.get('type')!r}"
        raise ValueError(msg)
    args = value.get("args")
    words = value.get("message") or (args if isinstance(args, str) else "")
    if kind == "respond" and (not words or (isinstance(words, str) and not words.strip())):
        kind = "reject"  # an empty response says no more than that there is none
    read = {
        "type": kind,
        "name": value.get("name") or "",
        "args": args if isinstance(args, dict) else None,
        # Half a character in a message would break every later model call.
        "message": make_storable(words) if isinstance(words, str) else words,
        "tool_call_id": str(value.get("tool_call_id") or value.get("id") or ""),
        "remember": value.get("remember"),
    }
    # Chat UI nests an edit as name and args, Agent Inbox as action and args.
    action = value.get("edited_action") or args
    if isinstance(action, dict) and set(action) in ({"name", "args"}, {"action", "args"}):
        name = action.get("name") or action.get("action") or ""
        return {**read, "name": name, "args": action["args"]}
    return read


def _read_protocol_answer(value: dict[str, Any]) -> dict[str, Any]:
    """An answer in AG-UI's words; what says in any way that it is not approved is a rejection."""
    match value:
        case {"approved": False, **more}:
            return {"type": "reject", "message": more.get("message") or ""}
        case {"approved": True, **more} if "type" not in more:
            args = more.get("editedArgs")
            return {**more, "type": "approve" if args is None else "edit", "args": args}
        case {"approved": said} if said is not True:
            raise ValueError(_BOTH if "type" in value else _SHAPES)
        case {"answer": str(words)} if "type" not in value:
            return {"type": "respond", "message": words}
    return value


def _check_remember(value: object) -> object:
    """What an approval covers: at least one value, since none would cover every call."""
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
    """An answer to a question that takes a text: whatever is no decision is the answer itself.

    `yes` and `no` are answers here, not decisions.
    """

    @model_validator(mode="before")
    @classmethod
    def _any_shape(cls, value: object) -> object:
        if (plain := _read_plain_text(value)) and plain.strip():
            return {"type": "respond", "message": make_storable(plain)}
        answer = _unwrap_decision(value)
        if isinstance(value, str) and answer == {"type": "respond", "message": ""}:
            raise ValueError(_SHAPES)  # typed without words: not a front end's way to reject
        if isinstance(answer, dict) and answer.get("type") == "reject":
            # Agent Inbox sends what was typed as a rejection with text for `args`.
            args = answer.get("args")
            if not answer.get("message") and isinstance(args, str) and args.strip():
                answer = {**answer, "type": "respond"}
        return _normalize_decision(answer)


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
        """The message of a response, or the edited argument `answer`."""
        text = self.message if self.type == "respond" else (self.args or {}).get("answer")
        return text.strip() if isinstance(text, str) else ""


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

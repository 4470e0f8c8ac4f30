"""A pending question as the terminal sees it, and answers given as text."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from pydantic import ValidationError

from ..state.errors import AnswerRejected
from ..state.questions import Answer
from .text import as_json, call_text, clean

ASK_USER: Final = "ask_user"
REVIEWS: Final = frozenset({"review_plan", "review_flow"})
UNCERTAIN: Final = "uncertain_call"
_LONGEST: Final = 2_000
_ONLY_SHOWN: Final = frozenset({"finished", "changes", "problems"})
_ALL: Final = ("approve", "edit", "reject", "respond")
_HOW: Final = {
    "approve": "approve",
    "edit": '{"type": "edit", "args": {…}}',
    "reject": "reject: reason",
    "respond": "respond: text",
}
_HOW_UNCERTAIN: Final = {
    "approve": "approve to run it again",
    "reject": "reject to give up",
    "respond": "respond: its result, if it ran",
}


@dataclass(frozen=True, kw_only=True)
class Question:
    """One open question.

    Attributes:
        id: The interrupt's id.
        name: The tool, or what kind of question it is.
        args: The tool's arguments.
        description: The question in words.
        reason: Why it is asked.
        allowed: The kinds of answers it takes.
        is_call: It is about a tool call.
        is_uncertain: It is about a call that may have run already: nobody but a human knows.
        expires_at: When an answer comes too late; None where it never does.
        value: The whole payload.
    """

    id: str
    name: str = ""
    args: dict[str, Any]
    description: str = ""
    reason: str = ""
    allowed: tuple[str, ...] = _ALL
    is_call: bool = False
    is_uncertain: bool = False
    expires_at: datetime | None = None
    value: Any = None

    @classmethod
    def of(cls, interrupt: Any) -> "Question":
        """Read an interrupt; a payload of another shape becomes a question for words."""
        value = interrupt.value if isinstance(interrupt.value, dict) else {}
        requests = value.get("action_requests")
        if not isinstance(requests, list) or not requests:
            shown = as_json(interrupt.value)
            return cls(id=interrupt.id, args={}, description=shown, value=interrupt.value)
        request, reviews = requests[0], value.get("review_configs") or [{}]
        name = str(request.get("name", ""))
        return cls(
            id=interrupt.id,
            name=name,
            args=dict(request.get("args") or {}),
            description=str(request.get("description", "")),
            reason=str(value.get("reason", "")),
            allowed=tuple(reviews[0].get("allowed_decisions") or _ALL),
            is_call="tool_call_id" in request or name not in {ASK_USER, *REVIEWS},
            is_uncertain=value.get("type") == UNCERTAIN,
            expires_at=_moment(value.get("expires_at")),
            value=interrupt.value,
        )

    @property
    def asked(self) -> str:
        """The question in words without the arguments, which are shown apart."""
        return self.description.partition("\n\nArguments:")[0] or self.reason

    @property
    def editable(self) -> dict[str, Any]:
        """The arguments without what is only there to be seen."""
        shown = _ONLY_SHOWN if self.name in REVIEWS else ()
        return {key: value for key, value in self.args.items() if key not in shown}

    @property
    def how(self) -> str:
        """How to answer it, in words."""
        words = _HOW_UNCERTAIN if self.is_uncertain else _HOW
        return ", ".join(words[kind] for kind in words if kind in self.allowed)

    def text(self) -> str:
        """The question as plain text."""
        if not self.is_call:
            return clean(self.description)
        called = call_text(self.name, self.args, _LONGEST)
        if self.is_uncertain:
            return f"Did {called} take effect? It was begun, and its end is not known."
        expiry = self.expiry(datetime.now(UTC))
        return f"May {called} be called?" + (f" ({expiry})" if expiry else "")

    def expiry(self, now: datetime) -> str:
        """Until when an answer counts, in words; "" where it always does."""
        if self.expires_at is None:
            return ""
        at = self.expires_at.astimezone().strftime("%Y-%m-%d %H:%M:%S")
        left = int((self.expires_at - now).total_seconds())
        return f"expires at {at}, {_duration(left)}" if left > 0 else f"expired at {at}"


def _moment(text: object) -> datetime | None:
    """A time in ISO 8601; one without a zone is UTC, as all times in questions are."""
    try:
        found = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return found.replace(tzinfo=UTC) if found and found.tzinfo is None else found


def _duration(seconds: int) -> str:
    for size, unit in ((86_400, "days"), (3_600, "hours"), (60, "min")):
        if seconds >= 2 * size:
            return f"in {seconds // size} {unit}"
    return f"in {seconds} s"


def read_answer(text: object, question: Question) -> dict[str, Any]:
    """Check an answer.

    Raises:
        AnswerRejected: It has no accepted shape, or is of a kind the question does not take.
    """
    try:
        answer = Answer.model_validate(text)
    except ValidationError as error:
        told = error.errors()[0]["msg"].removeprefix("Value error, ")
        msg = f"{str(text)[:80]!r} does not answer the question: {told}. It is still open."
        raise AnswerRejected(msg) from error
    if answer.type not in question.allowed:
        msg = f"This question does not take {answer.type!r}; answer it with {question.how}."
        raise AnswerRejected(msg)
    return answer.model_dump(exclude_defaults=True)


def read_answers(text: str, pending: Sequence[Question], thread: str) -> dict[str, dict[str, Any]]:
    """Answers by interrupt id: a JSON object keyed by ids, or one answer to the first question.

    Raises:
        AnswerRejected: Nothing is pending, or an answer fits no question.
    """
    if not pending:
        msg = f"Thread {thread!r} has no question waiting; leave the answer out to go on with it."
        raise AnswerRejected(msg)
    by_id = {question.id: question for question in pending}
    given = _json_object(text)
    if given and set(given) <= set(by_id):
        return {key: read_answer(value, by_id[key]) for key, value in given.items()}
    return {pending[0].id: read_answer(text, pending[0])}


def _json_object(text: str) -> dict[str, Any]:
    try:
        content = json.loads(text)
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}

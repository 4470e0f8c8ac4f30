"""A pending question as the terminal sees it, and answers given as text."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ValidationError

from ..state.answers import Answer
from ..state.errors import AnswerRejected
from .text import as_json, call_text, clean

ASK_USER: Final = "ask_user"
REVIEW_PLAN: Final = "review_plan"
_LONGEST: Final = 2_000
_ALL: Final = ("approve", "edit", "reject", "respond")


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
        value: The whole payload.
    """

    id: str
    name: str = ""
    args: dict[str, Any]
    description: str = ""
    reason: str = ""
    allowed: tuple[str, ...] = _ALL
    is_call: bool = False
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
            is_call="tool_call_id" in request or name not in {ASK_USER, REVIEW_PLAN},
            value=interrupt.value,
        )

    @property
    def how(self) -> str:
        """How to answer it, in words."""
        words = {
            "approve": "approve",
            "edit": '{"type": "edit", "args": {…}}',
            "reject": "reject: reason",
            "respond": "respond: text",
        }
        return ", ".join(words[kind] for kind in _ALL if kind in self.allowed)

    def text(self) -> str:
        """The question as plain text."""
        if not self.is_call:
            return clean(self.description)
        return f"May {call_text(self.name, self.args, _LONGEST)} be called?"


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

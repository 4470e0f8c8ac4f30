"""Who answers a graph's questions in an eval: a script, for nobody waits there."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from ..state.errors import SettingsError

Person = str | Callable[[Mapping[str, Any]], Any]
"""`approve`, `reject`, `unmarked` (approves what is not marked as a stranger's), or a function
from a question to an answer."""

_WORDS: Final = ("approve", "reject", "unmarked")
_REJECT: Final = {"type": "reject"}


def check_person(person: Person) -> Person:
    """The person; a SettingsError if it is none."""
    if callable(person) or person in _WORDS:
        return person
    msg = f"person={person!r}: an eval's person is {', '.join(_WORDS)}, or a function."
    raise SettingsError(msg)


def answer_question(person: Person, question: Mapping[str, Any]) -> Any:
    """What the person says; a script rejects what wants words of its own."""
    if callable(person):
        return person(question)
    allowed = question["review_configs"][0]["allowed_decisions"]
    if person == "reject" or "approve" not in allowed or is_hand_over(question):
        return _REJECT
    if "edit" not in allowed and "respond" in allowed:
        return _REJECT  # how an act of doubt ended, which nobody looked up
    return _REJECT if person == "unmarked" and is_marked(question) else {"type": "approve"}


def is_marked(question: Mapping[str, Any]) -> bool:
    """Whether it says that a value is a stranger's, or that a plan does more than its first."""
    about = question["action_requests"][0]
    return any(
        place.get(key)
        for place in (question, about, about["args"])
        for key in ("foreign", "widened")
    )


def is_hand_over(question: Mapping[str, Any]) -> bool:
    """Whether a desk gives its customer to a human with it."""
    return question.get("type") == "take_over"

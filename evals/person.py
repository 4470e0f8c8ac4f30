"""Who answers a graph's questions in an eval: a script, for nobody waits there."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from ..state.errors import SettingsError

Person = str | Callable[[Mapping[str, Any]], Any]
"""`approve`, `reject`, `unmarked` (approves what is not marked as a stranger's), or a function
from a question to an answer."""

_WORDS: Final = ("approve", "reject", "unmarked")


def check_person(person: Person) -> None:
    """Raise SettingsError if it is none."""
    if not callable(person) and person not in _WORDS:
        msg = f"person={person!r}: an eval's person is {', '.join(_WORDS)}, or a function."
        raise SettingsError(msg)


def answer_question(person: Person, question: Mapping[str, Any]) -> Any:
    """What the person says; a script rejects what wants words of its own."""
    if callable(person):
        return person(question)
    allowed, about = question["review_configs"][0]["allowed_decisions"], question["action_requests"]
    # One of them says that a value is a stranger's, or that a plan does more than its first.
    places = [question, about[0], about[0]["args"]]
    is_marked = any(place.get("foreign") or place.get("widened") for place in places)
    # How an act of doubt ended, nobody looked up: it takes a response, and no edit.
    wants_words = "approve" not in allowed or ("edit" not in allowed and "respond" in allowed)
    if wants_words or person == "reject" or (person == "unmarked" and is_marked):
        return {"type": "reject"}
    return {"type": "approve"}

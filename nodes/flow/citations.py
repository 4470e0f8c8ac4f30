"""Which steps an answer cites, and whether what it cites was done. Pure.

A citation is the id of a step in square brackets: `[s1]`, also `[s1, s2]` or `[step s1]`. Other
things stand in brackets too, so not everything there is held against the answer:

- Inside code, right behind a word (`rows[0]`) or as the words of a link, brackets count where they
  name a completed step, and mean nothing else.
- Anywhere else an id of a step that did not complete is a problem, and so is what looks like a
  step's id and is none: `s7` or `step 7`, a number of up to three digits where the plan numbers its
  steps (`[2024]` is a year), or what is built of letters, digits and joints as an id of this plan
  is. A bare word never looks like one, nor does a footnote (`[^1]`).
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from langchain_core.messages import AIMessage

from ...models.reading import Reading
from ...models.thoughts import read_words
from ...state.flow import FlowStep
from ...state.told import say

# Some models write full-width brackets around what they cite.
_IN_BRACKETS: Final = r"[\[【]([^\[\]【】\n]{1,2000})[\]】](\(|:[ \t]*<?https?:)?"
_BRACKETS: Final = re.compile(_IN_BRACKETS)
_BRACKETS_OR_CODE: Final = re.compile(rf"{_IN_BRACKETS}|```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)
_BETWEEN: Final = re.compile(r"[,;&]|(?<!\S)and(?!\S)")
_STEP: Final = re.compile(r"\Asteps?\s+", re.IGNORECASE)
_ALWAYS_AN_ID: Final = re.compile(r"s(?:tep)?[ _-]?\d+", re.IGNORECASE)
_A_NUMBER: Final = re.compile(r"\d+")
_MOST_DIGITS: Final = 3


def read_cited(message: AIMessage, steps: Sequence[FlowStep]) -> Reading[Any]:
    """Read an answer that must rest on completed steps.

    Args:
        message: As the provider gave it.
        steps: The plan as it ended.
    """
    reading: Reading[Any] = read_words(message)
    problems = reading.problems or citation_problems(reading.message.text, steps)
    wanted = say("wanted_cited")
    return Reading(
        reading.message, None, problems, reading.complete, text=reading.text, wanted=wanted
    )


def citation_problems(text: str, steps: Sequence[FlowStep]) -> list[str]:
    """Every reason not to believe what an answer cites; empty where all of it was done.

    Where no step completed there is nothing to cite.
    """
    status = {step["id"]: step["status"] for step in steps}
    done = [name for name, how in status.items() if how == "completed"]
    ids = _Ids(status)
    cited: set[str] = set()
    problems: list[str] = []
    for token, surely in _bracketed(text, ids):
        name = ids.named(token)
        if status.get(name) == "completed":
            cited.add(name)
        elif surely and name in status:
            problems.append(say("cited_not_completed", step=repr(name)))
        elif surely and ids.resembles(token):
            problems.append(say("cited_unknown", step=repr(token), completed=done[:20]))
    if done and not cited:
        problems.append(say("nothing_cited", completed=done[:20]))
    return list(dict.fromkeys(problems))


def _bracketed(text: str, ids: "_Ids") -> Iterator[tuple[str, bool]]:
    """What stands in brackets, one id at a time, and whether it can be nothing but a citation."""
    for found in _BRACKETS_OR_CODE.finditer(text):
        if found[1] is None:
            inside = (
                name for code in _BRACKETS.finditer(found[0]) for name in _apart(code[1], ids)
            )
            yield from ((name, False) for name in inside)
            continue
        behind_word = found.start() > 0 and text[found.start() - 1].isalnum()
        surely = not behind_word and not found[2]
        yield from ((name, surely) for name in _apart(found[1], ids))


def _apart(inside: str, ids: "_Ids") -> Iterator[str]:
    """The ids between two brackets, without the marks around them."""
    if ids.named(whole := inside.strip()):
        # An id may hold what else stands between two of them: R&D.
        return iter([whole])
    names = (part.strip(" *`\\\"'#") for part in _BETWEEN.split(inside))
    return (name for name in names if name)


class _Ids:
    """The ids of a plan, and what is like them."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(names)
        self._shapes = {_shape(name) for name in self._names}
        # Two ids that differ in letter case alone are only told apart as they are written.
        folded = Counter(name.casefold() for name in self._names)
        self._folded = {n.casefold(): n for n in self._names if folded[n.casefold()] == 1}

    def named(self, token: str) -> str:
        """The id that is meant, be it in other letter case or as `step s1`; '' where none is."""
        for name in (token, _STEP.sub("", token, count=1)):
            found = name if name in self._names else self._folded.get(name.casefold(), "")
            if found:
                return found
        return ""

    def resembles(self, token: str) -> bool:
        """Whether it looks like an id, though none is meant."""
        if _A_NUMBER.fullmatch(token):
            return "0" in self._shapes and len(token) <= _MOST_DIGITS
        like_another = not token.isalpha() and _shape(token) in self._shapes
        return like_another or _ALWAYS_AN_ID.fullmatch(token) is not None


def _shape(token: str) -> str:
    """How a token is built: every run of letters is one letter, every run of digits one digit."""
    return re.sub(r"\d+", "0", re.sub(r"[^\W\d_]+", "a", token))

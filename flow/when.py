"""When a step is to run: a condition over the results of earlier steps and the variables. Pure.

The language is that of `expectations`, but a path begins with the id of a step, or with `global`:
`s1.row_count > 0 and s2.rows[0].name is not empty`. Comparisons are made from left to right until
one does not hold.
"""

from collections.abc import Mapping
from typing import Any, Final

from ..state.told import say
from .expectations import Comparison, Malformed, read_condition, why_not
from .items import sources_of
from .references import GLOBAL, MissingValue, Reference, meaning_of, references_in

_OF_BEING_THERE: Final = {"exists": True, "is missing": False}


def _reference(comparison: Comparison) -> Reference:
    """What a comparison reads; where it asks whether that is there, see `reads_of`."""
    step, *path = references_in(comparison.references[0])[0].path
    return Reference(str(step), tuple(path), comparison.path)


def reads_of(when: str | None) -> list[Reference]:
    """What a condition reads, in order; of a part that may be missing, only whose it is."""
    try:
        comparisons = read_condition(when) if when else ()
    except Malformed:
        return []
    found = [(comparison.word, _reference(comparison)) for comparison in comparisons]
    return [r._replace(path=()) if word in _OF_BEING_THERE else r for word, r in found]


def flawed_condition(when: str) -> str:
    """Why it is no condition, in one sentence; '' where it is one."""
    try:
        read_condition(when) if when.strip() else ()
    except Malformed as flaw:
        return say("when_is_flawed", problem=flaw)
    return ""


def needs_of(arguments: Any, when: str | None, for_each: Any = None) -> list[str]:
    """Ids of the steps whose results a step is made from or depends upon, each once."""
    asked = (reference.root for reference in reads_of(when) if reference.root != GLOBAL)
    return list(dict.fromkeys([*sources_of(arguments, for_each), *asked]))


def unwanted(when: str, results: Mapping[str, Any], variables: Mapping[str, Any]) -> str:
    """Why a step is not to run, in words; '' where its condition holds.

    Raises:
        MissingValue: What is compared is not there: then nobody knows.
        Malformed: It is no condition.
    """
    for comparison in read_condition(when):
        reference = _reference(comparison)
        try:
            value = meaning_of(reference, results, variables)
        except MissingValue:
            if comparison.word not in _OF_BEING_THERE:
                raise
            holds = comparison.word == "is missing"
        else:
            holds = not why_not(comparison, value)
        if not holds:
            return comparison.text
    return ""


def renamed_in(when: str | None, names: Mapping[str, str]) -> str | None:
    """The condition with other ids of steps, old id to new."""
    if not when or names.keys().isdisjoint(r.root for r in reads_of(when)):
        return when
    return " and ".join(_renamed(comparison, names) for comparison in read_condition(when))


def _renamed(comparison: Comparison, names: Mapping[str, str]) -> str:
    root, (head, opened, rest) = _reference(comparison).root, ("", "", comparison.text)
    if comparison.measured:
        head, opened, rest = comparison.text.partition("(")
    return head + opened + rest.replace(root, names.get(root, root), 1)

"""When a step is to run: a condition over the results of earlier steps and the variables. Pure.

The language is that of `expectations`, but a path begins with the id of a step, or with `global`:
`s1.row_count > 0 and s2.rows[0].name is not empty`. It holds, it does not, or nobody can tell: one
comparison that does not hold decides, else one of which nobody can tell.
"""

from collections.abc import Mapping
from typing import Any, Final

from ..text.told import say
from .expectations import Comparison, Malformed, compare, read_condition
from .items import sources_of
from .references import GLOBAL, MissingValue, Reference, meaning_of, references_in

_WITHOUT_IT: Final = {"exists": False, "is missing": True}
"""Whether a comparison holds that asks for a value which is not there."""


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
    return [r._replace(path=()) if word in _WITHOUT_IT else r for word, r in found]


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


def decide(
    when: str, results: Mapping[str, Any], variables: Mapping[str, Any]
) -> tuple[bool | None, str]:
    """Whether a step is to run, None where nobody can tell; and why not, in words.

    Raises:
        Malformed: It is no condition.
    """
    unknown = ""
    for comparison in read_condition(when):
        try:
            value = meaning_of(_reference(comparison), results, variables)
            holds, why = compare(comparison, value)
        except MissingValue as missing:
            holds, why = _WITHOUT_IT.get(comparison.word), str(missing)
        if holds is False:
            return False, say("when_not_met", condition=comparison.text)
        if holds is None and not unknown:
            unknown = say("when_not_told", condition=repr(comparison.text), why=why)
    return (None, unknown) if unknown else (True, "")


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

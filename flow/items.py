"""A step that is called once for each item of a list: which calls these are, which are made. Pure.

`forEach` of a step is a list, or one reference that stands for one. In its arguments `{{item}}` is
the item, `{{item.name}}` a part of it. The calls are those of one step, in the order of the items;
equal items are calls of their own.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from ..state.calls import item_task
from ..state.flow import FlowStep, is_done
from ..text.canonical import hash_of, shorten_text
from ..text.sentences import say
from .references import (
    GLOBAL,
    ITEM,
    OPEN,
    WHOLE,
    MissingValue,
    Reference,
    describe_kind,
    find_references,
    is_whole,
    resolve_references,
)

_ALL_OF_IT: Final = frozenset({("text",), ("content",)})


class NoItems(Exception):
    """Why no call is made for any item, in one sentence."""


def list_items(
    for_each: Any, most: int, results: Mapping[str, Any], variables: Mapping[str, Any]
) -> list[Any]:
    """The items of which each is a call; NoItems if it is no list, or too long a one."""
    found = resolve_references(for_each, results, variables)
    if not isinstance(found, list):
        raise NoItems(
            say("items_no_list", given=shorten_text(str(for_each)), kind=describe_kind(found))
        )
    if len(found) > most:
        raise NoItems(say("items_too_many", count=len(found), limit=most))
    return found


def build_item_calls(items: Sequence[Any], filled: Callable[[Any], Any]) -> list[Any]:
    """The arguments of each item's call; a MissingValue names the item that lacks something."""
    calls: list[Any] = []
    for place, item in enumerate(items):
        try:
            calls.append(filled(item))
        except MissingValue as missing:
            told = say("item_lacks", item=place + 1, count=len(items), problem=missing)
            raise MissingValue(told) from missing
    return calls


def hash_call(tool: str, arguments: Any) -> str:
    """What makes the calls of two items the same."""
    return hash_of([tool, arguments])


def place_items(step: FlowStep, prints: Sequence[str], rounds: Mapping[str, int]) -> list[FlowStep]:
    """The items of a step in the order of its list, each with its known state.

    An old item belongs to a new one with the same call (`prints`); finished items and items at the
    same position go first. `rounds` are the highest rounds of tasks in the evidence.
    """
    left = dict(enumerate(step.get("items") or []))
    found: dict[int, FlowStep] = {}
    for done, same_place in ((True, True), (True, False), (False, True), (False, False)):
        by_print: dict[str, list[int]] = {}
        for place in (n for n, item in left.items() if is_done(item) == done):
            by_print.setdefault(left[place].get("made_of", ""), []).append(place)
        for place, made_of in enumerate(prints):
            fitting = by_print.get(made_of, []) if place not in found else []
            fitting = [place] if place in fitting else [] if same_place else fitting
            if fitting:
                found[place] = left.pop(taken := fitting[0])
                by_print[made_of].remove(taken)
    return [
        _place_item(found.get(place), made_of, rounds.get(item_task(step["id"], place), 0))
        for place, made_of in enumerate(prints)
    ]


def _place_item(item: FlowStep | None, made_of: str, rounds: int) -> FlowStep:
    fresh = FlowStep(
        status="pending", attempts=0, rounds=0, seconds=0.0, claims=[], evidence=[], feedback="",
        denied="", failure="", result="", shape="", value=None, stored="",
    )  # fmt: skip
    known = fresh | (item or {})
    return known | FlowStep(made_of=made_of, rounds=max(rounds, known["rounds"]))


def describe_progress(step: FlowStep) -> str:
    """The finished items of a step, as "3 of 20 items are done"; '' without items."""
    items = step.get("items") or []
    done = sum(map(is_done, items))
    return say("items_done", done=done, count=len(items)) if done else ""


# What is wrong with it.


def find_list_flaws(step: FlowStep, variables: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with a step's list as planned, and with what it says of its items."""
    each, most = step["for_each"], step["max_items"]
    if isinstance(each, str) and not is_whole(each):
        yield say("each_no_reference", given=repr(shorten_text(each)), open=OPEN)
        return
    outer = {r.root for r in find_references(each)}
    if ITEM in outer:
        yield say("item_in_each", open=OPEN)
    if len(each) > most and isinstance(each, list):
        yield say("items_too_many", count=len(each), limit=most)
    elif outer <= {GLOBAL}:
        with suppress(MissingValue):  # no such variable is told as such
            yield from _find_item_flaws(step, variables)


def _find_item_flaws(step: FlowStep, variables: Mapping[str, Any]) -> Iterator[str]:
    """What of a list that is known beforehand cannot be."""
    try:
        items = list_items(step["for_each"], step["max_items"], {}, variables)
    except NoItems as flaw:
        yield str(flaw)
        return
    of_item = [r for r in find_references(step["arguments"]) if r.root == ITEM]
    texts = [f"{{{{{reference.text}}}}}" for reference in of_item]
    try:
        build_item_calls(items, lambda item: resolve_references(texts, {ITEM: item}, {}))
    except MissingValue as missing:
        yield str(missing)


def resolve_item_read(step: FlowStep, reference: Reference) -> Reference | None:
    """What a reference to a part of an item reads of the step that gives the list."""
    each = step["for_each"]
    if not (isinstance(each, str) and is_whole(each)):
        return None
    (whole,) = find_references(each)
    return whole._replace(path=(*whole.path, 0, *reference.path), text=reference.text)


def resolve_list_read(reference: Reference) -> Reference | None:
    """What a reference to a step with items reads of one call; None where it reads no item."""
    path = reference.path[1:] if reference.path[:1] in WHOLE else reference.path
    if not path or path in _ALL_OF_IT:
        return reference._replace(path=())
    if not str(path[0]).lstrip("-").isdigit():
        return None
    return reference._replace(path=path[1:])

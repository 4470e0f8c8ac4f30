"""recall: reads again what was said, called and returned in a thread, whole, by id or by words.

A search looks into every text for each word: as a word, inside of another one, and for its
beginning. So it needs no dictionary of any language. Of a script without spaces between words it
looks for each two neighbours too.
"""

import asyncio
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from heapq import nlargest
from itertools import chain, islice, pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from langchain_core.messages import AnyMessage

from ..state.agent import AgentState
from ..state.calls import Evidence
from ..state.messages import EVIDENCE, STORED, MessageNotes, calls_in
from ..state.snapshot import get_full_text, make_short_name, name_speaker
from ..text.canonical import canonical, shorten_text
from ..text.sentences import say
from ..text.words import fold_letters
from ..tools.catalog import CatalogTool, make_own_tool
from .result_store import ResultStore
from .results import ToolResult, make_failure

if TYPE_CHECKING:
    from .sending import HandlerScope

RECALL: Final = "recall"

_FOUND: Final = 8
_EXCERPT: Final = 300
"""Characters; words that are no farther apart are near each other."""
_LOOKED_AT: Final = 24
"""Texts with most of the words; of them those are best that have the words near each other."""
_WORDS: Final = 30
_PLACES: Final = 100
"""How often one word is looked at in one text, at most."""
_SPACED: Final = "\u0e00"
"""Before it are the scripts with spaces between words, nearly all of them."""
_RUNS: Final = re.compile(rf"[^\W\0-\u0dff]+|[^\W{_SPACED}-\U0010ffff]+")
_ALONE: Final = 3
_WORTH: Final = (0.0, 0.5, 0.8, 1.0)
"""Of nothing, the beginning of a word, the word inside of another one, and the word."""


class Said(NamedTuple):
    """A text of the thread: its id, its author, and the text in lower case."""

    name: str
    who: str
    text: str
    folded: str


async def _recall(args: Mapping[str, Any], own: "HandlerScope") -> ToolResult:
    """One text, or those that say most of some words."""
    name, words = str(args.get("id") or "").strip(" []()"), str(args.get("words") or "").strip()
    if name:
        found = await _find_named(own, name)
        if found is None:
            return make_failure(say("nothing_to_recall", id=repr(shorten_text(name))))
        return _page(found, int(args.get("offset") or 0), own.scope.context.result_cap)
    if not words:
        return make_failure(say("recall_what"))
    texts = [_READ.get(m) or await _read_message(m, own.results) for m in _list_messages(own)]
    texts += [_read_record(record) for record in _iter_records(own)]
    lines = await asyncio.to_thread(search_texts, texts, words)
    return ToolResult(
        "\n".join(lines) if lines else say("nothing_said_of", words=repr(shorten_text(words)))
    )


def build_recall_tool() -> CatalogTool:
    """The tool; it reads the graph's `messages`, and the calls that a task's graph knows."""
    text = {"type": "string"}
    parameters = {
        "id": {**text, "description": say("recall_id")},
        "words": {**text, "description": say("recall_words")},
        "offset": {"type": "integer", "minimum": 0, "default": 0},
    }
    return make_own_tool(RECALL, say("recall_tool"), parameters, _recall, read_only=True)


def _list_messages(own: "HandlerScope") -> Sequence[AnyMessage]:
    """What was said; a sub-agent is not told what its caller said and heard."""
    if isinstance(own.state, AgentState):
        return own.state.messages
    messages: Sequence[AnyMessage] = own.scope.around.public.get("messages", ())
    return messages


def _iter_records(own: "HandlerScope") -> Iterator[Evidence]:
    """The calls that are in no message, earlier ones first."""
    said = {message.additional_kwargs.get(EVIDENCE) for message in _list_messages(own)}
    for record in chain(own.scope.around.past.records, getattr(own.state, "evidence", ())):
        if record["id"] not in said and record["tool"] != RECALL:
            yield record


async def _find_named(own: "HandlerScope", name: str) -> Said | None:
    """The newest text of this handle, message id or evidence id."""
    for message in reversed(_list_messages(own)):
        if name in (message.id, message.additional_kwargs.get(EVIDENCE)) or (
            name.startswith("m-") and name == make_short_name(message.id)
        ):
            return await _read_message(message, own.results)
    found = [record for record in _iter_records(own) if record["id"] == name]
    return _read_record(found[-1]) if found else None


_READ: Final = MessageNotes[Said]()


async def _read_message(message: AnyMessage, results: ResultStore) -> Said:
    """A message with its whole result; an earlier recall says nothing new."""
    text, stored = get_full_text(message), str(message.additional_kwargs.get(STORED) or "")
    if stored:
        text = await results.load_text(stored) or text
    calls = calls_in(message)
    again = message.name == RECALL or (bool(calls) and all(c["name"] == RECALL for c in calls))
    folded = "" if again else fold_letters(text)
    said = Said(make_short_name(message.id), name_speaker(message), text, folded)
    return _READ.put(message, said)


def _read_record(record: Evidence) -> Said:
    text = f"{record['tool'] or ''}({canonical(record.get('arguments', {}))})\n{record['result']}"
    return Said(record["id"], f"result of {record['tool']}", text, fold_letters(text))


def _page(said: Said, offset: int, cap: int) -> ToolResult:
    part = said.text[offset : offset + cap]
    left = len(said.text) - offset - len(part)
    more = say("recall_more", left=left, offset=offset + len(part)) if left > 0 else ""
    return ToolResult("\n".join(filter(None, [f"[{said.name}] {said.who}:", part, more])))


class Word(NamedTuple):
    """What is looked for, and how it begins, which other forms of it have as well."""

    whole: str
    start: str


def search_texts(texts: Sequence[Said], query: str) -> list[str]:
    """A line on each of the texts that say most of some words, with where it says so."""
    words = [*islice(_cut_query(fold_letters(query)), _WORDS)]
    folded = [said.folded for said in texts]
    found = [
        {place: _grade(text, word) for place, text in enumerate(folded) if word.start in text}
        for word in words
    ]
    worth = [_weigh_grades(Counter(each.values()), len(texts)) for each in found]
    scores = defaultdict[int, float](float)
    for each, weights in zip(found, worth, strict=True):
        for place, grade in each.items():
            scores[place] += weights[grade]
    best = nlargest(_LOOKED_AT, scores, key=lambda place: (scores[place], place))
    spots = {place: _find_spot(folded[place], words, worth) for place in best}
    first = sorted(best, key=lambda place: (*spots[place][:2], place), reverse=True)[:_FOUND]
    return [
        f"[{texts[place].name}] {texts[place].who}: {_cut_excerpt(texts[place], spots[place][2])}"
        for place in first
    ]


def _cut_query(query: str) -> Iterator[Word]:
    """The words of a query, each once."""
    known = set[str]()
    for whole in chain.from_iterable(map(_cut_word, query.split())):
        if whole not in known:
            known.add(whole)
            inflects = whole[0] < _SPACED and whole.isalpha()
            yield Word(whole, whole[: max(4, len(whole) * 3 // 4)] if inflects else whole)


def _cut_word(word: str) -> Iterator[str]:
    """Its parts of one script each, it as a whole, and the pairs of what has no spaces."""
    runs = [*_RUNS.finditer(word)]
    if len(runs) > 1:  # such as a path, or a number with its sign
        yield word[runs[0].start() : runs[-1].end()]
    for run in (found[0] for found in runs):
        yield run
        if run[0] >= _SPACED:
            yield from map("".join, pairwise(run))


def _iter_places(text: str, word: Word) -> Iterator[tuple[int, int]]:
    """Where a text has a word, and how well, as an index of `_WORTH`."""
    at = text.find(word.start)
    for _ in range(_PLACES):
        if at < 0:
            return
        end, grade = at + len(word.whole), 1
        if text.startswith(word.whole, at):
            borders = (text[max(at - 1, 0) : at + 1], text[end - 1 : end + 1])
            grade = 2 if any(map(_go_on, borders)) else _ALONE
        yield at, grade
        at = text.find(word.start, at + 1)


def _go_on(border: str) -> bool:
    """Whether two characters belong to one word of a script with spaces."""
    return len(border) > 1 and all(c.isalnum() and c < _SPACED for c in border)


def _grade(text: str, word: Word) -> int:
    """The best of its places; none is looked at behind one where it stands alone."""
    best = 0
    for _, grade in _iter_places(text, word):
        best = max(best, grade)
        if best == _ALONE:
            break
    return best


def _weigh_grades(counts: Counter[int], texts: int) -> list[float]:
    """What each grade of a word adds to a text: more for a word that few texts have so."""
    at_least = [sum(n for grade, n in counts.items() if grade >= least) for least in range(4)]
    return [
        worth * math.log(1 + texts / (number + 0.5))
        for worth, number in zip(_WORTH, at_least, strict=True)
    ]


def _find_spot(
    text: str, words: Sequence[Word], worth: Sequence[Sequence[float]]
) -> tuple[float, int, int]:
    """What the words are worth where most are near each other, how near, and where that is."""
    places = sorted(
        (at, place, worth[place][grade])
        for place, word in enumerate(words)
        for at, grade in _iter_places(text, word)
    )
    best = (0.0, 0, 0)
    for first, (start, _, _) in enumerate(places):
        near, end = dict[int, float](), start
        for at, place, score in places[first : first + _PLACES]:
            if at - start > _EXCERPT:
                break
            if score > near.get(place, 0.0):
                near[place], end = score, at
        best = max(best, (round(sum(near.values()), 6), start - end, (start + end) // 2))
    return best


def _cut_excerpt(said: Said, at: int) -> str:
    """The text around a place of the folded text, which may have another length."""
    middle = at * len(said.text) // max(len(said.folded), 1)
    start = max(0, min(middle - _EXCERPT // 2, len(said.text) - _EXCERPT))
    part = " ".join(said.text[start : start + _EXCERPT].split())
    return f"{'…' if start else ''}{part}{'…' if start + _EXCERPT < len(said.text) else ''}"

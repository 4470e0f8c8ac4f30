"""Wrong journals: each breaks one rule of the protocol, as a careless change might."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from loopwright.store.journal import intents as real
from loopwright.store.journal.port import Change, End, Row, Verdict
from support.intents import PROTOCOL

_begin, _end, _release = real.begin, real.end, real.release


def _a_spare_row_stays_spare(rows: Any, intent: Any, word: Any = None) -> Any:
    """Taken once, it can be taken again."""
    verdict, change = _begin(rows, intent, word)
    before = {row.name: row for row in rows}
    kept = [r for r in change.save if not (before.get(r.name) and before[r.name].spare)]
    return verdict, Change(kept)


def _spare_rows_are_not_looked_for(rows: Any, intent: Any, word: Any = None) -> Any:
    return _begin([row for row in rows if not row.spare or row.in_doubt], intent, word)


def _a_doubt_is_sent_again(rows: Any, intent: Any, word: Any = None) -> Any:
    verdict, change = _begin(rows, intent, word)
    if verdict.say != "doubt":
        return verdict, change
    again = replace(verdict.row, sends=verdict.row.sends + 1)
    return Verdict("send", again), Change([*change.save, again])


def _other_doubts_are_not_asked_about(rows: Any, intent: Any, word: Any = None) -> Any:
    like = [r for r in rows if not r.spare or not r.in_doubt or r.content == intent.content]
    return _begin(like, intent, word)


def _its_own_row_is_known_by_its_content(rows: Any, intent: Any, word: Any = None) -> Any:
    """A step that was made of another read is taken for another call."""
    mine = [r for r in rows if r.name != intent.name or r.content == intent.content]
    verdict, change = _begin(mine, intent, word)
    return verdict, change


def _a_word_is_good_for_ever(rows: Any, intent: Any, word: Any = None) -> Any:
    if word is not None:
        found = next((r for r in rows if r.key == word.key and r.in_doubt), None)
        word = word._replace(sends=found.sends) if found else word
    return _begin(rows, intent, word)


def _what_was_sent_before_counts_for_nobody(rows: Any, intent: Any, word: Any = None) -> Any:
    """A step that a new plan keeps is taken for a new one."""
    return _begin(rows, replace(intent, before=()), word)


def _ended_rows_stay_open(rows: Any, *, ended: bool = False, **more: Any) -> Any:
    return _release(rows, ended=False, **more)


def _nothing_is_spare_after_a_new_plan(rows: Any, *, ended: bool = False, **more: Any) -> Any:
    return _release(rows, ended=ended, **more) if ended else (list(rows), Change())


def _doubts_end_with_their_turn(rows: Any, *, ended: bool = False, **more: Any) -> Any:
    open_, change = _release(rows, ended=ended, **more)
    gone = [replace(row, state="closed", spare=False) for row in open_ if ended and row.in_doubt]
    return open_, Change([*change.save, *gone])


def _no_answer_is_a_failure(rows: Any, sent: Row, ending: End) -> Any:
    how = "failed" if ending.how == "unknown" else ending.how
    return _end(rows, sent, End(how, ending.result))


def _an_end_is_not_written(rows: Any, sent: Row, ending: End) -> Any:
    return None, Change()


_BROKEN: dict[str, list[Any]] = {
    "begin": [
        _a_spare_row_stays_spare,
        _spare_rows_are_not_looked_for,
        _a_doubt_is_sent_again,
        _other_doubts_are_not_asked_about,
        _its_own_row_is_known_by_its_content,
        _a_word_is_good_for_ever,
        _what_was_sent_before_counts_for_nobody,
    ],
    "release": [
        _ended_rows_stay_open,
        _nothing_is_spare_after_a_new_plan,
        _doubts_end_with_their_turn,
    ],
    "end": [_no_answer_is_a_failure, _an_end_is_not_written],
}
MUTANTS: dict[str, Any] = {
    rule.__name__.strip("_"): SimpleNamespace(**{**vars(PROTOCOL), verb: rule})
    for verb, rules in _BROKEN.items()
    for rule in rules
}
"""By name: the protocol with one rule broken."""

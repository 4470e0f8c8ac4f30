"""Which write was made, may have been made, or is still to be made: the rules of the journal. Pure.

Everything that is decided about an intent is decided here, over the rows of its thread.

    begin     asked before each send: send it, it is known, or it is in doubt
    end       what became of it
    release   which rows a new plan, a new message or a fork leaves with a living step

I1  Within one request a write happens at most as often as it stands in the plan that lists it most.
I2  A run that ends complete has a finished row for each of its writes.
I3  A row in doubt is sent again only by a human's word, or where its tool may be repeated.
I4  A step that was sent once is never sent again with other arguments.
I5  A new request may repeat a write of an ended one.
I6  While a write is in doubt, no other write of the same tool goes out without a human's word.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, Literal

from ...text.sentences import say
from .port import Change, End, Intent, Row, Verdict, Word

ANYWHERE: Final = "*"
"""Ends the place of a row that any graph inside of it may take over."""

Table = dict[str, Row]
"""The rows of a thread by their names, while something is decided about them."""


def begin(rows: Sequence[Row], intent: Intent, word: Word | None = None) -> tuple[Verdict, Change]:
    """Say what to do about a call that is about to be made.

    Its own row goes first, as it was sent (I4); then a spare row with the same content, which is
    taken once (I1); then a doubt about another write of the tool (I6). Else it is claimed.
    """
    table = {row.name: row for row in rows}
    if word is not None:
        _apply_word(table, intent, word)
    mine = _find_own(table, intent) or _find_spare_match(table, intent)
    if mine is not None:
        verdict = _judge_own_row(_take_row(table, mine, intent), intent)
    else:
        doubted = None if intent.repeatable else _find_other_doubt(table, intent)
        verdict = Verdict("other", doubted) if doubted else Verdict("send", _create_row(intent))
    if verdict.say != "known":
        table[verdict.row.name] = verdict.row
    return verdict, _collect_changes(rows, table)


def _find_own(table: Table, intent: Intent) -> Row | None:
    """The row of this very call, closed or not; else the open one of an earlier plan's step."""
    if intent.name in table:
        return table[intent.name]
    earlier = (table.get(name) for name in reversed(intent.before))
    return next((row for row in earlier if row and row.state != "closed"), None)


def _find_spare_match(table: Table, intent: Intent) -> Row | None:
    """A spare row with the same content; rather one that has finished, which asks nobody.

    Of those in doubt rather one of this turn: while that is open, a word about an older one would
    let the write of this request go out twice (I1). What another graph of the thread has finished
    is its own: this one was asked for it as well.
    """
    like = [
        row
        for row in _list_spare(table)
        if row.content == intent.content
        and (row.in_doubt or _serves_place(row.place, intent.place))
    ]
    return min(like, key=lambda row: (row.in_doubt, row.turn != intent.turn), default=None)


def _serves_place(place: str, wanted: str) -> bool:
    """Whether a call at `wanted` may reuse a row that was written at `place`."""
    around = place.removesuffix(ANYWHERE)
    if around == place:
        return place == wanted
    return not around or wanted == around or wanted.startswith(f"{around}|")


def _find_other_doubt(table: Table, intent: Intent) -> Row | None:
    of_tool = (
        row for row in _list_spare(table) if (row.tool, row.server) == (intent.tool, intent.server)
    )
    found = next((row for row in of_tool if row.in_doubt), None)
    return found and replace(found, told=False)


def _list_spare(table: Table) -> list[Row]:
    return [row for row in table.values() if row.spare and _is_open(row)]


def _take_row(table: Table, row: Row, intent: Intent) -> Row:
    """The row as that of this call: it was sent once, and stands for it from now on."""
    mine = replace(row, spare=False)
    if row.name != intent.name:
        table[row.name] = replace(mine, state="closed")
        mine = replace(
            mine, name=intent.name, place=intent.place, turn=intent.turn, task=intent.task,
            call=intent.call, source=row.source or row.call,
        )  # fmt: skip
    table[mine.name] = mine
    return mine


def _judge_own_row(row: Row, intent: Intent) -> Verdict:
    """What its own row says about a call."""
    if not (row.paused or _is_unknown(row)):
        return Verdict("known", row)
    if row.paused or intent.repeatable:
        again = replace(
            row, state="claimed", spare=False, paused=False, told=False, sends=row.sends + 1,
            result=None,
        )  # fmt: skip
        return Verdict("send", again)
    return Verdict("doubt", replace(row, told=False))


def _is_unknown(row: Row) -> bool:
    """Whether it may have taken effect; closed, another row knows, or a human gave it up."""
    return row.in_doubt or (row.state == "closed" and row.result is None)


def _create_row(intent: Intent) -> Row:
    return Row(
        name=intent.name, place=intent.place, turn=intent.turn, task=intent.task, call=intent.call,
        tool=intent.tool, server=intent.server, arguments=intent.arguments, content=intent.content,
        key=intent.key, since=intent.since,
    )  # fmt: skip


def _apply_word(table: Table, intent: Intent, word: Word) -> None:
    """Do what a human says of a row in doubt.

    That the call ran holds in any case. A doubt about another write ends with the word that this
    one is to be sent: of that one the human knows more than the journal.
    """
    own = _find_own(table, intent)
    asked = _find_asked_row(table, word, own)
    if word.result is not None:
        if own is None or _is_unknown(own):
            ran = _take_row(table, asked or own or _create_row(intent), intent)
            table[ran.name] = replace(
                ran,
                state="finished",
                result=word.result if ran.in_doubt else ran.result or word.result,
            )
    elif asked is None or not _is_unknown(asked):
        return  # it has been sent since, or its end is known
    elif asked is own or (asked.content == intent.content and not own):
        mine = _take_row(table, asked, intent)
        table[mine.name] = replace(mine, paused=True)  # it may be sent once more
    else:
        table[asked.name] = _drop_row(asked)


def _find_asked_row(table: Table, word: Word, own: Row | None = None) -> Row | None:
    """The row a word is about, if it is nobody else's by now and was not sent since."""
    rows = (row for row in table.values() if row is own or _is_open(row))
    found = (row for row in rows if (row.key, row.sends) == (word.key, word.sends))
    return next((row for row in found if row is own or row.spare or row.in_doubt), None)


def _is_open(row: Row) -> bool:
    return row.state != "closed"


def _drop_row(row: Row) -> Row:
    return replace(row, state="closed", spare=False, result=None)


def give_up(rows: Sequence[Row], word: Word) -> tuple[None, Change]:
    """Close a row in doubt: a human no longer wants it, whatever became of it."""
    table = {row.name: row for row in rows}
    asked = _find_asked_row(table, word)
    if asked is not None and asked.in_doubt:
        table[asked.name] = _drop_row(asked)
    return None, _collect_changes(rows, table)


def _collect_changes(rows: Sequence[Row], table: Table) -> Change:
    before = {row.name: row for row in rows}
    return Change([row for name, row in table.items() if row != before.get(name)])


def end(rows: Sequence[Row], sent: Row, ending: End) -> tuple[None, Change]:
    """Record how a send ended, if that is still the newest of its row."""
    row = next((row for row in rows if row.name == sent.name), None)
    if row is None or row.sends != sent.sends or not row.in_doubt:
        return None, Change()
    how, result = ending
    if how == "paused":
        return None, Change([replace(row, paused=True)])
    if how == "unknown":  # the call is answered: nobody stands behind the row any more
        return None, Change([replace(row, spare=True, result=result)])
    # One that ends after its turn is nobody's any more: a new request may want the same again.
    open_ = how == "finished" and not row.told
    state: Literal["finished", "closed"] = "finished" if open_ else "closed"
    return None, Change([replace(row, state=state, spare=row.spare and open_, result=result)])


def release(
    rows: Sequence[Row],
    *,
    keeps: Callable[[Row], bool],
    within: Callable[[Row], bool] = lambda _: True,
    back: bool = False,
    ended: bool = False,
    told: bool = False,
    anywhere: str | None = None,
) -> tuple[list[Row], Change]:
    """Keep the rows of living steps; mark the others as spare.

    Args:
        rows: Of one thread.
        keeps: Whether a row stays.
        within: Whether a row may be changed at all: other runs may work beside this one.
        back: Finished rows that stay are spare no longer.
        ended: A finished row belongs to an ended turn, or all who could repeat it know the answer:
            it is closed.
        told: The outcome of the turn has named its uncertain calls.
        anywhere: Another graph takes over: rows that do not stay may be used anywhere in this
            place.

    Returns:
        The open rows as they are now.
    """
    table = {row.name: row for row in rows}
    for row in rows:
        if not (_is_open(row) and within(row)):
            continue
        if not keeps(row):
            one = _release_row(row, ended=ended, told=told)
            moved = anywhere is not None and one.spare
            table[row.name] = replace(one, place=f"{anywhere}{ANYWHERE}") if moved else one
        elif back and row.state == "finished":
            table[row.name] = replace(row, spare=False)
    open_ = [row for row in table.values() if _is_open(row)]
    return open_, _collect_changes(rows, table)


def _release_row(row: Row, *, ended: bool, told: bool) -> Row:
    if row.paused or (ended and row.state == "finished"):
        return replace(row, state="closed", spare=False)
    return replace(row, spare=True, told=row.told or (told and row.in_doubt))


def invert_change(rows: Sequence[Row], change: Change) -> Change:
    """What takes a change back: the caller was cancelled, and will not send."""
    before = {row.name: row for row in rows}
    saved = [row.name for row in change.save]
    return Change(
        [before[name] for name in saved if name in before],
        [name for name in saved if name not in before],
    )


def describe_uncertain_call(row: Row) -> dict[str, Any]:
    """A write of which nobody knows whether it took effect, as an outcome lists it."""
    return {
        "id": row.call,
        "task": row.task,
        "tool": row.tool,
        "arguments": dict(row.arguments),
        **({"server": row.server} if row.server else {}),
        "why": str((row.result or {}).get("text") or say("cut_off_under_way")),
    }

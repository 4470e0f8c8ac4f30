"""Turns that wait for their thread: one table beside the journal is the whole queue.

Of a thread's messages only the first that is not over is `due`, so that workers choose among the
threads by one index. An answer is due at once: it is what the thread waits for. Whoever takes a
turn makes it due again a little later, so that one who dies before he holds the thread loses
nothing; from then on the thread's lock tells that somebody is at it.
"""

import json
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Literal

from ...state.errors import SettingsError, ThreadBusy
from ...text.canonical import make_storable
from ..journal.port import Journal
from ..journal.sql import SqlJournal, create, explain_errors
from ..journal.tables import Execute, Tables, retry_once
from ..locks.thread_locks import LockedBy, lock_thread_blocking

TURN_KEY: Final = "loopwright_turn"
"""Under this key checkpoints and messages say which enqueued turn they are of."""

State = Literal["waiting", "begun", "asks", "ended", "aside", "dequeued"]

LEFT: Final = "state IN ('waiting', 'begun', 'asks', 'aside')"
"""Of a turn's row: it is to run, or somebody has to look after it. An index has these alone."""

BY_GRAPH: Final = f"""
SELECT graph, count(*) FILTER (WHERE state = 'waiting') AS waiting,
    count(*) FILTER (WHERE state = 'aside') AS aside,
    {{now}} - min(since) FILTER (WHERE state = 'waiting' AND due <= {{now}}) AS seconds
FROM loopwright_turns WHERE {LEFT} GROUP BY graph
"""
"""How many turns of each graph wait; see `health`."""

# `due` and `since` by the database's clock, in seconds since 1970.
_SCHEMA: Final = (
    """
CREATE TABLE IF NOT EXISTS loopwright_turns (
    seq {number},
    thread TEXT NOT NULL,
    name TEXT NOT NULL,
    graph TEXT NOT NULL,
    kind TEXT NOT NULL,
    body TEXT NOT NULL,
    state TEXT NOT NULL DEFAULT 'waiting',
    runs INTEGER NOT NULL DEFAULT 0,
    tries INTEGER NOT NULL DEFAULT 0,
    since DOUBLE PRECISION NOT NULL,
    due DOUBLE PRECISION,
    outcome TEXT,
    why TEXT NOT NULL DEFAULT '',
    UNIQUE (thread, name)
)""",
    "CREATE INDEX IF NOT EXISTS loopwright_turns_due ON loopwright_turns (due)"
    " WHERE due IS NOT NULL",
    f"CREATE INDEX IF NOT EXISTS loopwright_turns_left ON loopwright_turns (seq) WHERE {LEFT}",
    "CREATE INDEX IF NOT EXISTS loopwright_turns_urgent ON loopwright_turns (due)"
    " WHERE due IS NOT NULL AND (state <> 'waiting' OR kind = 'answer')",
)
_OPEN: Final = "state IN ('waiting', 'begun', 'asks')"
_FIRST: Final = (
    f"(SELECT min(seq) FROM loopwright_turns WHERE thread = ? AND kind <> 'answer' AND {_OPEN})"
)
_ADD: Final = (
    "INSERT INTO loopwright_turns (thread, name, graph, kind, body, since)"
    " VALUES (?, ?, ?, ?, ?, {now}) ON CONFLICT (thread, name) DO NOTHING"
)
_AGAIN: Final = (
    "UPDATE loopwright_turns SET state = 'waiting', why = '', tries = 0, since = {now}"
    " WHERE thread = ? AND name = ? AND state = 'aside'"
)
_CALL: Final = f"UPDATE loopwright_turns SET due = {{now}} WHERE seq = {_FIRST}"
_ANSWERS: Final = (
    "UPDATE loopwright_turns SET due = {now}"
    f" WHERE thread = ? AND kind = 'answer' AND due IS NULL AND {_OPEN}"
)
_READ: Final = "SELECT * FROM loopwright_turns WHERE thread = ? AND name = ?"
_LIST: Final = f"SELECT * FROM loopwright_turns WHERE {LEFT}{{of}} ORDER BY seq LIMIT ?"
_DEQUEUE: Final = (
    "UPDATE loopwright_turns SET state = 'dequeued', why = '', due = NULL, since = {now}"
    " WHERE thread = ? AND name = ?"
    " AND (state IN ('waiting', 'aside') OR state = 'begun' AND (runs = 0 OR why <> '' AND ? = 1))"
)
# What was taken before, and answers, go before what was not, however long that has waited: the
# turn of a worker that dies keeps its place.
_DUE: Final = (
    "(SELECT seq FROM loopwright_turns AS turn WHERE due IS NOT NULL AND due <= {now}{urgent}"
    " AND graph IN ({graphs}){free} ORDER BY due LIMIT ?{skips})"
)
_URGENT: Final = " AND (state <> 'waiting' OR kind = 'answer')"
_TAKE: Final = (
    f"WITH urgent AS {_DUE.replace('{urgent}', _URGENT)}, others AS {_DUE.replace('{urgent}', '')}"
    " UPDATE loopwright_turns SET due = {now} + ?,"
    " state = CASE state WHEN 'waiting' THEN 'begun' ELSE state END WHERE seq IN"
    " (SELECT seq FROM urgent UNION ALL SELECT seq FROM (SELECT seq FROM others WHERE seq NOT IN"
    " (SELECT seq FROM urgent) LIMIT ? - (SELECT count(*) FROM urgent)) AS rest) RETURNING *"
)
_BEGIN: Final = (
    "UPDATE loopwright_turns SET state = 'begun', runs = runs + 1, tries = tries + 1, why = '',"
    f" since = {{now}} WHERE seq = ? AND {_OPEN} RETURNING *"
)
_LATER: Final = (
    "UPDATE loopwright_turns SET why = ?, state = CASE WHEN ? THEN 'asks'"
    " WHEN runs = 0 THEN 'waiting' ELSE state END,"
    " tries = CASE WHEN ? THEN tries ELSE 0 END,"
    f" due = {{now}} + ? WHERE seq = ? AND {_OPEN}"
)
_END: Final = (
    "UPDATE loopwright_turns SET state = ?, why = ?, outcome = ?, due = NULL, since = {now}"
    f" WHERE seq = ? AND {_OPEN}"
)
_ADOPT: Final = (
    "INSERT INTO loopwright_turns (thread, name, graph, kind, body, since, due)"
    " SELECT name, 'resume ' || token, graph, 'resume', '{}', {now}, {now} FROM ({died}) AS found"
    " WHERE NOT EXISTS (SELECT 1 FROM loopwright_turns AS turn WHERE turn.thread = found.name"
    f" AND ({_OPEN} OR state = 'aside' AND since >= at)) ON CONFLICT (thread, name) DO NOTHING"
)
_SWEEP: Final = (
    "DELETE FROM loopwright_turns WHERE state IN ('ended', 'dequeued') AND since < {now} - ?"
)
_FORGET: Final = "DELETE FROM loopwright_turns WHERE thread = ?"
_AWAY: Final = (
    "Cannot use the queue of turns in {database!r} ({cause}): what was enqueued is kept there, and"
    " waits until the database can be used again."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """An enqueued turn, as it stood when it was read.

    Attributes:
        id: Its own, or the one it was given.
        thread: For which it waits.
        graph: The name of the graph that runs it.
        state: `waiting`, `begun`, `asks` (its thread waits for an answer), `ended`, `dequeued`, or
            `aside` where it cannot run.
        outcome: How it ended, where that is known.
        why: Why it is set aside, or tried again.
        tries: How often it was begun since it last went well.
        since: When it was enqueued, begun last, or over.
    """

    id: str
    thread: str
    graph: str
    state: State
    outcome: dict[str, Any] | None = None
    why: str = ""
    tries: int = 0
    since: datetime = field(default_factory=lambda: datetime.now(UTC))
    runs: int = field(default=0, repr=False)
    kind: str = field(default="message", repr=False)
    body: Mapping[str, Any] = field(default_factory=dict, repr=False)
    number: int = field(default=0, repr=False)

    @property
    def over(self) -> bool:
        """Whether nobody will run it any more."""
        return self.state in {"ended", "aside", "dequeued"}

    @property
    def was_dropped(self) -> bool:
        """Whether somebody held its thread for it, and let it fall."""
        return self.state == "begun" and self.runs > 0


class TurnQueue:
    """The queue in the database of a journal; it blocks, and is safe to use from any thread."""

    def __init__(self, journal: SqlJournal) -> None:
        """Keep it beside this journal; its table comes into being with the first use."""
        self._journal, self.hands = journal, journal.hands
        self._complete = False
        self._lock = threading.Lock()

    @property
    def database(self) -> str:
        """Where it is, as it may be shown."""
        return self._journal.open().name

    @retry_once
    def add(self, turn: Turn) -> Turn:
        """Put a turn behind those of its thread, once; one that was set aside is tried again.

        Raises SettingsError if another one has its id.
        """
        body = json.dumps(turn.body, sort_keys=True)
        key = [make_storable(turn.thread), make_storable(turn.id)]
        with self._open_block(key[0]) as execute:
            execute(_ADD, [*key, turn.graph, turn.kind, body])
            (found,) = execute(_READ, key)
            if found["body"] != body:
                msg = (
                    f"The thread {turn.thread!r} has another turn with the id {turn.id!r}: the same"
                    " id is for the same message, sent again; give a new message another id."
                )
                raise SettingsError(msg)
            execute(_AGAIN, key)
            execute(_ANSWERS, key[:1])
            execute(f"{_CALL} AND due IS NULL", key[:1])
            (found,) = execute(_READ, key)
        return _parse_turn(found)

    def read(self, thread: str, name: str) -> Turn | None:
        """One turn, where it is known."""
        with self._open_block() as execute:
            found = execute(_READ, [make_storable(thread), make_storable(name)])
        return _parse_turn(found[0]) if found else None

    def list_turns(self, thread: str | None = None, most: int | None = None) -> list[Turn]:
        """Those that are to run, and those set aside, in the order in which they came."""
        of, values = ("", []) if thread is None else (" AND thread = ?", [make_storable(thread)])
        with self._open_block() as execute:
            found = execute(_LIST.replace("{of}", of), [*values, most or sys.maxsize])
        return [_parse_turn(row) for row in found]

    def dequeue(self, thread: str, name: str, locked_by: LockedBy) -> Turn | None:
        """Take a turn back that nobody is at; as it stands then.

        The thread of one that failed is held meanwhile: whoever has it may be at this turn.
        """
        turn = self._dequeue_once(thread, name, failed=False)
        if turn is None or turn.over or not turn.why:
            return turn
        with suppress(ThreadBusy), lock_thread_blocking(locked_by, thread):
            return self._dequeue_once(thread, name, failed=True)
        return turn

    @retry_once
    def _dequeue_once(self, thread: str, name: str, *, failed: bool) -> Turn | None:
        key = [make_storable(thread), make_storable(name)]
        with self._open_block(key[0]) as execute:
            execute(_DEQUEUE, [*key, int(failed)])
            execute(f"{_CALL} AND due IS NULL", key[:1])
            found = execute(_READ, key)
        return _parse_turn(found[0]) if found else None

    def take(self, graphs: Sequence[str], most: int, reserved: float) -> list[Turn]:
        """Turns of these graphs that are due and free, begun ones first.

        Nobody else takes them for `reserved` seconds.
        """
        marks = ", ".join("?" * len(graphs))
        with self._open_block() as execute:
            values = [*graphs, most, *graphs, most, reserved, most]
            found = execute(_TAKE.replace("{graphs}", marks), values)
        return [_parse_turn(row) for row in found]

    def adopt(self, graphs: Sequence[str]) -> None:
        """Enqueue what nobody enqueued, is unfinished, and that nobody is at; see Tables.died."""
        died = self._journal.open().died.replace("{graphs}", ", ".join("?" * len(graphs)))
        if died:
            with self._open_block() as execute:
                execute(_ADOPT.replace("{died}", died), graphs)

    def begin(self, turn: Turn) -> Turn | None:
        """Record that its thread is held for it; None where it is over."""
        with self._open_block() as execute:
            found = execute(_BEGIN, [turn.number])
        return _parse_turn(found[0]) if found else None

    def postpone(
        self, turn: Turn, seconds: float, why: str = "", *, asks: bool, failed: bool
    ) -> None:
        """Have it taken again after a while."""
        with self._open_block() as execute:
            execute(_LATER, [make_storable(why), asks, failed, seconds, turn.number])

    @retry_once
    def end(
        self, turn: Turn, state: State, why: str = "", outcome: Mapping[str, Any] | None = None
    ) -> None:
        """Record that it is over, and have the next one of its thread taken."""
        told = None if outcome is None else json.dumps(outcome, default=str)
        thread = make_storable(turn.thread)
        with self._open_block(thread) as execute:
            execute(_END, [state, make_storable(why), told, turn.number])
            execute(_CALL, [thread])

    def open(self) -> None:
        """Give the journal's database the table, if that is not done."""
        with self._open_block():
            pass

    def sweep(self, seconds: float) -> None:
        """Forget turns that ended so long ago."""
        with self._open_block() as execute:
            execute(_SWEEP, [seconds])

    def forget(self, thread: str) -> None:
        """Forget all turns of a thread."""
        with self._open_block() as execute:
            execute(_FORGET, [make_storable(thread)])

    @contextmanager
    def _open_block(self, thread: str | None = None) -> Iterator[Execute]:
        tables = self._journal.open()
        with explain_errors(tables, _AWAY):
            if not self._complete:
                with self._lock:
                    create(tables, _SCHEMA)
                    self._complete = True
            with tables.block(thread) as execute:
                yield lambda sql, values: execute(_fill_dialect(sql, tables), values)


def find_queue(journal: Journal) -> TurnQueue | None:
    """The queue beside a journal; None where the journal does not outlive the process."""
    return TurnQueue(journal) if isinstance(journal, SqlJournal) and journal.durable else None


def forget_thread(journal: Journal, thread: str) -> None:
    """Remove what a journal knows of a thread, and the turns beside it."""
    journal.forget(thread)
    if isinstance(journal, SqlJournal):
        TurnQueue(journal).forget(thread)


def _fill_dialect(sql: str, tables: Tables) -> str:
    return (
        sql.replace("{now}", tables.now)
        .replace("{free}", tables.free)
        .replace("{skips}", tables.skips)
    )


def _parse_turn(row: Mapping[str, Any]) -> Turn:
    body = json.loads(row["body"])
    return Turn(
        id=row["name"],
        thread=body.get("thread", row["thread"]),
        graph=row["graph"],
        state=row["state"],
        outcome=json.loads(row["outcome"]) if row["outcome"] else None,
        why=row["why"],
        tries=row["tries"],
        since=datetime.fromtimestamp(row["since"], UTC),
        runs=row["runs"],
        kind=row["kind"],
        body=body,
        number=row["seq"],
    )

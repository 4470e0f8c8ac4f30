"""The saved turns by id: one row a turn, kept as long as its thread.

A row has the number of starts, whether the turn is over, and its outcome. So a turn may be
delivered again, from any machine. Whether it should run at all is not saved here: an engine knows
that, or the queue (`store.work.queue`).
"""

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, Literal

from ...state.errors import SettingsError
from ...text.canonical import make_storable
from ..journal.port import Journal
from ..journal.sql import SqlJournal, create, explain_errors

if TYPE_CHECKING:
    from .queue import TurnQueue

TURN_KEY: Final = "loopwright_turn"
"""Under this key checkpoints and messages say which turn they are of."""

State = Literal["planned", "waiting", "begun", "asks", "ended", "aside", "dequeued"]
Kind = Literal["message", "answer", "resume"]

# `since` by the database's clock, in seconds since 1970.
_SCHEMA: Final = (
    """
CREATE TABLE IF NOT EXISTS loopwright_taken (
    thread TEXT NOT NULL,
    name TEXT NOT NULL,
    digest TEXT NOT NULL,
    body TEXT NOT NULL DEFAULT '',
    state TEXT NOT NULL,
    runs INTEGER NOT NULL DEFAULT 0,
    tries INTEGER NOT NULL DEFAULT 0,
    why TEXT NOT NULL DEFAULT '',
    outcome TEXT,
    since DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (thread, name)
)""",
    "CREATE INDEX IF NOT EXISTS loopwright_taken_asks ON loopwright_taken (thread)"
    " WHERE state = 'asks'",
)
_OVER: Final = "('ended', 'dequeued')"
_READ: Final = "SELECT * FROM loopwright_taken WHERE thread = ? AND name = ?"
_BEGIN: Final = (
    "INSERT INTO loopwright_taken AS old (thread, name, digest, body, state, runs, tries, since)"
    " VALUES (?, ?, ?, ?, 'begun', 1, 1, {now}) ON CONFLICT (thread, name) DO UPDATE"
    " SET state = 'begun', runs = old.runs + 1, why = '', since = excluded.since,"
    " tries = old.tries + 1,"
    " body = CASE old.runs WHEN 0 THEN excluded.body ELSE old.body END"
    f" WHERE old.state NOT IN {_OVER} AND old.digest = excluded.digest RETURNING *"
)
_LEAVE: Final = (
    "UPDATE loopwright_taken SET state = ?, why = ?,"
    " tries = CASE ? WHEN 'aside' THEN tries ELSE 0 END"
    f" WHERE thread = ? AND name = ? AND state NOT IN {_OVER}"
)
_END: Final = (
    "UPDATE loopwright_taken SET state = 'ended', why = '', outcome = ?, since = {now}"
    f" WHERE thread = ? AND name = ? AND state NOT IN {_OVER}"
)
_GIVE_UP: Final = (
    "INSERT INTO loopwright_taken AS old (thread, name, digest, state, why, since)"
    " VALUES (?, ?, ?, ?, ?, {now}) ON CONFLICT (thread, name) DO UPDATE"
    " SET state = excluded.state, why = excluded.why, tries = 0, since = excluded.since"
    f" WHERE old.state NOT IN {_OVER} AND (old.state = 'aside' OR old.why <> '')"
    " RETURNING name"
)
_FORGET: Final = "DELETE FROM loopwright_taken WHERE thread = ?"
_AWAY: Final = (
    "Cannot read what is known of turns in {database!r} ({cause}): nothing of them is lost; see"
    " that the database can be used, then try again."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """An enqueued turn, as it was when it was read.

    Attributes:
        id: Its own, or the given one.
        thread: The thread that it waits for.
        graph: The name of the graph that runs it.
        state: `planned` for a later time, `waiting`, `begun`, `asks` (its thread waits for an
            answer), `ended`, `dequeued`, or `aside` if it cannot run.
        outcome: How it ended, if that is known.
        why: Why it is set aside, or tried again.
        tries: The number of starts since it last rested.
        since: When it was enqueued, last started, or over.
        at: The earliest time of its run.
        every: The cron expression of its repetition.
        runs: The number of starts in all.
        kind, body: Its input, and `digest`, which identifies the input.
        job: The number of its job in the queue.
    """

    id: str
    thread: str
    graph: str
    state: State
    outcome: dict[str, Any] | None = None
    why: str = ""
    tries: int = 0
    since: datetime = field(default_factory=lambda: datetime.now(UTC))
    at: datetime | None = None
    every: str = ""
    runs: int = field(default=0, repr=False)
    kind: Kind = field(default="message", repr=False)
    body: Mapping[str, Any] = field(default_factory=dict, repr=False)
    digest: str = field(default="", repr=False)
    job: int | None = field(default=None, repr=False)

    @property
    def over(self) -> bool:
        """Whether nobody will run it any more."""
        return self.state in {"ended", "aside", "dequeued"}


class TurnRecords:
    """The rows beside a journal; they block, and are safe to use from any thread."""

    def __init__(self, journal: SqlJournal) -> None:
        """Keep them in its database; their table comes into being with the first use."""
        self.journal, self.hands = journal, journal.hands
        self._complete, self._lock = False, threading.Lock()
        self.opening = threading.Lock()
        """Held by who opens the queue beside them."""

    @property
    def database(self) -> str:
        """Where they are, as it may be shown."""
        return self.journal.open().name

    def read(self, thread: str, name: str) -> Turn | None:
        """What is known of a turn."""
        found = self._run(_READ, thread, name)
        return _parse_turn(thread, name, found[0]) if found else None

    def begin(self, turn: Turn) -> Turn | None:
        """Save that its thread is held for it.

        None if it is over, or if its input differs from the saved one.
        """
        body = json.dumps(turn.body) if turn.kind == "answer" else ""
        found = self._run(_BEGIN, turn.thread, turn.id, turn.digest, body)
        return _parse_turn(turn.thread, turn.id, found[0]) if found else None

    def leave(self, turn: Turn, state: State = "begun", why: str = "") -> None:
        """Record that it came to rest, and is to be taken again; `why`: it failed."""
        self._run(_LEAVE, state, why, state, turn.thread, turn.id)

    def end(self, thread: str, name: str, outcome: Mapping[str, Any] | None) -> None:
        """Record that it is over."""
        told = None if outcome is None else json.dumps(outcome, default=str)
        self._run(_END, told, thread, name)

    def give_up(self, turn: Turn, state: State, why: str = "") -> bool:
        """Record that nobody is to run it, unless it is over, or begun and has not failed."""
        return bool(self._run(_GIVE_UP, turn.thread, turn.id, turn.digest, state, why))

    def forget(self, thread: str) -> None:
        """Forget all turns of a thread."""
        self._run(_FORGET, thread)

    def open(self) -> None:
        """Make the table, if that is not done."""
        with self._lock:
            if not self._complete:
                create(self.journal.open(), _SCHEMA)
                self._complete = True

    def _run(self, sql: str, *values: str | None) -> list[Any]:
        tables = self.journal.open()
        with explain_errors(tables.errors, _AWAY, tables.name):
            self.open()
            with tables.block() as execute:
                told = [value and make_storable(value) for value in values]
                return execute(sql.replace("{now}", tables.now), told)


def _parse_turn(thread: str, name: str, row: Mapping[str, Any]) -> Turn:
    told = {key: row[key] for key in ("state", "digest", "runs", "tries", "why")}
    return Turn(
        id=name, thread=thread, graph="", body=json.loads(row["body"] or "{}"), **told,
        outcome=json.loads(row["outcome"]) if row["outcome"] else None,
        since=datetime.fromtimestamp(row["since"], UTC),
    )  # fmt: skip


def check_same(known: Turn | None, turn: Turn) -> None:
    """Raise SettingsError where a turn's id is known for something else."""
    if known is not None and known.digest != turn.digest:
        msg = (
            f"The thread {turn.thread!r} has another turn with the id {turn.id!r}: the same id is"
            " for the same message, sent again; give a new message another id."
        )
        raise SettingsError(msg)


def find_records(journal: Journal | None) -> TurnRecords | None:
    """The rows beside a journal; None where the journal does not outlive the process."""
    if not (isinstance(journal, SqlJournal) and journal.durable):
        return None
    records: TurnRecords = journal.beside.setdefault("records", TurnRecords(journal))
    return records


def find_queue(journal: Journal | None) -> "TurnQueue | None":
    """The queue beside a journal; None where nothing was ever enqueued, or can be."""
    records = find_records(journal)
    pool = None if records is None else records.journal.open().pool
    if records is None or pool is None or find_spec("procrastinate") is None:
        return None
    if "queue" not in records.journal.beside:
        (row,) = pool.fetch_rows("SELECT to_regclass('procrastinate_jobs') IS NOT NULL AS made", [])
        if not row["made"]:
            return None
    return open_queue(records)


def open_queue(records: TurnRecords) -> "TurnQueue":
    """The queue with these rows; raises SettingsError without one."""
    if records.journal.open().pool is None:
        msg = (
            f"{records.database!r} is a file, and has no queue: run the turn at once by graph.take,"
            " or keep threads in postgresql://… (docs/engines.md shows both)."
        )
        raise SettingsError(msg)
    with records.opening:
        if "queue" not in records.journal.beside:
            try:
                module = import_module(".queue", __package__)
            except ImportError as error:
                msg = (
                    f"The queue of turns needs the package {error.name!r}, which is not installed:"
                    " install the extra `workers` (pip install '.[workers]' in the folder of"
                    " loopwright)."
                )
                raise SettingsError(msg) from error
            records.journal.beside["queue"] = module.TurnQueue(records)
        queue: TurnQueue = records.journal.beside["queue"]
        return queue

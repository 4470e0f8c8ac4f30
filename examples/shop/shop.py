"""A shop in one SQLite file: what is in it, and the one way to read it and to change it.

What must never happen is forbidden by the file itself, whoever writes: money back beyond what was
paid, a second ticket for one issue, a change of what was paid back.
"""

import json
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Final, TypeVar

from knowledge import TABLES as ARTICLES

from loopwright.servers.plain_server import Refused, to_line

_R = TypeVar("_R")
Row = dict[str, Any]

_WAITS: Final = 10.0
"""Seconds for another process that is writing."""

_TABLES: Final = """
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE customers (
    customer_id TEXT PRIMARY KEY COLLATE NOCASE, name TEXT NOT NULL,
    email TEXT NOT NULL UNIQUE COLLATE NOCASE,
    phone TEXT NOT NULL, postcode TEXT NOT NULL, city TEXT NOT NULL, language TEXT NOT NULL,
    tier TEXT NOT NULL CHECK (tier IN ('standard', 'gold')), since TEXT NOT NULL
);
CREATE TABLE orders (
    order_id TEXT PRIMARY KEY COLLATE NOCASE, customer_id TEXT NOT NULL REFERENCES customers,
    item TEXT NOT NULL,
    kind TEXT NOT NULL, quantity INTEGER NOT NULL CHECK (quantity > 0),
    paid INTEGER NOT NULL CHECK (paid >= 0),
    status TEXT NOT NULL
        CHECK (status IN ('processing', 'shipped', 'delivered', 'returned', 'cancelled')),
    ordered_on TEXT NOT NULL, delivered_on TEXT
);
CREATE INDEX orders_of ON orders (customer_id, ordered_on);
CREATE TABLE refunds (
    number INTEGER PRIMARY KEY AUTOINCREMENT, order_id TEXT NOT NULL COLLATE NOCASE
        REFERENCES orders,
    cents INTEGER NOT NULL CHECK (cents > 0), reason TEXT NOT NULL, made_at TEXT NOT NULL
);
CREATE INDEX refunds_of ON refunds (order_id);
CREATE TRIGGER refund_within_what_was_paid BEFORE INSERT ON refunds
WHEN new.cents + (SELECT coalesce(sum(cents), 0) FROM refunds WHERE order_id = new.order_id)
    > (SELECT paid FROM orders WHERE order_id = new.order_id)
BEGIN SELECT raise(ABORT, 'more than what was paid'); END;
CREATE TRIGGER refund_stays BEFORE UPDATE ON refunds
BEGIN SELECT raise(ABORT, 'a refund is not changed'); END;
CREATE TRIGGER refund_is_kept BEFORE DELETE ON refunds
BEGIN SELECT raise(ABORT, 'a refund is not taken back'); END;
CREATE TABLE tickets (
    number INTEGER PRIMARY KEY AUTOINCREMENT, customer_id TEXT REFERENCES customers, thread TEXT,
    issue TEXT NOT NULL, subject TEXT NOT NULL, body TEXT NOT NULL,
    priority TEXT NOT NULL CHECK (priority IN ('low', 'normal', 'high', 'urgent')),
    status TEXT NOT NULL
        CHECK (status IN ('open', 'waiting_for_customer', 'with_human', 'solved', 'closed')),
    made_at TEXT NOT NULL, follow_up_at TEXT NOT NULL,
    UNIQUE (customer_id, issue)
);
CREATE UNIQUE INDEX one_for_a_stranger ON tickets (thread, issue) WHERE customer_id IS NULL;
CREATE TABLE ticket_notes (
    number INTEGER PRIMARY KEY AUTOINCREMENT, ticket INTEGER NOT NULL REFERENCES tickets,
    to_customer INTEGER NOT NULL, text TEXT NOT NULL, made_at TEXT NOT NULL
);
CREATE TABLE transfers (
    number INTEGER PRIMARY KEY AUTOINCREMENT, thread TEXT, customer_id TEXT REFERENCES customers,
    ticket INTEGER REFERENCES tickets, reason TEXT NOT NULL, summary TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('waiting', 'taken', 'done')), made_at TEXT NOT NULL
);
CREATE UNIQUE INDEX one_waits ON transfers (thread) WHERE state = 'waiting';
CREATE TABLE failures (
    account TEXT PRIMARY KEY, count INTEGER NOT NULL, locked_until REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE done (key TEXT PRIMARY KEY, asked TEXT NOT NULL, result TEXT NOT NULL) WITHOUT ROWID;
"""


def now() -> str:
    """The time, as it is written down."""
    return datetime.now(UTC).isoformat(timespec="seconds")


class Shop:
    """Reads and writes of the file; each is one transaction."""

    def __init__(self, path: str | Path, clock: Callable[[], float] = time.time) -> None:
        """Open a shop; `clock` says until when an account is locked.

        Raises:
            Refused: There is no shop.
        """
        self._path, self.clock = Path(path), clock
        if not self._path.is_file():
            message = f"There is no shop at '{to_line(str(path))}': make one with --seed FOLDER."
            raise Refused(message)
        with self.reading() as database:
            try:
                told = dict(database.execute("SELECT name, value FROM about"))
            except sqlite3.DatabaseError as error:
                message = f"'{to_line(str(path))}' is no shop: {error}."
                raise Refused(message) from error
        self.currency = told.get("currency", "")
        self._day = told.get("today", "")

    @classmethod
    def made(cls, path: Path, fill: Callable[[sqlite3.Connection], None]) -> "Shop":
        """Make a shop, whole or not at all; one that is there stays as it is.

        Raises:
            Refused: The file cannot be written.
        """
        if not path.exists():
            half = path.with_name(f"{path.name}.{time.time_ns()}.half")
            try:
                with closing(sqlite3.connect(half)) as database:
                    database.executescript(f"BEGIN;{_TABLES}{ARTICLES}")
                    fill(database)
                    database.commit()
                    database.execute("PRAGMA journal_mode = WAL")
                with suppress(FileExistsError):  # another program was faster: its shop is in use
                    path.hardlink_to(half)
            except (OSError, sqlite3.OperationalError) as error:
                message = f"The shop cannot be written to '{to_line(str(path))}': {error}."
                raise Refused(message) from error
            finally:
                half.unlink(missing_ok=True)
        return cls(path)

    def today(self) -> date:
        """The day in the shop: a shop made for trying stands still on one."""
        return date.fromisoformat(self._day) if self._day else datetime.now(UTC).date()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection that changes nothing, and sees one state of the file."""
        with self._opened() as database:
            database.execute("PRAGMA query_only = 1")
            database.execute("BEGIN")
            yield database

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """The one connection that may change the file now: all of it is kept, or nothing."""
        with self._opened() as database:
            database.execute("BEGIN IMMEDIATE")
            yield database
            database.execute("COMMIT")

    def once(self, key: str, asked: object, work: Callable[[sqlite3.Connection], _R]) -> _R:
        """Do what is asked in one transaction; under a key that was seen, give what it gave then.

        Raises:
            Refused: Something else was asked under this key.
        """
        told = json.dumps(asked)
        with self.writing() as database:
            done = database.execute("SELECT * FROM done WHERE key = ?", (key,)).fetchone()
            if done is None:
                result = work(database)
                if key:
                    row = (key, told, json.dumps(result))
                    database.execute("INSERT INTO done VALUES (?, ?, ?)", row)
                return result
        if done["asked"] != told:
            message = "This call was made before with other arguments: make it as a new one."
            raise Refused(message)
        known: _R = json.loads(done["result"])
        return known

    def row(self, sql: str, *values: object) -> Row | None:
        """The one row of a statement."""
        return next(iter(self.rows(sql, *values)), None)

    def rows(self, sql: str, *values: object) -> list[Row]:
        """The rows of a statement, by column."""
        with self.reading() as database:
            return [dict(row) for row in database.execute(sql, values)]

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        uri = f"{self._path.absolute().as_uri()}?mode=rw"
        try:
            with closing(
                sqlite3.connect(uri, uri=True, timeout=_WAITS, isolation_level=None)
            ) as db:
                db.row_factory = sqlite3.Row
                db.execute("PRAGMA foreign_keys = 1")
                yield db
        except sqlite3.OperationalError as error:
            message = f"The shop cannot be used now: {error}; try again in a moment."
            raise Refused(message) from error
        except UnicodeEncodeError as error:
            message = "A text has half a character in it: send it again as valid Unicode."
            raise Refused(message) from error

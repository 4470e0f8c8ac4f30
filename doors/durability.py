"""Where threads are kept: one URL gives the checkpointer, the store and the journal.

Another database is a module beside this one that has `open_database(url)`, and a line in `_HOMES`.
"""

import re
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Final

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.store.base import BaseStore

from ..state.errors import DatabaseError
from .journal_sql import SqlJournal
from .journal_tables import Tables

DEFAULT_URL: Final = "sqlite:///.loopwright/threads.db"

BUSY_SECONDS: Final = 10.0
"""How long one process waits for another's write; a turn's write takes milliseconds."""

THREADS_SQL: Final = "SELECT DISTINCT thread_id FROM checkpoints WHERE checkpoint_ns = ''"

_HOMES: Final = {"sqlite": ".sqlite", "postgresql": ".postgres", "postgres": ".postgres"}
_FORMS: Final = "sqlite:///FILE, sqlite:////ABSOLUTE/FILE, sqlite:///:memory: or postgresql://…"


@dataclass(frozen=True, kw_only=True)
class Durability(AbstractContextManager["Durability"]):
    """An open database, which may be used for the length of a block.

    Attributes:
        url: what it was opened by.
        checkpointer: saves threads; usable sync, and async from any event loop.
        store: keeps what outlives a thread; usable like the checkpointer.
        journal: records tool calls.
    """

    url: str
    checkpointer: BaseCheckpointSaver[Any]
    store: BaseStore
    journal: SqlJournal
    thread_ids: Callable[[], Iterable[str]] = field(repr=False)
    closers: tuple[Callable[[], None], ...] = field(default=(), repr=False)

    def close(self) -> None:
        """Close the connections; a second call does nothing."""
        for close in self.closers:
            close()

    def __exit__(self, *_: object) -> None:
        """Close at the end of the block."""
        self.close()


def open_durability(url: str = DEFAULT_URL) -> Durability:
    """Open a database and prove that it can be written.

    Args:
        url: `sqlite:///relative.db`, `sqlite:////absolute.db`, `sqlite:///:memory:` or
            `postgresql://user@host/name`. Missing folders of a SQLite file are created.

    Raises:
        DatabaseError: it cannot be opened or written; says what, where and what to do.
    """
    home = _HOMES.get(url.partition("://")[0])
    if home is None:
        raise refused(url)
    opened: Durability = import_module(home, __package__).open_database(url)
    return opened


class LateDatabase:
    """A database for journal and locks where somebody else saves the threads.

    Opened with the first use, in the worker thread of whoever uses it.

    Attributes:
        journal: Records calls there.
    """

    def __init__(self, url: str) -> None:
        """Remember the URL; a wrong one raises DatabaseError with the first use."""
        self.journal = SqlJournal(self._tables, durable=":memory:" not in url)
        self._url = url
        self._opened: Durability | None = None
        self._lock = threading.Lock()

    def saver(self) -> BaseCheckpointSaver[Any]:
        """The saver by whose rules threads are locked; blocks while the database is opened."""
        return self._open().checkpointer

    def close(self) -> None:
        """Close what was opened."""
        self.journal.close()
        if self._opened is not None:
            self._opened.close()

    def _tables(self) -> Tables:
        return self._open().journal.tables()

    def _open(self) -> Durability:
        with self._lock:
            if self._opened is None:
                self._opened = open_durability(self._url)
            return self._opened


def patiently(act: Callable[[], object], passes: Callable[[Exception], bool]) -> None:
    """Repeat what fails only because another process is opening the same database."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            act()
        except Exception as error:
            if not passes(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        else:
            return


def refused(url: str) -> DatabaseError:
    """The sentence for a URL of no known form."""
    msg = f"Cannot open the database {without_password(url)!r}: give {_FORMS}."
    return DatabaseError(msg)


def without_password(url: str) -> str:
    """A URL as it may be shown."""
    scheme, _, rest = url.partition("://")
    user, at, host = rest.rpartition("@")
    shown = f"{scheme}://{user.partition(':')[0]}{at}{host}"
    return re.sub(r"(?i)(password=)[^&]*", r"\1…", shown)


def cause_of(error: Exception) -> str:
    """What a driver says, in its first line."""
    return str(error).strip().partition("\n")[0].rstrip(".") or type(error).__name__

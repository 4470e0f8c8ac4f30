"""A database for journal and locks where somebody else saves the threads, opened when needed."""

import threading
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver

from .durability import Durability, open_durability
from .journal import Journal


class LateDatabase:
    """Opened with the first use, in the worker thread of whoever uses it.

    Attributes:
        journal: Records calls there.
    """

    def __init__(self, url: str) -> None:
        """Remember the URL; a wrong one raises DatabaseError with the first use."""
        self.journal = Journal(lambda: self._open().journal.tables(), durable=":memory:" not in url)
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

    def _open(self) -> Durability:
        with self._lock:
            if self._opened is None:
                self._opened = open_durability(self._url)
            return self._opened

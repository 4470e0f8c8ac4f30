"""A thread in a SQLite file made smaller: all that goes, goes in one transaction."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import Any, Final

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.sqlite import SqliteSaver

from ..state.calls import results_of
from ..state.canonical import storable
from .head import Head
from .journal import text_of
from .pruning import Keeps, Saved, severed
from .shared_values import COUNTERS, OURS, missing_values, unfolded

_JOURNAL: Final = "loopwright_journal"
_TASK: Final = ":"
"""In the first part of a namespace: what a task of one step saved, which no other step reads."""


_DOUBT: Final = (
    "SELECT 1 FROM loopwright_journal WHERE thread = ? AND kind = 'intent' AND state = 'claimed'"
)


_GONE: Final = "nothing of it is saved any more"
_ASKS: Final = "a question waits for an answer"
_UNFINISHED: Final = "its turn has not ended"
_IN_DOUBT: Final = "nobody knows whether a call of it took effect"
_CUT_OFF: Final = "older checkpoints, which it needs, were deleted"
_FOREIGN: Final = "its graph is not one of this package's"


class _LeftError(Exception):
    """Why a thread must be left as it is."""


class SqlitePruning:
    """Prunes threads through a saver whose connection nobody else uses meanwhile."""

    def __init__(self, saver: SqliteSaver) -> None:
        """Use this saver, whose tables are there."""
        self._saver, self._connection = saver, saver.conn

    def prune(self, thread: str, keeps: Keeps) -> str | bool:
        """Remove what is not kept of a thread; the caller holds its lock.

        Returns:
            Whether anything was removed, or why the thread was left as it is.
        """
        try:
            with self._transaction():
                return self._pruned(thread, keeps)
        except _LeftError as left:
            return str(left)

    def _pruned(self, thread: str, keeps: Keeps) -> bool:
        head = self._head(thread)
        saved = self._saved(thread)
        kept = keeps(_id(head), saved)
        self._cut_loose(thread, severed(kept, saved))
        gone = {one.id for one in saved} - kept
        self._remove(thread, kept, gone)
        removed = self._forget_inner(thread, min(kept)) + len(gone)
        if OURS in head.saved.checkpoint["channel_versions"]:
            removed += self._forget_calls(thread, kept)
            removed += self._forget_results(thread)
        return removed > 0

    def _run(self, sql: str, *values: object) -> sqlite3.Cursor:
        return self._connection.execute(sql, values)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._connection.rollback()
            raise
        self._connection.commit()

    def _head(self, thread: str) -> Head:
        """Where the thread stands, if it may be touched."""
        saved = self._saver.get_tuple(_place(thread))
        if saved is None:
            raise _LeftError(_GONE)
        head = Head(saved)
        if head.interrupts():
            raise _LeftError(_ASKS)
        if head.waiting():
            raise _LeftError(_UNFINISHED)
        if self._has(_JOURNAL) and self._run(_DOUBT, storable(thread)).fetchone():
            raise _LeftError(_IN_DOUBT)
        return head

    def _has(self, table: str) -> bool:
        found = self._run("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", table)
        return found.fetchone() is not None

    def _saved(self, thread: str) -> list[Saved]:
        rows = self._run(
            "SELECT checkpoint_id, parent_checkpoint_id, metadata FROM checkpoints"
            " WHERE thread_id = ? AND checkpoint_ns = '' ORDER BY checkpoint_id",
            thread,
        ).fetchall()
        return [
            Saved(
                name,
                parent,
                json.loads(metadata or "{}").get("source") == "input",
                partial(self._at, thread, name),
            )
            for name, parent, metadata in rows
        ]

    def _at(self, thread: str, checkpoint: str) -> datetime:
        return datetime.fromisoformat(self._tuple(thread, checkpoint).checkpoint["ts"])

    def _tuple(self, thread: str, checkpoint: str) -> Any:
        return self._saver.get_tuple(_place(thread, checkpoint))

    def _cut_loose(self, thread: str, checkpoints: list[str]) -> None:
        """Have these checkpoints hold all their values themselves."""
        for name in checkpoints:
            saved = self._tuple(thread, name)
            if missing_values(self._saver, saved.config, saved.parent_config):
                raise _LeftError(_CUT_OFF)
            filled = unfolded(self._saver, saved)
            if filled is None:
                raise _LeftError(_FOREIGN)
            metadata = dict(saved.metadata)
            counted = {k: v for k, v in metadata.pop(COUNTERS, {}).items() if k not in filled}
            kind, blob = self._saver.serde.dumps_typed(saved.checkpoint)
            told = {**metadata, **({COUNTERS: counted} if counted else {})}
            self._run(
                "UPDATE checkpoints SET parent_checkpoint_id = NULL, type = ?, checkpoint = ?,"
                " metadata = ? WHERE thread_id = ? AND checkpoint_ns = '' AND checkpoint_id = ?",
                kind, blob, json.dumps(told, ensure_ascii=False).encode("utf-8", "ignore"),
                thread, name,
            )  # fmt: skip

    def _remove(self, thread: str, kept: set[str], gone: set[str]) -> None:
        for table in ("checkpoints", "writes"):
            where = f"DELETE FROM {table} WHERE thread_id = ? AND checkpoint_ns = ''"
            self._connection.executemany(
                f"{where} AND checkpoint_id = ?", [(thread, name) for name in gone]
            )
        orphans = self._run(
            "SELECT DISTINCT checkpoint_id FROM writes WHERE thread_id = ? AND checkpoint_ns = ''",
            thread,
        ).fetchall()
        self._connection.executemany(
            "DELETE FROM writes WHERE thread_id = ? AND checkpoint_ns = '' AND checkpoint_id = ?",
            [(thread, name) for (name,) in orphans if name not in kept],
        )

    def _forget_inner(self, thread: str, oldest: str) -> int:
        """Remove what tasks saved in steps before the oldest checkpoint that stays."""
        found = self._run(
            "SELECT checkpoint_ns, max(checkpoint_id) FROM checkpoints"
            " WHERE thread_id = ? AND checkpoint_ns <> '' GROUP BY checkpoint_ns",
            thread,
        ).fetchall()
        removed = 0
        for place, newest in found:
            if newest < oldest and _TASK in place.partition("|")[0]:
                for table in ("checkpoints", "writes"):
                    sql = f"DELETE FROM {table} WHERE thread_id = ? AND checkpoint_ns = ?"
                    removed += self._run(sql, thread, place).rowcount
        return removed

    def _forget_calls(self, thread: str, kept: set[str]) -> int:
        """Remove from the journal what was recorded of turns of which nothing stays."""
        if not self._has(_JOURNAL):
            return 0
        values = (self._tuple(thread, name).checkpoint["channel_values"] for name in kept)
        turns = {str(value.get("turn_id", "")) for value in values}
        rows = self._run(
            f"SELECT seq, kind, name, body FROM {_JOURNAL} WHERE thread = ?"
            " AND (kind = 'turn' OR (kind = 'intent' AND state = 'closed'))",
            storable(thread),
        ).fetchall()
        ended = [
            (seq,)
            for seq, kind, name, body in rows
            if (name.split(" ")[0] if kind == "turn" else json.loads(text_of(body))["turn"])
            not in turns
        ]
        self._connection.executemany(f"DELETE FROM {_JOURNAL} WHERE seq = ?", ended)
        return len(ended)

    def _forget_results(self, thread: str) -> int:
        """Remove long results that nothing of the thread names any more."""
        if not self._has("store"):
            return 0
        place = ".".join(results_of(thread))
        keys = self._run("SELECT key FROM store WHERE prefix = ?", place).fetchall()
        if not keys:
            return 0
        told = "\n".join(self._texts(thread))
        lost = [(place, key) for (key,) in keys if key not in told]
        self._connection.executemany("DELETE FROM store WHERE prefix = ? AND key = ?", lost)
        return len(lost)

    def _texts(self, thread: str) -> Iterator[str]:
        """All that is still saved of a thread, as text."""
        for saved in self._saver.list({"configurable": {"thread_id": thread}}):
            yield repr(saved.checkpoint["channel_values"])
            yield repr(saved.pending_writes)
        if self._has(_JOURNAL):
            sql = f"SELECT body FROM {_JOURNAL} WHERE thread = ?"
            yield from (text_of(body) for (body,) in self._run(sql, storable(thread)))


def _place(thread: str, checkpoint: str | None = None) -> RunnableConfig:
    named = {"checkpoint_id": checkpoint} if checkpoint else {}
    return {"configurable": {"thread_id": thread, "checkpoint_ns": "", **named}}


def _id(head: Head) -> str:
    return str(head.saved.checkpoint["id"])

"""Threads made smaller, in whatever SQL database: what is kept of one, and how the rest goes."""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final, Literal, NamedTuple

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver

from ...state.calls import results_of
from ...state.channels import unpack_fields
from ...state.errors import SettingsError
from ...text.canonical import make_storable
from ..base.langgraph_keys import parse_checkpoint_time
from ..checkpoints.shared_values import COUNTERS, OURS, fill_shared_values, find_lost_values
from ..checkpoints.thread_head import ThreadHead
from ..journal.sql import decode_body, select_bodies
from ..journal.tables import Execute

RUNS: Final = "a run holds it"
"""Why a thread is left as it is that cannot be locked."""


class SavedCheckpoint(NamedTuple):
    """One checkpoint of a thread's own graph; `begins`: a new message begins a turn with it."""

    id: str
    parent: str | None
    begins: bool
    at: Callable[[], datetime]


Keeps = Callable[[str, Sequence[SavedCheckpoint]], set[str]]
"""Takes the newest checkpoint's id and all checkpoints; gives the ids of those that stay."""


@dataclass(frozen=True, slots=True)
class Pruned:
    """What became of the threads.

    Attributes:
        threads: Those of which something was removed.
        left: Those that were left as they are, each with the reason.
        before: Size of the database before, in bytes.
        after: Its size now.
        shrunk: The file was rewritten; otherwise later rows use the free space.
    """

    threads: list[str] = field(default_factory=list)
    left: dict[str, str] = field(default_factory=dict)
    before: int = 0
    after: int = 0
    shrunk: bool = True


def build_keep_rule(
    keep: Literal["latest"] | None, turns: int | None, older_than: timedelta | None
) -> Keeps:
    """What stays, by what is asked for; raises SettingsError if that is not one of the three."""
    if sum(given is not None for given in (keep, turns, older_than)) != 1:
        msg = 'Say what is kept of a thread by one of keep="latest", turns=N and older_than=….'
        raise SettingsError(msg)
    if turns is not None:
        if isinstance(turns, bool) or not isinstance(turns, int) or turns < 1:
            msg = f"turns={turns!r} keeps no turn: give a whole number from 1 on."
            raise SettingsError(msg)
        return lambda newest, saved: _find_last_turns(turns, newest, saved)
    if older_than is not None:
        if not isinstance(older_than, timedelta) or older_than < timedelta():
            msg = f"older_than={older_than!r} is no age: give one such as timedelta(days=30)."
            raise SettingsError(msg)
        try:
            since = datetime.now(UTC) - older_than
        except OverflowError:
            since = datetime.min.replace(tzinfo=UTC)
        return lambda newest, saved: {newest, *(one.id for one in saved if one.at() >= since)}
    if keep != "latest":
        msg = f'keep={keep!r} is not known: it takes "latest"; see also turns= and older_than=.'
        raise SettingsError(msg)
    return lambda newest, saved: {newest}  # noqa: ARG005 - see Keeps


def _find_last_turns(turns: int, newest: str, saved: Sequence[SavedCheckpoint]) -> set[str]:
    """The last turns of the thread as it stands; what was left by a fork is not among them."""
    by_id = {one.id: one for one in saved}
    line: set[str] = set()
    at: str | None = newest
    while at in by_id and turns:
        line.add(at)
        turns -= by_id[at].begins
        at = by_id[at].parent
    return line


def find_orphans(kept: Collection[str], saved: Iterable[SavedCheckpoint]) -> list[str]:
    """Which of those that stay lose the one they followed."""
    return [one.id for one in saved if one.id in kept and one.parent and one.parent not in kept]


_TASK: Final = ":"
"""In the first part of a namespace: what a task of one step saved, which no other step reads."""

_DOUBT: Final = (
    "SELECT 1 FROM loopwright_journal WHERE thread = ? AND kind = 'intent' AND state = 'claimed'"
)

_BLOBS: Final = "checkpoint_blobs"
_UNUSED: Final = (
    f"DELETE FROM {_BLOBS} b WHERE thread_id = ? AND NOT EXISTS (SELECT 1 FROM checkpoints c"
    " WHERE c.thread_id = b.thread_id AND c.checkpoint_ns = b.checkpoint_ns"
    " AND c.checkpoint -> 'channel_versions' ->> b.channel = b.version)"
)
"""Values that no checkpoint names any more."""

JOURNAL, STORE = "loopwright_journal", "store"
"""Tables beside those of the checkpoints."""

_AT_ONCE: Final = 500
"""Rows that one statement names."""

_GONE: Final = "nothing of it is saved any more"
_ASKS: Final = "a question waits for an answer"
_UNFINISHED: Final = "its turn has not ended"
_IN_DOUBT: Final = "nobody knows whether a call of it took effect"
_CUT_OFF: Final = "older checkpoints, which it needs, were deleted"
_FOREIGN: Final = "its graph is not one of this package's"


class NotPrunableError(Exception):
    """Why a thread must be left as it is."""


@dataclass(frozen=True)
class ThreadPruning:
    """Prunes threads in one transaction that nobody else ends.

    `beside`: those tables of journal and store that are there. `tables`: those of the checkpoints.
    """

    execute: Execute
    saver: BaseCheckpointSaver[Any]
    beside: Collection[str] = (JOURNAL, STORE)
    tables: Sequence[str] = ("checkpoints", "writes")

    def prune(self, thread: str, keeps: Keeps) -> bool:
        """Remove what is not kept of a thread whose lock is held; whether anything was removed.

        Raises NotPrunableError if it must be left: the transaction is to be rolled back.
        """
        head = self._read_head(thread)
        saved = self._list_checkpoints(thread)
        kept = keeps(str(head.saved.checkpoint["id"]), saved)
        self._make_standalone(thread, find_orphans(kept, saved))
        gone = {one.id for one in saved} - kept
        self._remove(thread, kept, gone)
        removed = self._forget_inner(thread, min(kept)) + len(gone)
        if _BLOBS in self.tables:
            self._run(_UNUSED, thread)
        if OURS & head.saved.checkpoint["channel_versions"].keys():
            removed += self._forget_calls(thread, kept)
            removed += self._forget_results(thread)
        return removed > 0

    def _run(self, sql: str, *values: object) -> list[Any]:
        return self.execute(sql, values)

    def _read_head(self, thread: str) -> ThreadHead:
        """Where the thread stands, if it may be touched."""
        saved = self.saver.get_tuple(_build_config(thread))
        if saved is None:
            raise NotPrunableError(_GONE)
        head = ThreadHead(saved)
        if head.list_interrupts():
            raise NotPrunableError(_ASKS)
        if head.find_next_nodes():
            raise NotPrunableError(_UNFINISHED)
        if JOURNAL in self.beside and self._run(_DOUBT, make_storable(thread)):
            raise NotPrunableError(_IN_DOUBT)
        return head

    def _list_checkpoints(self, thread: str) -> list[SavedCheckpoint]:
        rows = self._run(
            "SELECT checkpoint_id, parent_checkpoint_id, metadata FROM checkpoints"
            " WHERE thread_id = ? AND checkpoint_ns = '' ORDER BY checkpoint_id",
            thread,
        )
        return [
            SavedCheckpoint(
                row["checkpoint_id"],
                row["parent_checkpoint_id"],
                _parse_metadata(row["metadata"]).get("source") == "input",
                partial(self._read_time, thread, row["checkpoint_id"]),
            )
            for row in rows
        ]

    def _read_time(self, thread: str, checkpoint: str) -> datetime:
        told = parse_checkpoint_time(checkpoint)
        return told or datetime.fromisoformat(self._read_tuple(thread, checkpoint).checkpoint["ts"])

    def _read_tuple(self, thread: str, checkpoint: str) -> Any:
        return self.saver.get_tuple(_build_config(thread, checkpoint))

    def _make_standalone(self, thread: str, checkpoints: list[str]) -> None:
        """Have these checkpoints hold all their values themselves."""
        for name in checkpoints:
            saved = self._read_tuple(thread, name)
            if find_lost_values(self.saver, saved.config, saved.parent_config):
                raise NotPrunableError(_CUT_OFF)
            filled = fill_shared_values(self.saver, saved)
            if filled is None:
                raise NotPrunableError(_FOREIGN)
            metadata = dict(saved.metadata)
            counted = {k: v for k, v in metadata.pop(COUNTERS, {}).items() if k not in filled}
            told: Any = {**metadata, **({COUNTERS: counted} if counted else {})}
            checkpoint = saved.checkpoint
            self.saver.put(_build_config(thread), checkpoint, told, checkpoint["channel_versions"])
            self._run(
                "UPDATE checkpoints SET parent_checkpoint_id = NULL"
                " WHERE thread_id = ? AND checkpoint_ns = '' AND checkpoint_id = ?",
                thread, name,
            )  # fmt: skip

    def _remove(self, thread: str, kept: set[str], gone: set[str]) -> None:
        own = " WHERE thread_id = ? AND checkpoint_ns = ''"
        self._delete("checkpoints" + own, [thread], "checkpoint_id", gone)
        writes = self.tables[-1]
        written = self._run(f"SELECT DISTINCT checkpoint_id FROM {writes}{own}", thread)
        lost = {row["checkpoint_id"] for row in written} - kept
        self._delete(f"{writes}{own}", [thread], "checkpoint_id", lost)

    def _delete(
        self, where: str, values: Sequence[object], column: str, gone: Collection[object]
    ) -> None:
        names = [*gone]
        for begin in range(0, len(names), _AT_ONCE):
            some = names[begin : begin + _AT_ONCE]
            marks = ", ".join("?" * len(some))
            self._run(f"DELETE FROM {where} AND {column} IN ({marks})", *values, *some)

    def _forget_inner(self, thread: str, oldest: str) -> int:
        """Remove what tasks saved in steps before the oldest checkpoint that stays."""
        found = self._run(
            "SELECT checkpoint_ns AS place, max(checkpoint_id) AS newest FROM checkpoints"
            " WHERE thread_id = ? AND checkpoint_ns <> '' GROUP BY checkpoint_ns",
            thread,
        )
        gone = [
            row["place"] for row in found
            if row["newest"] < oldest and _TASK in row["place"].partition("|")[0]
        ]  # fmt: skip
        for table in self.tables:
            self._delete(f"{table} WHERE thread_id = ?", [thread], "checkpoint_ns", gone)
        return len(gone)

    def _forget_calls(self, thread: str, kept: set[str]) -> int:
        """Remove from the journal what was recorded of turns of which nothing stays."""
        if JOURNAL not in self.beside:
            return 0
        values = (self._read_tuple(thread, name).checkpoint["channel_values"] for name in kept)
        turns = {str(unpack_fields(value).get("turn_id", "")) for value in values}
        rows = self._run(
            "SELECT seq, kind, name, body FROM loopwright_journal WHERE thread = ?"
            " AND (kind = 'turn' OR (kind = 'intent' AND state = 'closed'))",
            make_storable(thread),
        )
        ended = [row["seq"] for row in rows if _get_turn(row) not in turns]
        self._delete("loopwright_journal WHERE thread = ?", [make_storable(thread)], "seq", ended)
        return len(ended)

    def _forget_results(self, thread: str) -> int:
        """Remove long results that nothing of the thread names any more."""
        if STORE not in self.beside:
            return 0
        place = ".".join(results_of(thread))
        rows = self._run("SELECT key FROM store WHERE prefix = ?", place)
        if not rows:
            return 0
        recorded = select_bodies(self.execute, thread) if JOURNAL in self.beside else ()
        told = "\n".join(iterate_thread_texts(self.saver, thread, recorded))
        lost = [row["key"] for row in rows if row["key"] not in told]
        self._delete("store WHERE prefix = ?", [place], "key", lost)
        return len(lost)


def iterate_thread_texts(
    saver: BaseCheckpointSaver[Any], thread: str, recorded: Iterable[str]
) -> Iterator[str]:
    """All that is still saved of a thread, as text, and what is recorded of it."""
    for saved in saver.list({"configurable": {"thread_id": thread}}):
        yield repr(saved.checkpoint["channel_values"])
        yield repr(saved.pending_writes)
    yield from recorded


def _build_config(thread: str, checkpoint: str | None = None) -> RunnableConfig:
    named = {"checkpoint_id": checkpoint} if checkpoint else {}
    return {"configurable": {"thread_id": thread, "checkpoint_ns": "", **named}}


def _parse_metadata(metadata: Any) -> Mapping[str, Any]:
    """Metadata as a database gives them: as JSON, or read already."""
    found = metadata if isinstance(metadata, Mapping) else json.loads(metadata or "{}")
    return found if isinstance(found, Mapping) else {}


def _get_turn(row: Mapping[str, Any]) -> str:
    """The turn in which something was recorded."""
    if row["kind"] == "turn":
        return str(row["name"]).split(" ", maxsplit=1)[0]
    return str(json.loads(decode_body(row["body"]))["turn"])

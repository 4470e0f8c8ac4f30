"""The journal as the event loop uses it: nothing blocks, and who is cancelled leaves no claim."""

import asyncio
import json
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from typing import Any, Final, TypeVar, cast

from ...state.errors import DatabaseError
from ...state.outcome import Spend
from ...text.canonical import make_storable_json
from ..base.worker_threads import find_executor
from . import intents
from .port import Change, End, Fence, Intent, Journal, Row, UsageRecord, Verdict, Wish, Word
from .sql import MemoryJournal

T = TypeVar("T")

_LARGEST_RESULT: Final = 1_000_000
"""Characters of JSON; what a model is shown is far below, the rest is a tool's raw data."""

_LONGEST_REST: Final = 5.0
"""Seconds; a tool that is cancelled gets two to stop, and then its end is written down."""

_THREADS_KNOWN: Final = 20_000
"""Threads of whose turns the counts are kept in memory: more than one process runs at once."""

_under_way: set[tuple[str, str, str]] = set()
"""Thread, turn and name of the calls of this process that have not ended, whatever their run did:
a claimed row of any other is a crash's."""

KNOWN_IN: Final[ContextVar[str]] = ContextVar("loopwright_known_in")
"""The identity of the running node's journal."""


class Recorder:
    """A journal and what a process remembers beside it; safe to use from any event loop."""

    def __init__(
        self, journal: Journal | None = None, *, late: Callable[[], Journal] | None = None
    ) -> None:
        """Use this journal, as others may, or what `late` gives with the first use.

        Without either, one in memory.
        """
        self._journal = journal if journal or late else MemoryJournal()
        self._late = late
        self._wished = set[str]()
        self._tabs: dict[str, dict[str, UsageRecord]] = {}
        self._ahead: dict[str, dict[str, UsageRecord]] = {}

    @property
    def journal(self) -> Journal:
        """The journal; one that is late may block while it is opened."""
        if self._journal is None and self._late is not None:
            self._journal = self._late()
        return cast("Journal", self._journal)

    @property
    def durable(self) -> bool:
        """Whether it outlives the process, as one that is late mostly does."""
        return self._journal is None or self._journal.durable

    @property
    def identity(self) -> str:
        """Which journal in memory it is; "" of one in a database, which every process reads."""
        return str(getattr(self._journal, "identity", ""))

    @contextmanager
    def mark_under_way(self, thread: str, intent: Intent) -> Iterator[None]:
        """A call that is not over before the end of the block: nobody may think that it crashed."""
        mark = (thread, intent.turn, intent.name)
        _under_way.add(mark)
        try:
            yield
        finally:
            _under_way.discard(mark)

    async def begin(
        self, thread: str, intent: Intent, word: Word | None = None, fence: Fence | None = None
    ) -> Verdict:
        """See `intents.begin`. A cancelled caller leaves things as they were."""
        undo: list[Change] = []

        def work(rows: Sequence[Row]) -> tuple[Verdict, Change]:
            verdict, change = intents.begin(rows, intent, word)
            undo[:] = [intents.invert_change(rows, change)]
            return verdict, change

        def undo_claim(journal: Journal) -> None:
            # The call is never made: left behind, its row would say "maybe".
            journal.transact(thread, lambda _: (None, undo[-1]))

        names = [intent.name, *intent.before]
        return await self._run_shielded(
            lambda journal: journal.transact(thread, work, names=names, fence=fence), undo_claim
        )

    async def preview_verdicts(self, thread: str, calls: Sequence[Intent]) -> list[Verdict]:
        """What `begin` would say of each of these calls now; nothing is recorded."""
        names = [name for intent in calls for name in (intent.name, *intent.before)]
        rows = await self.rows(thread, names)
        return [intents.begin(rows, intent)[0] for intent in calls]

    async def end(self, thread: str, row: Row, ending: End) -> None:
        """See `intents.end`; of a result above 1 MB only texts and numbers are kept."""
        kept = End(ending.how, None if ending.result is None else _shorten_result(ending.result))
        work = partial(intents.end, sent=row, ending=kept)
        await self._run_shielded(lambda journal: journal.transact(thread, work, names=[row.name]))

    async def give_up(self, thread: str, word: Word) -> None:
        """See `intents.give_up`."""
        work = partial(intents.give_up, word=word)
        await self._run_shielded(lambda journal: journal.transact(thread, work))

    async def release(
        self,
        thread: str,
        *,
        turn: str,
        place: str,
        keeps: Callable[[Row], bool],
        nested: bool = True,
        anywhere: bool = False,
        fence: Fence | None = None,
        **how: bool,
    ) -> list[Row]:
        """See `intents.release`; waits at most 5 s until no call of the turn is under way.

        `nested`: graphs inside belong to its `place`. `anywhere`: other graphs of the place take
        over what does not stay. `how`: `back`, `ended` and `told`.
        """
        deadline = time.monotonic() + _LONGEST_REST
        # A copy each time: other threads add to it and take from it.
        while any(mark[:2] == (thread, turn) for mark in tuple(_under_way)):
            if time.monotonic() > deadline:
                break
            await asyncio.sleep(0.05)
        beside = {name for at, other, name in tuple(_under_way) if at == thread and other != turn}

        def within(row: Row) -> bool:
            inside = nested and (not place or row.place.startswith(f"{place}|"))
            here = row.place.removesuffix(intents.ANYWHERE) == place
            return row.name not in beside and (here or inside)

        def work(rows: Sequence[Row]) -> tuple[list[Row], Change]:
            to = place if anywhere else None
            return intents.release(rows, keeps=keeps, within=within, anywhere=to, **how)

        return await self._run_shielded(lambda journal: journal.transact(thread, work, fence=fence))

    async def change_rows(
        self,
        name: str,
        work: Callable[[Sequence[Row]], tuple[T, Change]],
        fence: Fence | None = None,
    ) -> T:
        """Change what is kept under a name that is no thread's; see `Journal.transact`."""
        return await self._run_shielded(lambda journal: journal.transact(name, work, fence=fence))

    async def rows(self, thread: str, names: Collection[str] = ()) -> list[Row]:
        """The open rows of a thread, oldest first; with names those that `begin` would look at."""
        if not names:
            return await self._run_shielded(lambda journal: journal.rows(thread))
        return await self._run_shielded(
            lambda journal: journal.transact(thread, _read_rows, names=names)
        )

    async def list_uncertain(self, thread: str, *, told: bool = False) -> list[Row]:
        """The writes of which nobody knows whether they took effect, and no outcome has told.

        `told`: those as well of which one has.
        """
        busy = {name for at, _, name in tuple(_under_way) if at == thread}
        rows = await self.rows(thread)
        doubts = [row for row in rows if row.in_doubt and row.name not in busy]
        return [row for row in doubts if told or not row.told]

    async def raise_fence(self, name: str) -> Fence | None:
        """Keep out the runs before; None where no other process could have locked the name."""
        if not self.durable:
            return None
        return await self._run_shielded(lambda journal: journal.raise_fence(name))

    async def add_wish(self, thread: str, wish: Wish) -> None:
        """Put a wish behind those that wait for a run of the thread."""
        self._wished.add(thread)
        await self._run_shielded(lambda journal: journal.add_wish(thread, wish))

    async def list_wishes(self, thread: str) -> list[Wish]:
        """The wishes that wait, oldest first."""
        if not self.durable and thread not in self._wished:
            return []
        return await self._run_shielded(lambda journal: journal.list_wishes(thread))

    async def forget_wishes(self, thread: str, wishes: Collection[Wish]) -> None:
        """Forget these wishes."""
        names = [wish.name for wish in wishes]
        await self._run_shielded(lambda journal: journal.forget_wishes(thread, names))

    async def grant(self, thread: str, grant: Mapping[str, Any]) -> None:
        """Remember for the thread that a human allows calls like this; twice is once."""
        await self._run_shielded(lambda journal: journal.grant(thread, grant))

    async def grants(self, thread: str) -> list[dict[str, Any]]:
        """What a human has allowed for the thread, oldest first."""
        return await self._run_shielded(lambda journal: journal.grants(thread))

    def begin_usage(self, thread: str, turn: str) -> None:
        """A turn begins in this process: nothing of it is on record."""
        self._track_usage((thread, turn), UsageRecord())

    async def load_usage(self, thread: str, turn: str, spent: Spend) -> UsageRecord:
        """What a turn has taken in all its runs; asks the journal once for each turn.

        `spent` is what the state tells, where no crash has been counted yet.
        """
        told = self._tabs.get(thread, {}).get(turn)
        if told is None or not told.sure:
            told = told or UsageRecord(
                model_calls=spent.get("model_calls", 0), tool_calls=spent.get("tool_calls", 0),
                tokens=spent.get("input_tokens", 0) + spent.get("output_tokens", 0),
                usd=spent.get("usd") or 0.0,
            )  # fmt: skip
            if self.durable:
                await self._run_shielded(
                    partial(_merge_recorded_usage, turn=turn, thread=thread, tab=told)
                )
            self._track_usage((thread, turn), told)
        return told

    def expire_usage(self, thread: str) -> None:
        """A run takes a thread: since the one before others may have gone on with its turns."""
        if thread in self._tabs:
            last = {turn: tab for turn, tab in self._tabs[thread].items() if tab.sure}
            self._tabs[thread] = last
            for tab in last.values():
                tab.sure = False

    def close_usage(self, thread: str, turn: str) -> None:
        """Keep the usage record of a turn that nobody continues, even above the real use."""
        self._ahead.get(thread, {}).pop(turn, None)

    async def settle_usage(self, thread: str) -> None:
        """A run of the thread is over: its turns have taken what they have, and no more."""
        for tab in self._ahead.pop(thread, {}).values():
            await tab.settle()

    def _track_usage(self, known: tuple[str, str], tab: UsageRecord) -> None:
        while len(self._tabs) >= _THREADS_KNOWN and known[0] not in self._tabs:
            del self._tabs[next(iter(self._tabs))]
        if self.durable:
            writing = threading.Lock()
            recorded = dict(tab.leased)

            def write(journal: Journal, counts: Mapping[str, float]) -> None:
                with writing:
                    journal.write_counts(*known, {**recorded, **counts})
                    recorded.update(counts)

            async def write_down(counts: Mapping[str, float]) -> None:
                self._ahead.setdefault(known[0], {})[known[1]] = tab
                await self._run_shielded(partial(write, counts=counts))

            tab.write = write_down
        tab.sure = True
        self._tabs.setdefault(known[0], {})[known[1]] = tab

    async def _run_shielded(
        self, work: Callable[[Journal], T], undo: Callable[[Journal], object] | None = None
    ) -> T:
        """Finish the work in a worker thread, even if the caller is cancelled meanwhile.

        `undo` reverts it for a caller who will not get the result.
        """
        # Not a task: a loop that shuts down cancels those, and with them what is not begun yet.
        loop = asyncio.get_running_loop()
        hands = find_executor(self._journal)
        working = loop.run_in_executor(hands, lambda: work(self.journal))
        try:
            return await asyncio.shield(working)
        except asyncio.CancelledError:
            await _wait_until_done(working)
            if working.exception() is None and undo is not None:
                undoing = loop.run_in_executor(hands, undo, self.journal)
                await _wait_until_done(undoing)
                with suppress(DatabaseError):
                    undoing.result()
            raise


def _read_rows(rows: Sequence[Row]) -> tuple[list[Row], Change]:
    return [*rows], Change()


async def _wait_until_done(working: asyncio.Future[Any]) -> None:
    """Wait for it, however often the caller is cancelled: nothing may be written after that."""
    while not working.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait([working])


def _merge_recorded_usage(journal: Journal, thread: str, turn: str, tab: UsageRecord) -> None:
    """Use the saved usage of a turn if it is higher than the state's."""
    found = journal.read_counts(thread, turn)
    if found and found == tab.leased:  # by this process; of what it took it knows more
        return
    for name, told in tab.totals.items():
        tab.leased[name] = found.get(name, 0)
        setattr(tab, name, max(told, type(told)(tab.leased[name])))


def _shorten_result(result: Mapping[str, Any]) -> dict[str, Any]:
    body = json.dumps(make_storable_json(dict(result)), ensure_ascii=False, default=str)
    whole: dict[str, Any] = json.loads(body)
    if len(body) <= _LARGEST_RESULT:
        return whole
    return {k: v for k, v in whole.items() if v is None or isinstance(v, str | int | float)}

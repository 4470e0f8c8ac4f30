"""One change at a time for each subject of a policy table, such as an order or a customer.

A subject is locked like a thread, from before its facts are read until its change is done. Before
the change is sent, a note under the subject names the thread and the key of its row in the journal.
If a later call finds a note without a lock, it reads that row: if nobody knows whether that change
was made, the facts may be incomplete, and no other change is sent.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from ..state.calls import UNCERTAIN
from ..state.errors import ThreadBusy
from ..store.journal.port import Change, Fence, Row
from ..store.locks.thread_locks import build_lock_name, lock_thread
from ..text.canonical import hash_of
from ..text.sentences import say
from ..turn.scope import RunScope
from .call_records import Call
from .journal import find_word

if TYPE_CHECKING:
    from .path import PassScope, Then

_PATIENCE: Final = 60.0
"""Seconds that others are waited for; the lease of a process that was killed lasts for 30."""


@dataclass
class Subject:
    """What a call changes, while no other call may; its name is that of no thread.

    Attributes:
        scope: The run that holds it.
        name: Under which it is locked, and notes are kept.
        fence: What a note must show; None where the lock cannot be lost.
        noted: A change was sent.
    """

    scope: RunScope
    name: str
    fence: Fence | None = None
    noted: bool = False

    async def find_unsettled(self, work: "PassScope", call: Call) -> Row | None:
        """An uncertain change that blocks this call; spare, if this thread may ask about it.

        If it is the same call, or a human has decided it, the journal handles it.
        """
        book = work.book
        for note in await self.scope.journal.rows(self.name):
            rows = await self.scope.journal.rows(note.name)
            row = next((row for row in rows if row.key == note.key and row.in_doubt), None)
            if row is None:
                continue
            if note.name != book.thread:
                return replace(row, spare=False)
            (verdict,) = await book.look_up([book.build_intent(call)])
            word = find_word(call)
            if row.key not in (verdict.row.key, word and word.key):
                return row
        return None

    async def note(self, call: Call) -> None:
        """Note that a call is about to be sent; raises ThreadBusy where others hold the subject."""
        self.noted = True
        row = Row(
            name=self.scope.journal_thread, place="", turn=self.scope.turn, task="", call=call.id,
            tool="", server=None, arguments={}, content="", key=call.key,
        )  # fmt: skip
        await self._keep_only(row)

    async def forget(self, call: Call) -> None:
        """Forget the note of a call whose end is known; who holds the subject now needs it not."""
        if self.noted and call.result is not None and call.reason != UNCERTAIN:
            with suppress(ThreadBusy):
                await self._keep_only()

    async def _keep_only(self, *notes: Row) -> None:
        names = {note.name for note in notes}

        def work(rows: Sequence[Row]) -> tuple[None, Change]:
            return None, Change(notes, [row.name for row in rows if row.name not in names])

        await self.scope.journal.change_rows(self.name, work, self.fence)


@asynccontextmanager
async def hold_subject(
    scope: RunScope, subject: Any, *, waits: bool
) -> AsyncIterator[Subject | None]:
    """Hold a subject for a block; None where others do, for as long as anybody waits."""
    held, locked_by = None, scope.run.locked_by
    name = build_lock_name("", f"subject {hash_of(subject)}")
    async with AsyncExitStack() as stack:
        try:
            lock = lock_thread(locked_by, name, _PATIENCE if waits else 0)
            await stack.enter_async_context(lock)
        except ThreadBusy:
            pass
        else:
            token = getattr(await asyncio.to_thread(locked_by), "token", lambda _: None)(name)
            held = Subject(scope, name, None if token is None else Fence(name, token))
        yield held


async def note_change(_: "PassScope", call: Call, then: "Then") -> None:
    """Send a change once it is noted under its subject, unless others hold that by now."""
    if call.subject is not None:
        try:
            await call.subject.note(call)
        except ThreadBusy:  # this process was frozen for longer than its lease
            return call.deny(say("policy_busy"))
    return await then(call)

"""Answers that are still good: an identical read of the same user turn is answered from memory.

Every call goes through `ReadCache.look_up`, writes too: they end what is known about their server.
Equal reads at the same time are one: those of one message also share a failure, which is not
kept for later ones.
"""

import asyncio
import copy
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from ..state.calls import UNCERTAIN
from ..state.context import Context
from ..text.canonical import canonical
from ..text.sentences import say
from ..tools.catalog import CatalogTool
from .call_records import Call
from .results import ToolResult

if TYPE_CHECKING:
    from .wrapper import PassScope, Then

_MOST: Final = 200
"""Results kept for one user turn; the oldest go first."""

_Key = tuple[str | None, str, str]


def is_reusable(tool: CatalogTool, context: Context) -> bool:
    """Whether results of a tool may be reused: declared reads, or with `all` undeclared tools."""
    if context.dedupe == "off" or not tool.cacheable or tool.polls:
        return False
    return tool.read_only or (context.dedupe == "all" and not tool.declared)


@dataclass(frozen=True)
class KnownResult:
    """A result that was given before: under which evidence id, and when."""

    id: str
    result: ToolResult
    stored: str
    at: float
    age: float = 0.0
    """In seconds, when it was found again."""

    def mark_reused(self) -> ToolResult:
        """The result, its first line saying that it is reused and how to ask again."""
        age = f"{self.age:.0f}"
        text = say("reused", evidence=self.id, seconds=age, result=self.result.text)
        artifact = {**self.result.artifact, "reused_from": self.id}
        return replace(self.result, text=text, artifact=artifact, media=())


@dataclass
class CacheLookup:
    """One call's way through the memory: what is known, and what its own result changes."""

    memory: "ReadCache"
    server: str | None
    known: KnownResult | None = None
    failed: Call | None = None
    """An equal call of the same message that ended in vain."""
    key: _Key | None = None
    """Under which its result may be kept."""
    writes: int = 0
    """How often its server had been written to when it began."""
    made: Call | None = None
    """The call itself as it ended, where its tool was called."""

    def answer(self, call: Call, *, plain: bool) -> bool:
        """Whether the answer is known already; `plain` for a program that reads it, not a model."""
        if self.failed is not None:
            _fail_too(call, self.failed, plain=plain)
            return True
        if self.known is None:
            return False
        call.result = self.known.result if plain else self.known.mark_reused()
        call.stored, call.reused_from = self.known.stored, self.known.id
        return True

    def keep(self, call: Call) -> None:
        """Remember what the call gave, as it is shown; errors are never remembered."""
        self.made = copy.copy(call) if call.ran else None
        if self.key is None:
            self.memory.unsettled |= {self.server} if call.reason == UNCERTAIN else set()
        elif not call.outcome.is_error:
            self.memory.save_result(self.key, self.writes, call.id, call.outcome, call.stored)


@dataclass(frozen=True)
class _Twin:
    """A call that runs now: of which message, and what becomes of it, None where nothing ran."""

    message: object
    end: asyncio.Future[Call | None]


class ReadCache:
    """What the reads of one user turn gave, for its tasks together."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Start empty; the clock gives seconds that only go forward."""
        self.unsettled: set[str | None] = set()
        """Servers through which a write may still be going on: what they say is not kept."""
        self._clock = clock
        self._entries: dict[_Key, KnownResult] = {}
        self._writes: dict[str | None, int] = {}
        self._running: dict[tuple[asyncio.AbstractEventLoop, _Key], _Twin] = {}

    @asynccontextmanager
    async def look_up(
        self,
        tool: CatalogTool,
        args: Mapping[str, Any],
        *,
        context: Context,
        user_id: str | None = None,
        again: bool = False,
        message: object = None,
    ) -> AsyncIterator[CacheLookup]:
        """Go through the memory with a call; to be held until its result is kept.

        An identical call that runs now is waited for. Who asks for a fresh result waits only for
        one of the same `message`, and is answered with it. A call that is no read, and may not be
        reused like one, makes everything its server said out of date, before and after it; one
        that raises may still be going on.
        Users never see each other's results, nor what was read for other data of the application.
        """
        server = tool.server
        if is_reusable(tool, context):
            told = [user_id, context.resource_id, context.task_id, context.tool_context]
            key = (server, tool.content(dict(args)), canonical(told))
            async with self._look_up_read(key, context.dedupe_seconds, message, again=again) as use:
                yield use
        elif tool.read_only:
            yield CacheLookup(self, server)
        else:
            self.invalidate_server(server)
            try:
                yield CacheLookup(self, server)
            except BaseException:
                self.unsettled.add(server)
                raise
            finally:
                self.invalidate_server(server)

    def invalidate_server(self, server: str | None) -> None:
        """Forget what a server said: something was written through it. Python tools are one."""
        self._writes[server] = self._writes.get(server, 0) + 1
        for key in [key for key in self._entries if key[0] == server]:
            self._entries.pop(key, None)

    def save_result(
        self, key: _Key, writes: int, id_: str, result: ToolResult, stored: str
    ) -> None:
        """Remember a result, unless something was written through its server meanwhile."""
        if self._writes.get(key[0], 0) != writes or key[0] in self.unsettled:
            return
        self._entries.pop(key, None)
        # What the call changed in the graph's state is changed: reading again changes nothing.
        self._entries[key] = KnownResult(id_, replace(result, update={}), stored, self._clock())
        for oldest in list(self._entries)[:-_MOST]:
            self._entries.pop(oldest, None)

    def _find_entry(self, key: _Key, most: float) -> KnownResult | None:
        entry = self._entries.get(key)
        if entry is None:
            return None
        age = self._clock() - entry.at
        return replace(entry, age=age) if age <= most else None

    @asynccontextmanager
    async def _look_up_read(
        self, key: _Key, most: float, message: object, *, again: bool
    ) -> AsyncIterator[CacheLookup]:
        """Go through the memory with a call whose result may be kept there."""
        place = (asyncio.get_running_loop(), key)
        alone, failed = await self._wait_for_twin(place, message, again=again)
        known = None if again and alone else self._find_entry(key, most)
        use = CacheLookup(self, key[0], known, failed, key, self._writes.get(key[0], 0))
        if place in self._running or not alone:
            yield use
            return
        self._running[place] = twin = _Twin(message, place[0].create_future())
        try:
            yield use
        finally:
            del self._running[place]
            twin.end.set_result(use.made)

    async def _wait_for_twin(
        self, place: tuple[asyncio.AbstractEventLoop, _Key], message: object, *, again: bool
    ) -> tuple[bool, Call | None]:
        """Wait for an identical call that runs now.

        Returns:
            Whether there was none to wait for, and how one of the same message ended in vain.
            Should one of another message fail, those that waited all run.
        """
        while (twin := self._running.get(place)) is not None:
            ours = twin.message is message
            if again and not ours:
                break
            made = await asyncio.shield(twin.end)
            if made is not None or not again:
                return False, made if ours and made and made.final_status == "error" else None
        return True, None


def _fail_too(call: Call, made: Call, *, plain: bool) -> None:
    """Answer a read as its twin was answered, which failed."""
    result = made.outcome
    if not plain:
        result = replace(result, text=say("failed_too", evidence=made.id, result=result.text))
    call.result, call.end_status, call.reason = result, made.end_status, made.reason
    call.stored, call.reused_from = made.stored, made.id


async def reuse_result(work: "PassScope", call: Call, then: "Then") -> None:
    """Answer a call from memory, or make it and remember what it gave."""
    memory = work.memory or ReadCache()
    async with memory.look_up(
        call.known_tool, call.args, context=work.scope.context, user_id=work.scope.user,
        again=call.again, message=work,
    ) as use:  # fmt: skip
        if not use.answer(call, plain=work.plain):
            await then(call)
            if call.doubt is None:
                use.keep(call)

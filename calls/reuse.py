"""Answers that are still good: an identical read of the same user turn is answered from memory.

Every call goes through `ReadCache.run`, writes too: they end what is known about their server.
Equal reads at the same time are one; those of one message also share a failure, which the
memory does not keep.
"""

import asyncio
import copy
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from ..state.calls import UNCERTAIN
from ..state.context import Context
from ..text.canonical import canonical
from ..text.sentences import say
from ..tools.catalog import CatalogTool
from .call_records import Call
from .results import ToolResult

if TYPE_CHECKING:
    from .path import PassScope, Then

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
        told = say("reused", evidence=self.id, seconds=age, result=self.result.text)
        artifact = {**self.result.artifact, "reused_from": self.id}
        return replace(self.result, to_model=told, artifact=artifact, media=())


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

    async def run(
        self,
        call: Call,
        make: Callable[[Call], Awaitable[None]],
        *,
        context: Context,
        user_id: str | None = None,
        message: object = None,
        plain: bool = False,
    ) -> None:
        """Answer a call from memory, or make it and remember what it gave.

        An identical call that runs now is waited for. A call for a fresh result waits only for one
        of the same `message`, and is answered with its result. A call that may not be reused, and
        is no read, makes everything that its server said out of date, before and after it; if it
        raises, it may still be going on. `plain` is for a program that reads the result, not a
        model. Users never see each other's results, nor what was read for other data of the
        application.
        """
        tool = call.known_tool
        if is_reusable(tool, context):
            about = [user_id, context.resource_id, context.task_id, context.tool_context]
            key = (tool.server, tool.content(dict(call.args)), canonical(about))
            await self._run_read(key, call, make, context.dedupe_seconds, message, plain=plain)
        elif tool.read_only:
            await make(call)
        else:
            await self._run_write(tool.server, call, make)

    async def _run_write(
        self, server: str | None, call: Call, make: Callable[[Call], Awaitable[None]]
    ) -> None:
        self.invalidate_server(server)
        try:
            await make(call)
        except BaseException:
            self.unsettled.add(server)
            raise
        finally:
            self.invalidate_server(server)
        if call.doubt is None and call.reason == UNCERTAIN:
            self.unsettled.add(server)

    def invalidate_server(self, server: str | None) -> None:
        """Forget what a server said: something was written through it. Python tools are one."""
        self._writes[server] = self._writes.get(server, 0) + 1
        for key in [key for key in self._entries if key[0] == server]:
            self._entries.pop(key, None)

    def _save_result(self, key: _Key, writes: int, call: Call) -> None:
        """Remember a result, unless it is an error, or something was written meanwhile."""
        server, result = key[0], call.outcome
        if result.is_error or self._writes.get(server, 0) != writes or server in self.unsettled:
            return
        self._entries.pop(key, None)
        # What the call changed in the graph's state is changed: reading again changes nothing.
        kept = replace(result, update={})
        self._entries[key] = KnownResult(call.id, kept, call.stored, self._clock())
        for oldest in list(self._entries)[:-_MOST]:
            self._entries.pop(oldest, None)

    def _find_entry(self, key: _Key, most: float) -> KnownResult | None:
        entry = self._entries.get(key)
        if entry is None:
            return None
        age = self._clock() - entry.at
        return replace(entry, age=age) if age <= most else None

    async def _run_read(
        self,
        key: _Key,
        call: Call,
        make: Callable[[Call], Awaitable[None]],
        most: float,
        message: object,
        *,
        plain: bool,
    ) -> None:
        place, waited = (asyncio.get_running_loop(), key), False
        while (twin := self._running.get(place)) is not None and not waited:
            ours = twin.message is message
            if call.again and not ours:
                break
            made = await asyncio.shield(twin.end)
            waited = made is not None or not call.again
            if waited and ours and made and made.final_status == "error":
                return _fail_too(call, made, plain=plain)
        if (waited or not call.again) and (known := self._find_entry(key, most)):
            call.result = known.result if plain else known.mark_reused()
            call.stored, call.reused_from = known.stored, known.id
            return None
        # If a twin of another message failed, all that waited for it run side by side.
        own = None if waited or place in self._running else _Twin(message, place[0].create_future())
        if own is not None:
            self._running[place] = own
        writes, made = self._writes.get(key[0], 0), None
        try:
            await make(call)
            made = copy.copy(call) if call.ran else None
            self._save_result(key, writes, call)
        finally:
            if own is not None:
                del self._running[place]
                own.end.set_result(made)
        return None


def _fail_too(call: Call, made: Call, *, plain: bool) -> None:
    """Answer a read as its twin was answered, which failed."""
    result = made.outcome
    if not plain:
        told = say("failed_too", evidence=made.id, result=result.to_model or result.text)
        result = replace(result, to_model=told)
    call.result, call.end_status, call.reason = result, made.end_status, made.reason
    call.stored, call.reused_from = made.stored, made.id


async def reuse_result(work: "PassScope", call: Call, then: "Then") -> None:
    """Answer a call from memory, or make it and remember what it gave."""
    memory = work.memory or ReadCache()
    await memory.run(
        call, then, context=work.scope.context, user_id=work.scope.user, message=work,
        plain=work.plain,
    )  # fmt: skip

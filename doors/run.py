"""One run of a graph: as it is asked for, and where its thread stands."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.types import Command, Interrupt

from ..state.context import SESSION_KEY, OpenSession
from ..state.journal import FENCE_KEY, Fence
from . import langgraph_keys as keys
from .head import Head, inner_places, open_questions
from .locks import Held, LockedBy, lock_name, thread_lock

# Ours; LangGraph keeps what begins with two underscores out of a checkpoint's metadata.
_HELD: Final = "__loopwright_held"


@dataclass(frozen=True, slots=True)
class Run:
    """One run as asked for, or as the doors let it through."""

    input: Any
    config: RunnableConfig | None
    options: dict[str, Any]
    configurable: Mapping[str, Any]
    saver: BaseCheckpointSaver[Any] | None

    @property
    def nested(self) -> bool:
        """Whether the graph runs as a node of another one, which answers for the thread."""
        return keys.TASK in self.configurable

    @property
    def thread(self) -> str:
        """The thread's id as a saver knows it; '' where the caller named none."""
        thread = self.configurable.get("thread_id")
        return "" if thread is None else str(thread)

    @property
    def resumes(self) -> bool:
        """Whether the caller wants to go on with what is saved."""
        command = self.input
        return command is None or (isinstance(command, Command) and command.resume is not None)

    @property
    def addressed(self) -> bool:
        """Whether the run names a checkpoint instead of taking the newest."""
        return not self.nested and bool(self.configurable.get("checkpoint_id"))

    def repeats(self, head: Head) -> bool:
        """Whether a server calls again, after a crash, the run that saved this checkpoint."""
        given = {**self.configurable, **(self.config or {}).get("metadata", {})}.get("run_id")
        return given is not None and str(given) == str(head.saved.metadata.get("run_id"))

    def where(self, inner: str = "") -> RunnableConfig:
        """The config under which the saver finds the checkpoint the run starts from.

        Args:
            inner: the namespace of a graph inside one of its tasks, if that is wanted.
        """
        place: dict[str, Any] = {**self.configurable, "thread_id": self.thread}
        if inner:
            place["checkpoint_ns"] = inner
        elif not self.nested:
            place["checkpoint_ns"] = ""
        return {"configurable": place}

    def hold(self, locked_by: LockedBy | None) -> AbstractAsyncContextManager[Held | None]:
        """Keep other runs out of the thread, unless a run around this one does so.

        A graph inside somebody else's graph, whose runs nobody keeps apart, holds its own part.

        Args:
            locked_by: gives the saver by whose rules threads are locked, if it is not the run's.
        """
        if self.saver is None or not self.thread:
            return nullcontext()
        if self.nested and self.configurable.get(_HELD) == self.thread:
            return nullcontext()
        return thread_lock(locked_by or self.saver, self.thread, self._part)

    @property
    def locked(self) -> str:
        """What `hold` locks, as one name."""
        return lock_name(self.thread, self._part)

    @property
    def _part(self) -> str:
        """The checkpoint namespace of a graph that has only a part of the thread."""
        return str(self.configurable.get("checkpoint_ns", "")) if self.nested else ""

    def fenced(self, fence: Fence | None) -> "Run":
        """The run, telling its nodes and the graphs inside it what its claims must show."""
        return self._telling(FENCE_KEY, fence)

    def held(self) -> "Run":
        """The run, telling the graphs inside it that its thread is held."""
        return self._telling(_HELD, self.thread)

    @asynccontextmanager
    async def session(self, opened: OpenSession | None) -> AsyncIterator["Run"]:
        """Put something around a run of the whole graph; its nodes can read what that brought."""
        if opened is None or self.nested:
            yield self
            return
        source = "startup" if await self.head() is None else "resume"
        async with opened(self.thread, source) as session:
            yield self._telling(SESSION_KEY, session)

    def _telling(self, key: str, value: object) -> "Run":
        """The run, telling its nodes and the graphs inside it what was settled at its door."""
        given = self.config or {}
        config = {**given, "configurable": {**given.get("configurable", {}), key: value}}
        return replace(self, config=cast("RunnableConfig", config))

    async def head(self) -> Head | None:
        """The checkpoint the run starts from, if there is one."""
        if self.saver is None or not self.thread:
            return None
        saved = await self.saver.aget_tuple(self.where())
        return None if saved is None else Head(saved)

    async def questions(self, head: Head) -> list[Interrupt]:
        """The questions that are open; at an older checkpoint those that were."""
        if self.saver is None or self.addressed:
            return head.interrupts()
        inner: dict[str, Head] = {}
        for place in set[str]().union(*inner_places(head).values()):
            if saved := await self.saver.aget_tuple(self.where(place)):
                inner[place] = Head(saved)
        return open_questions(head, inner)

"""One run of a graph: as it is asked for, where its thread stands, and what it holds."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, Interrupt, StateSnapshot, StateUpdate

from ..state.channels import unpack_fields
from ..state.context import SESSION_KEY, OpenSession
from ..store.base import langgraph_keys as keys
from ..store.checkpoints.thread_head import ThreadHead, find_inner_namespaces, find_open_questions
from ..store.durability import Saver, get_saver_locks
from ..store.locks.thread_locks import HeldLock, LockedBy, LockEntry, build_lock_name, lock_thread

HELD_KEY: Final = "__loopwright_held"
"""Where graphs inside a run find what it holds; kept out of metadata as FENCE_KEY."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run as asked for, or as the doors let it through."""

    input: Any
    config: RunnableConfig
    options: dict[str, Any]
    configurable: Mapping[str, Any]
    saver: BaseCheckpointSaver[Any] | None
    customer: bool = False  # who answers no question that is put to the operator

    @property
    def is_nested(self) -> bool:
        """Whether the graph runs as a node of another one, which answers for the thread."""
        return keys.TASK in self.configurable

    @property
    def thread(self) -> str:
        """The thread's id as a saver knows it; '' if the caller gave none."""
        thread = self.configurable.get("thread_id")
        return "" if thread is None else str(thread)

    @property
    def is_resume(self) -> bool:
        """Whether the caller wants to continue the saved turn."""
        command = self.input
        return command is None or (isinstance(command, Command) and command.resume is not None)

    @property
    def is_controllable(self) -> bool:
        """Whether others can wish something of it: it has a thread to itself."""
        return not self.is_nested and self.saver is not None and bool(self.thread)

    @property
    def has_checkpoint_id(self) -> bool:
        """Whether the run names a checkpoint instead of taking the newest."""
        return not self.is_nested and bool(self.configurable.get("checkpoint_id"))

    async def is_repeat(self, head: ThreadHead, *, client: bool) -> bool:
        """Whether a server calls a run again, after a crash, that has begun before.

        Another run may have come between, so the newest checkpoint need not be its own.
        """
        given = {**self.configurable, **self.config.get("metadata", {})}.get("run_id")
        if given is None or self.saver is None:
            return False
        if str(given) == str(head.saved.metadata.get("run_id")):
            return True
        if self.has_checkpoint_id or not client:
            return False
        place = RunnableConfig(configurable={"thread_id": self.thread, "checkpoint_ns": ""})
        async for _ in self.saver.alist(place, filter={"run_id": str(given)}, limit=1):
            return True
        return False

    def make_saver_config(self, inner: str = "") -> RunnableConfig:
        """The config of the checkpoint the run starts from, or of a graph `inner` to it."""
        place: dict[str, Any] = {**self.configurable, "thread_id": self.thread}
        if inner:
            place["checkpoint_ns"] = inner
        elif not self.is_nested:
            place["checkpoint_ns"] = ""
        return {"configurable": place}

    def hold(
        self, locked_by: LockedBy | None, wait: float = 0
    ) -> "AbstractAsyncContextManager[HeldLock | None]":
        """Keep other runs out of the thread, unless a run around this one does so."""
        if self.saver is None or not self.thread:
            return nullcontext()
        around = self.configurable.get(HELD_KEY)
        if isinstance(around, LockEntry) and around.covers(self.thread):
            return nullcontext()
        return lock_thread(self.find_locks(locked_by), self.lock_name, wait)

    def find_locks(self, locked_by: LockedBy | None) -> LockedBy:
        """What gives the locks of a thread that is saved: `locked_by`, or whatever saves it."""
        return locked_by or partial(get_saver_locks, cast("Saver", self.saver))

    @property
    def lock_name(self) -> str:
        """What `hold` locks: the thread.

        A graph inside somebody else's graph, whose runs nobody keeps apart, has a part of it.
        """
        within = self.is_nested or keys.SAVER in self.configurable
        part = self.configurable.get("checkpoint_ns") if within else None
        return build_lock_name(self.thread, part or "")

    @asynccontextmanager
    async def open_session(self, opened: OpenSession | None) -> AsyncIterator["Run"]:
        """Put something around a run of the whole graph; its nodes can read what that brought."""
        if opened is None or self.is_nested:
            yield self
            return
        source = "startup" if await self.read_head() is None else "resume"
        async with opened(self.thread, source) as session:
            yield self.with_configurable(SESSION_KEY, session)

    def with_configurable(self, key: str, value: object) -> "Run":
        """The run, telling its nodes and the graphs inside it what was settled at its door."""
        configurable = {**self.config.get("configurable", {}), key: value}
        return replace(self, config={**self.config, "configurable": configurable})

    async def read_head(self) -> ThreadHead | None:
        """The checkpoint the run starts from, if there is one."""
        if self.saver is None or not self.thread:
            return None
        saved = await self.saver.aget_tuple(self.make_saver_config())
        return None if saved is None else ThreadHead(saved)

    async def read_newest_head(self) -> ThreadHead | None:
        """The newest checkpoint where the run is saved, whichever it starts from."""
        if self.saver is None or not self.thread:
            return None
        place = self.configurable.get("checkpoint_ns") or ""
        saved = await self.saver.aget_tuple(
            {"configurable": {"thread_id": self.thread, "checkpoint_ns": place}}
        )
        return None if saved is None else ThreadHead(saved)

    async def list_questions(self, head: ThreadHead) -> list[Interrupt]:
        """The questions that are open; at an older checkpoint those that were."""
        if self.saver is None or self.has_checkpoint_id:
            return head.list_interrupts()
        return await self._list_open(head)

    async def _list_open(self, head: ThreadHead, around: str = "") -> list[Interrupt]:
        """Those that are open in a graph, which has this namespace."""
        inner: dict[str, set[str]] = {}
        saver = cast("BaseCheckpointSaver[Any]", self.saver)
        for place in set[str]().union(*find_inner_namespaces(head, around).values()):
            if saved := await saver.aget_tuple(self.make_saver_config(place)):
                inner[place] = {one.id for one in await self._list_open(ThreadHead(saved), place)}
        return find_open_questions(head, inner, around)


async def write_state(graph: Any, where: RunnableConfig, update: StateUpdate) -> None:
    """Write into the state of a thread that is held, which the graph's own door would hold."""
    await CompiledStateGraph.abulk_update_state(graph, where, [[update]])


async def read_whole_state(graph: Any, where: RunnableConfig) -> StateSnapshot:
    """The thread's state for the run's own eyes, whoever it runs for."""
    return await CompiledStateGraph.aget_state(graph, where)


async def read_saved_values(graph: Any, configurable: Mapping[str, Any]) -> dict[str, Any]:
    """What a graph that runs inside another one has in its state, as far as it is saved.

    Its own door refuses the keys that lead there.
    """
    state = await CompiledStateGraph.aget_state(graph, {"configurable": {**configurable}})
    fields = unpack_fields(state.values)
    return {k: [*v] if isinstance(v, list) else v for k, v in fields.items()}

"""The compiled graph whose sync and async doors all lead to nodes written once, async.

Around every run the doors adapt sync-only savers, refuse threads this graph cannot continue,
keep a thread to one run at a time, bring old state up to date, address answers and make writes
durable.
"""

import asyncio
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Generator,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from inspect import iscoroutinefunction
from typing import Any, Self, cast

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, StateGraph
from langgraph.store.base import BaseStore
from langgraph.types import Checkpointer, Command, StateSnapshot, StateUpdate
from langgraph.typing import ContextT, InputT, OutputT, StateT
from pydantic import ValidationError

from ..state.context import OpenSession
from ..state.errors import SettingsError, ThreadIncompatible, ThreadNotFound
from ..state.journal import FENCE_KEY, Fence
from ..state.messages import repairs
from ..state.migrations import SCHEMA_VERSION, migrate
from ..state.outcome import RESUMABLE
from ..state.shown import no_result
from . import langgraph_keys as keys
from .background import run_blocking, stream_blocking
from .checks import address_answer, check_input, in_words
from .compiled import Compiled
from .continuing import check_nodes, check_values, keep_order
from .durability import lend, with_async, with_async_store
from .head import CUT_OFF, Head, add, without_answered
from .locks import Held, LockedBy
from .message_stream import told_as_written
from .node_checks import at_once, spelled_right
from .outside import Bounded, check_keys, check_update, client_run, from_outside, withdraws
from .routing import read_less
from .run import HELD_KEY, Run

Fenced = Callable[[str], Awaitable[Fence | None]]
Node = Callable[..., Awaitable[Any]]


class LoopBuilder(StateGraph[StateT, ContextT, InputT, OutputT]):
    """A StateGraph that compiles to a LoopGraph, also where an engine compiles it.

    It refuses what LangGraph would silently lose.

    Attributes:
        writes: says whether tools that change the world are bound; then every step is saved
            before the next one starts.
        scratch: nodes whose subgraphs' checkpoints are of no use once a turn has ended.
        locked_by: gives what locks threads, where that is not the database they are saved in;
            called in a worker thread.
        session: what is put around each run of the whole graph, if anything.
        fenced: takes the name that a run has locked, and gives what its claims of writes must
            show; None where no other process could have locked it.
        graph: which one it is, of those whose roles are known.
        whole: all its nodes are its own, so that a thread which has been elsewhere is another's.
        served: a server loads the graph, so that whoever runs it is a client.
        bounded: brings a client's settings under those of the operator.
        told: puts around each node what numbers and keeps its events.
    """

    writes: Callable[[], bool] = staticmethod(lambda: False)
    scratch: tuple[str, ...] = ()
    locked_by: LockedBy | None = None
    session: OpenSession | None = None
    fenced: Fenced | None = None
    graph: str = ""
    whole: bool = False
    served: bool = False
    bounded: Bounded | None = None
    told: Callable[[Node], Node] | None = None

    def add_node(self, node: Any, action: Any = None, **options: Any) -> Self:
        """Add a node; see LangGraph, which drops a key that the state does not have.

        An async function that returns such a key raises StateKeyError.
        """
        if iscoroutinefunction(getattr(action, "func", action)):
            action = spelled_right(str(node), told_as_written(action), self.channels)
            action = self.told(action) if self.told else action
        return super().add_node(node, action, **options)

    def add_conditional_edges(self, source: str, path: Any, path_map: Any = None) -> Self:
        """Route by a function; see LangGraph, which would call a sync one in a worker thread."""
        return super().add_conditional_edges(source, at_once(path), path_map)

    def compile(
        self, checkpointer: Checkpointer = None, **options: Any
    ) -> "LoopGraph[StateT, ContextT, InputT, OutputT]":
        """Compile; see LangGraph. Sync-only savers and stores will do."""
        compiled = super().compile(checkpointer, **options)
        # LangGraph names the class it constructs; the instance is complete, only its doors differ.
        compiled.__class__ = LoopGraph
        read_less(compiled.nodes)
        graph = cast("LoopGraph[StateT, ContextT, InputT, OutputT]", compiled)
        graph.checkpointer, graph.store = graph.checkpointer, graph.store
        keys.typed_output(graph)
        return graph


class LoopGraph(Compiled[StateT, ContextT, InputT, OutputT]):
    """A compiled graph that can be called sync or async, from any thread and any event loop."""

    @property
    def ours(self) -> LoopBuilder[StateT, ContextT, InputT, OutputT]:
        """The builder, which knows what surrounds the runs."""
        return cast("LoopBuilder[StateT, ContextT, InputT, OutputT]", self.builder)

    @property
    def whole(self) -> bool:
        """See LoopBuilder."""
        return self.ours.whole

    @property
    def checkpointer(self) -> Checkpointer:
        """The saver, with async methods whatever was assigned."""
        return cast("Checkpointer", vars(self).get("checkpointer"))

    @checkpointer.setter
    def checkpointer(self, saver: Checkpointer) -> None:
        # Under its own name, because LangGraph's copy() reads the instance's __dict__.
        vars(self)["checkpointer"] = with_async(saver)

    @property
    def store(self) -> BaseStore | None:
        """The store, with async methods whatever was assigned."""
        return cast("BaseStore | None", vars(self).get("store"))

    @store.setter
    def store(self, store: BaseStore | None) -> None:
        vars(self)["store"] = with_async_store(store)

    def invoke(  # one signature for LangGraph's three overloads
        self, input: Any, config: RunnableConfig | None = None, **options: Any
    ) -> Any:
        """Run to the end, the next question or a drain; see `ainvoke`."""
        return run_blocking(self.ainvoke(input, config, **options))

    def stream(
        self, input: Any, config: RunnableConfig | None = None, **options: Any
    ) -> Generator[Any, None, None]:
        """Run and yield the events of the chosen `stream_mode`; see `astream`."""
        return stream_blocking(self.astream(input, config, **options))

    async def astream(
        self, input: Any, config: RunnableConfig | None = None, **options: Any
    ) -> AsyncIterator[Any]:
        """Run and yield the events of the chosen `stream_mode`.

        Every other way to run the graph ends here. Arguments are LangGraph's.

        Raises:
            ThreadNotFound: a resume of a thread nobody saved.
            ThreadIncompatible: the thread waits at a node or has a schema this graph lacks.
            ThreadBusy: another run of the thread has not ended.
            AnswerRejected: an answer that no pending question can take.
            SettingsError: a wrong context, or `durability="exit"` where tools write.
        """
        async with (
            self._door(input, config, options) as (run, held),
            aclosing(cast("Any", super().astream(run.input, run.config, **run.options))) as chunks,
        ):
            try:
                async for chunk in chunks:
                    yield chunk
            finally:
                if held is not None:
                    held.is_over()

    def get_state(self, config: RunnableConfig, *, subgraphs: bool = False) -> StateSnapshot:
        """The thread's state; see LangGraph."""
        return run_blocking(self.aget_state(config, subgraphs=subgraphs))

    async def aget_state(self, config: RunnableConfig, *, subgraphs: bool = False) -> StateSnapshot:
        """The thread's state; see LangGraph. Questions that were answered are left out."""
        run = self._run(None, config, {})
        check_keys(run.configurable, runs=False)
        state = await super().aget_state(run.config, subgraphs=subgraphs)
        if state.parent_config is not None:
            await check_values(run, state.config, state.parent_config)
        inner = run.nested or run.configurable.get("checkpoint_ns")
        if not state.interrupts or inner or run.addressed:
            return state
        head = await run.head()
        return state if head is None else without_answered(state, await run.questions(head))

    def get_state_history(self, config: RunnableConfig, **options: Any) -> Iterator[StateSnapshot]:
        """The thread's checkpoints, newest first; see LangGraph."""
        return stream_blocking(self.aget_state_history(config, **options))

    async def aget_state_history(
        self, config: RunnableConfig, **options: Any
    ) -> AsyncIterator[StateSnapshot]:
        """The thread's checkpoints, newest first; see LangGraph.

        It ends before those whose values were lost with older checkpoints.
        """
        run, newest = self._run(None, config, {}), True
        check_keys(run.configurable, runs=False)
        async for state in super().aget_state_history(run.config, **options):
            try:
                if state.parent_config is not None:
                    await check_values(run, state.config, state.parent_config)
            except ThreadIncompatible:
                if newest:
                    raise
                return
            newest = False
            yield state

    def bulk_update_state(
        self, config: RunnableConfig, supersteps: Sequence[Sequence[StateUpdate]]
    ) -> RunnableConfig:
        """Write into the thread's state; see LangGraph. A client of a server may not."""
        return run_blocking(self.abulk_update_state(self._lent(config), supersteps))

    async def abulk_update_state(
        self, config: RunnableConfig, supersteps: Sequence[Sequence[StateUpdate]]
    ) -> RunnableConfig:
        """Write into the thread's state; see LangGraph. A client of a server may not."""
        run = self._run(None, config, {})
        check_keys(run.configurable, runs=False)
        if self._is_client(run.configurable):
            check_update(supersteps)
        if (newest := await run.newest()) is not None:
            keep_order(run, newest)
            await check_values(run, newest.saved.config, newest.saved.parent_config)
        return await super().abulk_update_state(config, supersteps)

    def _is_client(self, configurable: Mapping[str, Any]) -> bool:
        """Whether a client calls, who is not the operator."""
        return self.ours.served or from_outside(configurable)

    def _run(self, input: Any, config: RunnableConfig | None, options: dict[str, Any]) -> Run:
        """A run as it is asked for, with its saver: a parent's before the own one, or none."""
        config = self._lent(config)
        configurable = self._configurable(config)
        saver = configurable.get(keys.SAVER, self.checkpointer)
        if self.checkpointer is False or not isinstance(saver, BaseCheckpointSaver):
            saver = None
        return Run(input, config, options, configurable, saver)

    def _configurable(self, config: RunnableConfig | None) -> Mapping[str, Any]:
        """What a run will see as `configurable`, by LangGraph's rules.

        A config that names a thread or checkpoint of its own stands alone; any other one refines
        the config of the node it is called from.
        """
        given = (config or {}).get("configurable", {})
        explicit = {**(self.config or {}).get("configurable", {}), **given}
        if any(explicit.get(key) for key in keys.COORDINATES):
            return explicit
        ambient = var_child_runnable_config.get() or {}
        return {**ambient.get("configurable", {}), **explicit}

    def _lent(self, config: RunnableConfig | None) -> RunnableConfig:
        """A caller's config, with async methods for what a sync parent graph passes down."""
        return lend(config or {}, self._configurable(config))

    @asynccontextmanager
    async def _door(
        self, input: Any, config: RunnableConfig | None, options: dict[str, Any]
    ) -> AsyncIterator[tuple[Run, Held | None]]:
        """Everything around one run: what it needs is taken before and given back after it."""
        run = self._run(input, config, options)
        check_keys(run.configurable, runs=True)
        async with run.hold(self.ours.locked_by) as held:
            if held is not None:
                run = run.telling(HELD_KEY, held.entry)
                if self.ours.fenced is not None and self.ours.writes():
                    run = run.telling(FENCE_KEY, await self.ours.fenced(run.locked))
            if self._is_client(run.configurable):
                run = client_run(run, self.ours.bounded)
            if run.nested:
                await self._check_inner(run)
            else:
                run = await self._let_in(run)
            async with run.session(self.ours.session) as told:
                try:
                    yield told, held
                except ValidationError as error:
                    if words := in_words(error, thread=run.thread):
                        raise words from error
                    raise

    async def _check_inner(self, run: Run) -> None:
        """A parent that resumes goes straight into the inner thread, past the parent's checks."""
        if run.configurable.get(keys.RESUMING) and (head := await run.head()):
            check_nodes(run, head, self)
            await check_values(run, head.saved.config, head.saved.parent_config)
            keep_order(run, head)

    async def _let_in(self, run: Run) -> Run:
        """Check and complete a run of the whole graph.

        One read of the thread's head; a second one only where old state is migrated or an ended
        thread is resumed.
        """
        check_input(run)
        if run.saver is None:
            return run
        run = replace(run, options=self._durable(run.options))
        head = await run.head()
        keep_order(run, await run.newest() if run.addressed else head)
        if head is None:
            if run.resumes and run.thread:
                msg = f"No thread {run.thread!r} is saved here; start it with a message."
                raise ThreadNotFound(msg)
            return run
        check_nodes(run, head, self)
        await check_values(run, head.saved.config, head.saved.parent_config)
        if withdraws(run.input):
            return await self._withdrawn(run, head)
        await self._bring_up(run, head)
        await self._forget_scratch(run, head)
        return replace(run, input=await self._input(run, head))

    async def _withdrawn(self, run: Run, head: Head) -> Run:
        """The run of a thread whose open question, and whatever was next, is given up."""
        messages = (await self.aget_state(run.where())).values.get("messages") or []
        if run.saver is not None and (answers := repairs(messages, no_result)):
            await add(run.saver, head.saved.config, head, {"messages": answers})
        await super().abulk_update_state(run.where(), [[StateUpdate(None, END)]])
        return replace(run, input=None)

    def _durable(self, options: dict[str, Any]) -> dict[str, Any]:
        if not self.ours.writes():
            return options
        if options.get("durability") == "exit":
            msg = (
                f'durability="exit" is refused by the graph {self.name!r}: its tools change the'
                ' world, and a crash would forget that they did. Leave it out, or use "sync".'
            )
            raise SettingsError(msg)
        return {**options, "durability": "sync"}

    async def _bring_up(self, run: Run, head: Head) -> None:
        """Write what this run must find in the state and no node of an earlier one has put there.

        Raises:
            ThreadIncompatible: a version of the package saved the thread that cannot be read here.
        """
        update = {**await self._migrated(run, head), **self._cut_off(run, head)}
        if update and run.saver is not None:
            await add(run.saver, head.saved.config, head, update)

    async def _migrated(self, run: Run, head: Head) -> dict[str, Any]:
        """The state of an older version of the package, brought up to date."""
        version = head.values.get("schema_version")
        if "schema_version" not in self.channels or version == SCHEMA_VERSION:
            return {}
        state = await self.aget_state(run.where())
        update = migrate(state.values, thread=run.thread)
        return {key: value for key, value in update.items() if key in self.channels}

    def _cut_off(self, run: Run, head: Head) -> dict[str, Any]:
        """What a turn had finished that a new message ends before its time; a resume finds it."""
        begins = not (run.resumes or run.addressed or isinstance(run.input, Command))
        if not begins or CUT_OFF not in self.channels or CUT_OFF in dict(head.own_writes):
            return {}
        finished = head.returned()
        return {CUT_OFF: finished} if finished else {}

    async def _forget_scratch(self, run: Run, head: Head) -> None:
        """Before a new turn on a thread at rest, drop what only the last one's resume needed."""
        forget = getattr(run.saver, "forget_scratch", None)
        if forget and self.ours.scratch and not (run.addressed or head.waiting()):
            await asyncio.to_thread(forget, run.thread, self.ours.scratch)

    async def _input(self, run: Run, head: Head) -> Any:
        if isinstance(run.input, Command):
            if run.repeats(head):
                # Its answer is in the checkpoint; it must not go to the question after that.
                return None
            asked = any(head.asked())
            return address_answer(run, run.input, await run.questions(head), asked=asked)
        if run.input is None and head.status in RESUMABLE and not run.addressed:
            state = await self.aget_state(run.where())
            # An ended thread has no task to go on with: a turn without a new message is one.
            return None if state.next else {"messages": []}
        return run.input

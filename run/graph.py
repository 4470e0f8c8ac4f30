"""The compiled graph whose sync and async doors all lead to nodes written once, async.

Around every run the doors adapt sync-only savers, refuse threads this graph cannot continue,
keep a thread to one run at a time, bring old state up to date, address answers and make writes
durable.
"""

import os
import time
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.serde.types import INTERRUPT
from langgraph.types import Checkpointer, StateSnapshot, StateUpdate
from langgraph.typing import ContextT, InputT, OutputT, StateT
from pydantic import ValidationError

from ..state.context import Context
from ..state.errors import (
    DatabaseError,
    LoopwrightError,
    SettingsError,
    ThreadBusy,
    ThreadIncompatible,
)
from ..state.migrations import migrate
from ..state.outcome import Outcome, Quote
from ..state.records import unpacked
from ..store.base import langgraph_keys as keys
from ..store.base.pace import in_turn
from ..store.checkpoints.head import without_answered
from ..store.journal.port import FENCE_KEY
from ..store.locks.held import Held
from ..store.locks.waiting import wait_of
from .background import run_blocking, stream_blocking
from .beside import beside
from .builder import Surrounded, read_less
from .checks import answered_inside, failing, in_words
from .continuing import check_nodes, check_values, keep_order
from .enqueue import Enqueues
from .entry import let_in
from .outside import check_keys, check_update, client_run
from .run import HELD_KEY, Run
from .wishes import (
    STOP,
    as_next,
    controlled,
    ended_by_wish,
    going_on,
    leave,
    next_input,
    to_steer,
    to_stop,
)


class LoopBuilder(Surrounded[StateT, ContextT, InputT, OutputT]):
    """A StateGraph that compiles to a LoopGraph, also where an engine compiles it."""

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


class LoopGraph(Enqueues[StateT, ContextT, InputT, OutputT]):
    """A compiled graph that can be called sync or async, from any thread and any event loop."""

    def invoke(  # one signature for LangGraph's three overloads
        self, input: Any, config: RunnableConfig | None = None, **options: Any
    ) -> Any:
        """Run to the end, the next question or a drain; see `ainvoke`."""
        return run_blocking(self.ainvoke(input, config, **options))

    async def ainvoke(
        self, input: Any, config: RunnableConfig | None = None, **options: Any
    ) -> Any:
        """Run to the end, the next question or a drain; see LangGraph, also for the arguments.

        A question that a message has superseded on the way is not among those it gives.
        """
        with going_on() as went_on:
            values = await super().ainvoke(input, config, **options)
        if not (went_on and isinstance(values, dict) and INTERRUPT in values):
            return values
        asked = (await self.aget_state(config or {})).interrupts
        rest = {key: value for key, value in values.items() if key != INTERRUPT}
        return {**rest, INTERRUPT: list(asked)} if asked else rest

    async def run_part(
        self, given: Mapping[str, Any], config: RunnableConfig | None = None, **options: Any
    ) -> dict[str, Any]:
        """Run as a part of another graph, whose node gives fields and takes fields."""
        return unpacked(await self.ainvoke(self.ours.packed(given), config, **options))

    def stream(
        self, input: Any, config: RunnableConfig | None = None, **options: Any
    ) -> Generator[Any, None, None]:
        """Run and yield the events of the chosen `stream_mode`; see `astream`."""
        return stream_blocking(self.astream(input, config, **options))

    def quote(self, goal: Any = None, *, context: Any = None) -> Quote:
        """Say what a turn may take at most; see `aquote`."""
        return run_blocking(self.aquote(goal, context=context))

    async def aquote(self, goal: Any = None, *, context: Any = None) -> Quote:  # noqa: ARG002 - whatever it says
        """Say what a turn may take at most, in model calls, tool calls, tokens and dollars.

        No model can break it: it follows from the limits that are kept before each call, whatever
        is answered. No model is asked.

        Args:
            goal: What would be asked; the bound is the same for every goal.
            context: The settings of the run.

        Raises:
            SettingsError: The settings are wrong, or there is a limit in dollars and the price of
                a model is not known.
            ModelUnavailable: A model cannot be built.
        """
        try:
            settings = Context.model_validate({} if context is None else context)
        except ValidationError as error:
            raise in_words(error, thread="") or error from error
        if self.ours.quoted is None:
            msg = "This graph is part of another one: ask that one for a quote."
            raise SettingsError(msg)
        return await self.ours.quoted(settings)

    def stop(self, config: RunnableConfig, **options: Any) -> Outcome | None:
        """End the thread's turn as cancelled; see `astop`."""
        return run_blocking(self.astop(config, **options))

    async def astop(self, config: RunnableConfig, **options: Any) -> Outcome | None:
        """End the thread's turn as cancelled, wherever it is; a resume goes on with it.

        A run of any process that holds the thread ends it at its next border: calls and model
        calls that are under way end first, nothing new begins. A thread at rest, be it at a
        question or where a killed process left it, ends at once.

        Args:
            config: Names the thread.
            options: Those of `ainvoke`; with `wait` the run that ends it is waited for.

        Returns:
            The outcome of a thread at rest; None where a run is about to end it.

        Raises:
            ThreadNotFound: Nobody saved it.
        """
        run, wish = self._run(None, config, {}), to_stop()
        inbox = await leave(run, self.ours, wish)
        try:
            await self.ainvoke(STOP, config, **{"wait": 0, **options})
        except ThreadBusy:
            return None
        except LoopwrightError:
            await inbox.taken(run.thread, [wish])
            raise
        return cast("Outcome | None", (await self.aget_state(config)).values.get("outcome"))

    def steer(self, config: RunnableConfig, message: Any) -> bool:
        """Hand a message to the thread's running turn; see `asteer`."""
        return run_blocking(self.asteer(config, message))

    async def asteer(self, config: RunnableConfig, message: Any) -> bool:
        """Hand a message to the thread's running turn, which takes it up at its next border.

        What is finished stays, what has begun ends first, and what has not begun is planned anew
        with the new words. It is on record before this returns, and is taken once, also where the
        run is killed meanwhile: by whoever resumes the thread.

        Args:
            config: Names the thread.
            message: Its words, or a message of the user's.

        Returns:
            False where no run holds the thread: nothing was handed over, invoke the graph with
            the message.

        Raises:
            SettingsError: It is no message of the user's.
        """
        run, wish = self._run(None, config, {}), to_steer(message)
        inbox = await leave(run, self.ours, wish)
        try:
            async with run.hold(self.ours.locked_by):
                await inbox.taken(run.thread, [wish])
        except ThreadBusy:
            return True
        return False

    async def astream(
        self, input: Any, config: RunnableConfig | None = None, **options: Any
    ) -> AsyncIterator[Any]:
        """Run and yield the events of the chosen `stream_mode`.

        Every other way to run the graph ends here. Arguments are LangGraph's, and `wait`: for so
        many seconds another run that holds the thread is waited for. With `answered_by="customer"`
        an answer is a customer's: it is refused where the question is put to the operator. A run
        that is stopped or steered goes on in the same stream, with its end or with the new message.

        Raises:
            ThreadNotFound: a resume of a thread nobody saved.
            ThreadIncompatible: the thread waits at a node or has a schema this graph lacks.
            ThreadBusy: another run of the thread has not ended.
            LeaseLost: another run has taken the thread from this one, which did not renew its
                lease; nothing more of this one is written.
            AnswerRejected: an answer that no pending question can take.
            SettingsError: a wrong context, or `durability="exit"` where tools write.
        """
        began, goes_on = time.monotonic(), False
        client = self._is_client(self._configurable(config))
        wait = wait_of(options.pop("wait", None), os.environ if client else {})
        while True:
            run, inside = self._run(input, config, options), False
            await in_turn()
            check_keys(run.configurable, runs=True)
            try:
                async with (
                    run.hold(self.ours.locked_by, wait) as held,
                    aclosing(self._legs(run, began, held)) as chunks,
                ):
                    inside = True
                    async for chunk in chunks:
                        yield chunk
            except ThreadBusy:
                if inside or not goes_on:
                    raise
                return  # whoever holds the thread by now looks for what was wished
            # Once more, now that others could have had it.
            if (input := await next_input(run, held, self.ours.inbox)) is None:
                return
            config, wait, goes_on = as_next(config), 0, True

    async def _legs(self, run: Run, began: float, held: Held | None) -> AsyncGenerator[Any, None]:
        """Run, and go on for as long as something was wished meanwhile: nobody comes between."""
        while True:
            async with (
                self._door(run, began, held) as told,
                ended_by_wish(told),
                aclosing(
                    cast("Any", super().astream(told.input, told.config, **told.options))
                ) as chunks,
            ):
                try:
                    async for chunk in chunks:
                        yield chunk
                finally:
                    if held is not None:
                        held.is_over()
            if (given := await next_input(run, held, self.ours.inbox)) is None:
                return
            run = self._run(given, as_next(run.config), run.options)

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
        """Write into the state of a thread that no run holds; see `abulk_update_state`."""
        return run_blocking(self.abulk_update_state(self._lent(config), supersteps))

    async def abulk_update_state(
        self, config: RunnableConfig, supersteps: Sequence[Sequence[StateUpdate]]
    ) -> RunnableConfig:
        """Write into the state of a thread that no run holds; see LangGraph.

        Raises:
            ThreadBusy: A run of the thread has not ended; it would go on without what is written.
            SettingsError: A client of a server may not.
        """
        run = self._run(None, config, {})
        check_keys(run.configurable, runs=False)
        if client := self._is_client(run.configurable):
            check_update(supersteps)
        wait = wait_of(None, os.environ if client else {})
        async with run.hold(self.ours.locked_by, wait) as held:
            if (newest := await run.newest()) is not None:
                keep_order(run, newest)
                await check_values(run, newest.saved.config, newest.saved.parent_config)
            told = run if held is None else run.telling(HELD_KEY, held.entry)
            fields = [
                [StateUpdate(self.ours.packed(one[0]), *one[1:]) for one in step]
                for step in supersteps
            ]
            return await super().abulk_update_state(told.config, fields)

    @asynccontextmanager
    async def _door(self, run: Run, began: float, held: Held | None) -> AsyncIterator[Run]:
        """Everything around one run that holds its thread."""
        if held is not None:
            run = run.telling(HELD_KEY, held.entry)
            if self.ours.inbox is not None:
                self.ours.inbox.held(run.thread)
            if self.ours.fenced is not None and self.ours.writes():
                run = run.telling(FENCE_KEY, await self.ours.fenced(run.locked))
        if client := self._is_client(run.configurable):
            run = client_run(run, self.ours.bounded)
        run = controlled(run, self.ours, held)
        if run.nested:
            run = await self._resumed(run) if run.configurable.get(keys.RESUMING) else run
        else:
            run = await let_in(self, run, began, client=client)
        async with (
            self._settling(run),
            run.session(self.ours.session) as opened,
            beside(opened) as told,
        ):
            with failing(run, self.name or ""):
                yield told

    @asynccontextmanager
    async def _settling(self, run: Run) -> AsyncIterator[None]:
        """What a run's turns have taken is on record when it is over, and no more than that."""
        inbox = None if run.nested else self.ours.inbox
        try:
            yield
        except Exception as error:
            if inbox is not None and not isinstance(error, DatabaseError):
                with suppress(LoopwrightError):
                    await inbox.settled(run.thread)
            raise
        if inbox is not None:
            await inbox.settled(run.thread)

    async def _resumed(self, run: Run) -> Run:
        """A parent that resumes goes straight into the inner thread, past the parent's checks."""
        if (head := await run.head()) is not None:
            check_nodes(run, head, self)
            migrate(head.values, thread=run.thread)
            await check_values(run, head.saved.config, head.saved.parent_config)
            keep_order(run, head)
        return answered_inside(run, [] if head is None else head.interrupts())

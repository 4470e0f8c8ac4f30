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

from ..state.channels import unpack_fields
from ..state.context import Context
from ..state.errors import (
    DatabaseError,
    LoopwrightError,
    SettingsError,
    ThreadBusy,
    ThreadIncompatible,
)
from ..state.loop import migrate
from ..state.outcome import Outcome, Quote
from ..state.questions import ANSWERED_BY, By
from ..store.base import langgraph_keys as keys
from ..store.checkpoints.thread_head import drop_answered
from ..store.journal.port import FENCE_KEY
from ..store.locks.thread_locks import HeldLock, parse_wait
from .background import run_blocking, stream_blocking, yield_to_others
from .builder import CheckedStateGraph, optimize_reads
from .checks import answer_inner_run, report_failure, translate_error
from .client_access import check_keys, check_update, make_client_run
from .enqueue import QueueingGraph
from .entry import check_nodes, check_values, keep_order, prepare_run
from .run import HELD_KEY, Run
from .side_work import open_side_work
from .stop_and_steer import (
    STOP,
    allow_early_end,
    attach_control,
    make_next_config,
    make_steer,
    make_stop,
    next_input,
    post_wish,
    record_continuations,
    save_cut,
)


class LoopBuilder(CheckedStateGraph[StateT, ContextT, InputT, OutputT]):
    """A StateGraph that compiles to a LoopGraph, also where an engine compiles it."""

    def compile(
        self, checkpointer: Checkpointer = None, **options: Any
    ) -> "LoopGraph[StateT, ContextT, InputT, OutputT]":
        """Compile; see LangGraph. Sync-only savers and stores will do."""
        compiled = super().compile(checkpointer, **options)
        # LangGraph names the class it constructs; the instance is complete, only its doors differ.
        compiled.__class__ = LoopGraph
        optimize_reads(compiled.nodes)
        graph = cast("LoopGraph[StateT, ContextT, InputT, OutputT]", compiled)
        graph.checkpointer, graph.store = graph.checkpointer, graph.store
        keys.restrict_typed_output(graph)
        return graph


class LoopGraph(QueueingGraph[StateT, ContextT, InputT, OutputT]):
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
        with record_continuations() as went_on:
            values = await super().ainvoke(input, config, **options)
        if not (went_on and isinstance(values, dict) and INTERRUPT in values):
            return values
        by = options.get(ANSWERED_BY, "operator")
        asked = (await self.aget_state(config or {}, answered_by=by)).interrupts
        rest = {key: value for key, value in values.items() if key != INTERRUPT}
        return {**rest, INTERRUPT: list(asked)} if asked else rest

    async def run_part(
        self, given: Mapping[str, Any], config: RunnableConfig | None = None, **options: Any
    ) -> dict[str, Any]:
        """Run as a part of another graph, whose node gives fields and takes fields."""
        return unpack_fields(
            await self.ainvoke(self.own_builder.pack_update(given), config, **options)
        )

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
            raise translate_error(error, thread="") or error from error
        if self.own_builder.quoted is None:
            msg = "This graph is part of another one: ask that one for a quote."
            raise SettingsError(msg)
        return await self.own_builder.quoted(settings)

    def stop(self, config: RunnableConfig, **options: Any) -> Outcome | None:
        """End the thread's turn as cancelled; see `astop`."""
        return run_blocking(self.astop(config, **options))

    async def astop(self, config: RunnableConfig, **options: Any) -> Outcome | None:
        """End the thread's turn as cancelled, wherever it is; a resume goes on with it.

        A run of any process that holds the thread ends it at its next border: calls of tools that
        are under way end first, a model that writes is cut, nothing new begins. A thread at rest,
        be it at a question or where a killed process left it, ends at once.

        Args:
            config: Names the thread.
            options: Those of `ainvoke`; with `wait` the run that ends it is waited for.

        Returns:
            The outcome of a thread at rest; None where a run is about to end it.

        Raises:
            ThreadNotFound: Nobody saved it.
        """
        run, wish = self._make_run(None, config, {}), make_stop()
        inbox = await post_wish(run, self.own_builder, wish)
        try:
            await self.ainvoke(STOP, config, **{"wait": 0, **options})
        except ThreadBusy:
            return None
        except LoopwrightError:
            await inbox.forget_wishes(run.thread, [wish])
            raise
        return cast("Outcome | None", (await self.aget_state(config)).values.get("outcome"))

    def steer(self, config: RunnableConfig, message: Any) -> bool:
        """Hand a message to the thread's running turn; see `asteer`."""
        return run_blocking(self.asteer(config, message))

    async def asteer(self, config: RunnableConfig, message: Any) -> bool:
        """Hand a message to the thread's running turn, which takes it up at its next border.

        What is finished stays, what has begun ends first, and what has not begun is planned again
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
        run, wish = self._make_run(None, config, {}), make_steer(message)
        inbox = await post_wish(run, self.own_builder, wish)
        try:
            async with run.hold(self.own_builder.locked_by):  # the run may have ended with it
                taken = all(one.name != wish.name for one in await inbox.list_wishes(run.thread))
                await inbox.forget_wishes(run.thread, [wish])
        except ThreadBusy:
            return True
        return taken

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
        client = self._is_client(self._merge_configurable(config))
        wait = parse_wait(options.pop("wait", None), os.environ if client else {})
        while True:
            run, inside = self._make_run(input, config, options), False
            await yield_to_others()
            check_keys(run.configurable, runs=True)
            try:
                async with (
                    run.hold(self.own_builder.locked_by, wait) as held,
                    aclosing(self._stream_with_steering(run, began, held)) as chunks,
                ):
                    inside = True
                    async for chunk in chunks:
                        if (shown := self._show_chunk(run, chunk, options)) is not None:
                            yield shown
            except ThreadBusy:
                if inside or not goes_on:
                    raise
                return  # whoever holds the thread by now looks for what was wished
            # Once more, now that others could have had it.
            if (input := await next_input(run, held, self.own_builder.inbox)) is None:
                return
            config, wait, goes_on = make_next_config(config), 0, True

    async def _stream_with_steering(
        self, run: Run, began: float, held: HeldLock | None
    ) -> AsyncGenerator[Any, None]:
        """Run, and go on for as long as something was wished meanwhile: nobody comes between."""
        while True:
            async with (
                save_cut(run, self.own_builder, held),
                self._enter_run(run, began, held) as told,
                allow_early_end(told),
                aclosing(
                    cast("Any", super().astream(told.input, told.config, **told.options))
                ) as chunks,
            ):
                try:
                    async for chunk in chunks:
                        yield chunk
                finally:
                    if held is not None:
                        held.mark_over()
            if (given := await next_input(run, held, self.own_builder.inbox)) is None:
                return
            if held is not None:
                held.entry.over = False
            run = self._make_run(given, make_next_config(run.config), run.options)

    def get_state(
        self, config: RunnableConfig, *, subgraphs: bool = False, answered_by: By = "operator"
    ) -> StateSnapshot:
        """The thread's state; see `aget_state`."""
        return run_blocking(self.aget_state(config, subgraphs=subgraphs, answered_by=answered_by))

    async def aget_state(
        self, config: RunnableConfig, *, subgraphs: bool = False, answered_by: By = "operator"
    ) -> StateSnapshot:
        """The thread's state; see LangGraph. Questions that were answered are left out.

        With `answered_by="customer"` it is what a customer's front end may show.
        """
        run = self._make_run(None, config, {ANSWERED_BY: answered_by})
        check_keys(run.configurable, runs=False)
        state = await super().aget_state(run.config, subgraphs=subgraphs)
        if state.parent_config is not None:
            await check_values(run, state.config, state.parent_config)
        inner = run.is_nested or run.configurable.get("checkpoint_ns")
        if state.interrupts and not (inner or run.has_checkpoint_id):
            head = await run.read_head()
            state = state if head is None else drop_answered(state, await run.list_questions(head))
        return self._show_state(run, state)

    def get_state_history(self, config: RunnableConfig, **options: Any) -> Iterator[StateSnapshot]:
        """The thread's checkpoints, newest first; see LangGraph."""
        return stream_blocking(self.aget_state_history(config, **options))

    async def aget_state_history(
        self, config: RunnableConfig, **options: Any
    ) -> AsyncIterator[StateSnapshot]:
        """The thread's checkpoints, newest first; see LangGraph.

        It ends before those whose values were lost with older checkpoints.
        """
        run, newest = self._make_run(None, config, options), True
        check_keys(run.configurable, runs=False)
        async for state in super().aget_state_history(run.config, **run.options):
            try:
                if state.parent_config is not None:
                    await check_values(run, state.config, state.parent_config)
            except ThreadIncompatible:
                if newest:
                    raise
                return
            newest = False
            yield self._show_state(run, state)

    def bulk_update_state(
        self, config: RunnableConfig, supersteps: Sequence[Sequence[StateUpdate]]
    ) -> RunnableConfig:
        """Write into the state of a thread that no run holds; see `abulk_update_state`."""
        return run_blocking(self.abulk_update_state(self._adapt_config(config), supersteps))

    async def abulk_update_state(
        self, config: RunnableConfig, supersteps: Sequence[Sequence[StateUpdate]]
    ) -> RunnableConfig:
        """Write into the state of a thread that no run holds; see LangGraph.

        Raises:
            ThreadBusy: A run of the thread has not ended; it would go on without what is written.
            SettingsError: A client of a server may not.
        """
        run = self._make_run(None, config, {})
        check_keys(run.configurable, runs=False)
        if client := self._is_client(run.configurable):
            check_update(supersteps)
        wait = parse_wait(None, os.environ if client else {})
        async with run.hold(self.own_builder.locked_by, wait) as held:
            if (newest := await run.read_newest_head()) is not None:
                keep_order(run, newest)
                await check_values(run, newest.saved.config, newest.saved.parent_config)
            told = run if held is None else run.with_configurable(HELD_KEY, held.entry)
            fields = [
                [StateUpdate(self.own_builder.pack_update(one[0]), *one[1:]) for one in step]
                for step in supersteps
            ]
            return await super().abulk_update_state(told.config, fields)

    @asynccontextmanager
    async def _enter_run(self, run: Run, began: float, held: HeldLock | None) -> AsyncIterator[Run]:
        """Everything around one run that holds its thread."""
        if held is not None:
            run = run.with_configurable(HELD_KEY, held.entry)
            if self.own_builder.inbox is not None:
                self.own_builder.inbox.expire_usage(run.thread)
            if self.own_builder.fenced is not None and self.own_builder.writes():
                run = run.with_configurable(FENCE_KEY, await self.own_builder.fenced(run.lock_name))
        if client := self._is_client(run.configurable):
            run = make_client_run(run, self.own_builder.bounded)
        run = attach_control(run, self.own_builder, held)
        if run.is_nested:
            run = await self._resume_inner(run) if run.configurable.get(keys.RESUMING) else run
        else:
            run = await prepare_run(self, run, began, client=client)
        async with (
            self._settle_spend(run),
            run.open_session(self.own_builder.session) as opened,
            open_side_work(opened) as told,
        ):
            with report_failure(run, self.name or ""):
                yield told

    @asynccontextmanager
    async def _settle_spend(self, run: Run) -> AsyncIterator[None]:
        """What a run's turns have taken is on record when it is over, and no more than that."""
        inbox = None if run.is_nested else self.own_builder.inbox
        try:
            yield
        except Exception as error:
            if inbox is not None and not isinstance(error, DatabaseError):
                with suppress(LoopwrightError):
                    await inbox.settle_usage(run.thread)
            raise
        if inbox is not None:
            await inbox.settle_usage(run.thread)

    async def _resume_inner(self, run: Run) -> Run:
        """A parent that resumes goes straight into the inner thread, past the parent's checks."""
        if (head := await run.read_head()) is not None:
            check_nodes(run, head, self)
            migrate(head.values, thread=run.thread)
            await check_values(run, head.saved.config, head.saved.parent_config)
            keep_order(run, head)
        return answer_inner_run(run, [] if head is None else head.list_interrupts())

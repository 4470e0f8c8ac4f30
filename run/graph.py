"""The compiled graph. Its nodes are async; every method exists sync and async.

Around each run it adapts savers, locks its own threads, updates their state, matches answers.
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
from ..stream.tracer import trace_run
from .background import run_blocking, stream_blocking, yield_to_others
from .builder import CheckedStateGraph, optimize_reads
from .checks import answer_inner_run, report_failure, translate_error
from .client_access import check_keys, check_update, make_client_run
from .enqueue import QueueingGraph
from .entry import check_nodes, check_values, keep_order, prepare_run
from .on_record import keep_run
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
    """A StateGraph that compiles to a LoopGraph, even if a server compiles it."""

    def compile(
        self, checkpointer: Checkpointer = None, **options: Any
    ) -> "LoopGraph[StateT, ContextT, InputT, OutputT]":
        """Compile; see LangGraph. A sync-only saver or store is enough."""
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

        The result leaves out questions that a new message has replaced meanwhile.
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
        """Run inside another graph; takes and returns fields of its state."""
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

        The bound follows from limits that are checked before each call, so no answer of a model
        can break it. No model is called.

        Args:
            goal: The request; the bound is the same for every request.
            context: The settings of the run.

        Raises:
            SettingsError: The settings are wrong, or there is a limit in dollars and the price of
                a model is unknown.
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
        """End the thread's turn as cancelled; a later resume continues it.

        A run in any process ends at its next node: running tool calls finish, a model's answer is
        cut, nothing new starts. A thread without a run (it waits for an answer, or its process
        was killed) ends at once.

        Args:
            config: Names the thread.
            options: Those of `ainvoke`; `wait` is the seconds to wait for the run to end.

        Returns:
            The outcome; None if a run is still ending the turn.

        Raises:
            ThreadNotFound: No such thread is saved.
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
        """Send a message to the thread's running turn; see `asteer`."""
        return run_blocking(self.asteer(config, message))

    async def asteer(self, config: RunnableConfig, message: Any) -> bool:
        """Send a message to the thread's running turn, which reads it before its next node.

        Finished work stays, running calls finish, and steps that have not started are planned
        again with the message. It is saved before this returns and read exactly once, even if the
        run is killed: then the next resume reads it.

        Args:
            config: Names the thread.
            message: A text or a user message.

        Returns:
            False if no run holds the thread: nothing was sent; invoke the graph with the message.

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

    @trace_run
    @keep_run
    async def astream(
        self, input: Any, config: RunnableConfig | None = None, **options: Any
    ) -> AsyncIterator[Any]:
        """Run and yield the events of the chosen `stream_mode`.

        All other methods that run the graph call this one. Arguments are LangGraph's, and `wait`:
        the seconds to wait for another run that holds the thread. With `answered_by="customer"`
        an answer counts as a customer's and is refused if the question is the operator's. If the
        run is stopped or steered, the same stream goes on to its end.

        Raises:
            ThreadNotFound: a resume of a thread that is not saved.
            ThreadIncompatible: the thread waits at a node or has a schema this graph lacks.
            ThreadBusy: another run of the thread has not ended.
            LeaseLost: this run did not renew its lease and another one has taken the thread;
                this one writes nothing more.
            AnswerRejected: the answer fits no open question.
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

        It ends where values were lost with older checkpoints.
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
            ThreadBusy: A run holds the thread; it would not see the write.
            SettingsError: Clients of a server may not write state.
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

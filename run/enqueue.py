"""Turns for whoever comes to run them: how they are enqueued, and found again."""

import asyncio
import secrets
import time
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from langchain_core.runnables import RunnableConfig
from langgraph.typing import ContextT, InputT, OutputT, StateT
from pydantic import ValidationError

from ..state.context import Context
from ..state.questions import ANSWERED_BY, By
from ..store.base import langgraph_keys as keys
from ..store.base.worker_threads import run_in_worker
from ..store.locks.thread_locks import yield_delays
from ..store.work.turns import Turn, open_queue
from ..stream.meters import AGENT, ENQUEUED, measure
from .background import run_blocking
from .checks import translate_error
from .entry import check_nodes
from .run import Run
from .take import TakingGraph, check_json, read_given, read_id
from .turn_input import address

if TYPE_CHECKING:
    from ..store.work.queue import TurnQueue

_LOOKS: Final = (0.05, 1.0)
"""Seconds between two looks at a turn that somebody waits for: at first, and at most."""

_OF_CONFIG: Final = ("metadata", "tags", "recursion_limit")


class QueueingGraph(TakingGraph[StateT, ContextT, InputT, OutputT]):
    """A graph whose turns can wait in the database for a worker."""

    def enqueue(self, config: RunnableConfig, message: Any, **options: Any) -> Turn:
        """Put a turn behind those that wait for the thread; see `aenqueue`."""
        return run_blocking(self.aenqueue(config, message, **options))

    async def aenqueue(
        self, config: RunnableConfig, message: Any, *, id: str | None = None,
        at: datetime | timedelta | None = None, every: str = "", context: Any = None,
        answered_by: By = "operator", connection: Any = None,
    ) -> Turn:  # fmt: skip
        """Put a turn behind those that wait for the thread; `loopwright worker` runs it.

        Each message is a turn of its own, in the order of these calls.

        Args:
            config: Names the thread; kept with the turn, as far as it is JSON.
            message: Its words, a message, a whole input with `messages`, or the answer to an open
                question as `Command(resume=…)`, which goes before the messages that wait.
            id: Of the turn: the same id again is the same turn. Give one to be able to try again.
            at: When it is to be put there, or after how long.
            every: Instead a cron expression, in UTC: each time a turn of its own.
            context: The settings of the run.
            answered_by: Whose answer it is; see `astream`.
            connection: One of psycopg, async or not, to the same database: the turn is there when
                what you do in its transaction counts, and not if that does not.

        Returns:
            The turn; its `id` finds it again.

        Raises:
            SettingsError: It cannot be kept, or never be run.
            AnswerRejected: No such question is open, or it is not theirs to answer.
            ThreadIncompatible: The thread is another graph's.
        """
        run = self._make_run(None, config, {ANSWERED_BY: answered_by})
        queue = await self._open_queue(run)
        given = read_given(message)
        head = await run.read_head()
        if head is not None:
            check_nodes(run, head, self)
        known = await run_in_worker(queue, queue.find, run.thread, id) if id else None
        if given["kind"] == "answer" and known is None:  # else it may have answered its question
            pending = [] if head is None else await run.list_questions(head)
            given["body"] = address(run, given["body"]["resume"], pending)
        told = {"context": self._dump_settings(context), "answered_by": answered_by}
        given["body"] |= {**told, **_strip_config(config, run)}
        check_json(given["body"])
        if due := queue.plan(at, every):
            given |= {"state": "planned", "digest": f"{given['digest']}{every}"}
        turn = Turn(
            id=secrets.token_hex(8) if id is None else read_id(id), thread=run.thread,
            graph=self.name or "", at=due, every=every, **given,
        )  # fmt: skip
        added = await queue.add(turn, known, connection)
        if known is None:
            measure(ENQUEUED, 1, {AGENT: turn.graph})
        return added

    def enqueued(
        self, config: RunnableConfig, id: str, *, wait: float | None = None
    ) -> Turn | None:
        """A turn that was enqueued for a thread; see `aenqueued`."""
        return run_blocking(self.aenqueued(config, id, wait=wait))

    async def aenqueued(
        self, config: RunnableConfig, id: str, *, wait: float | None = None
    ) -> Turn | None:
        """A turn that was enqueued for a thread, with its outcome if it has ended.

        Args:
            config: Names the thread.
            id: Of the turn.
            wait: Seconds to wait until it is over, or its thread asks.

        Returns:
            The turn as it is now; None if the thread has none with this id.
        """
        run = self._make_run(None, config, {})
        queue = await self._open_queue(run)
        until, looks = time.monotonic() + (wait or 0), yield_delays(*_LOOKS)
        while True:
            turn = await run_in_worker(queue, queue.find, run.thread, id)
            left = until - time.monotonic()
            if turn is None or turn.over or turn.state == "asks" or left <= 0:
                return turn
            await asyncio.sleep(min(next(looks), left))

    def dequeue(self, config: RunnableConfig, id: str) -> Turn | None:
        """Take back a turn that nobody is at; see `adequeue`."""
        return run_blocking(self.adequeue(config, id))

    async def adequeue(self, config: RunnableConfig, id: str) -> Turn | None:
        """Withdraw a turn that has not begun, has failed, or was set aside: nobody will run it.

        A repeated turn is not repeated any more. A failed turn's messages stay in its thread:
        `stop` ends that turn.

        Args:
            config: Names the thread.
            id: Of the turn.

        Returns:
            The turn as it is now: `dequeued`, or unchanged if it was too late or a run holds the
                thread (then use `stop`). None if the thread has none with this id.
        """
        run = self._make_run(None, config, {})
        queue = await self._open_queue(run)
        locked_by = run.find_locks(self.own_builder.locked_by)
        return await run_in_worker(queue, queue.dequeue, run.thread, id, locked_by)

    async def _open_queue(self, run: Run) -> "TurnQueue":
        return await run_in_worker(None, open_queue, self._open_records(run))

    def _dump_settings(self, context: Any) -> Any:
        """The settings of a run, as JSON."""
        if context is None or self.context_schema is not Context:
            return context
        try:
            read = Context.model_validate(context)
        except ValidationError as error:
            raise translate_error(error, thread="") or error from error
        return read.model_dump(mode="json", exclude_unset=True)


def _strip_config(config: RunnableConfig, run: Run) -> dict[str, Any]:
    """What of a config is kept with the turn; what LangGraph and we set is not the caller's."""
    told = {
        key: value
        for key, value in run.configurable.items()
        if not key.startswith((keys.PREFIX, "__")) and value is not None
    }
    more = {key: config[key] for key in _OF_CONFIG if config.get(key)}
    return {"config": {**more, "configurable": told | {"thread_id": run.thread}}}

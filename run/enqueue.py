"""Turns for whoever comes to run them: how they are enqueued, and found again."""

import asyncio
import json
import secrets
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from langchain_core.messages import (
    AnyMessage,
    HumanMessage,
    message_to_dict,
)
from langchain_core.runnables import RunnableConfig
from langgraph.types import Command
from langgraph.typing import ContextT, InputT, OutputT, StateT
from pydantic import ValidationError

from ..state.context import Context
from ..state.errors import AnswerRejected, SettingsError
from ..state.limits import refuse_excess
from ..state.messages import explain_unreadable, read_messages
from ..state.questions import ANSWERED_BY, By
from ..store.base import langgraph_keys as keys
from ..store.base.worker_threads import run_in_worker
from ..store.checkpoints.thread_head import ThreadHead
from ..store.locks.thread_locks import yield_delays
from ..store.threads.turns import TURN_KEY, Turn, TurnQueue, find_queue
from ..stream.meters import AGENT, ENQUEUED, measure
from ..text.canonical import hash_of
from .background import run_blocking
from .checks import address_answer, translate_error
from .client_access import check_keys
from .compiled import Compiled
from .entry import check_nodes
from .run import Run

_LOOKS: Final = (0.05, 1.0)
"""Seconds between two looks at a turn that somebody waits for: at first, and at most."""

_OF_CONFIG: Final = ("metadata", "tags", "recursion_limit")


class QueueingGraph(Compiled[StateT, ContextT, InputT, OutputT]):
    """A graph whose turns can wait in the database for a worker."""

    def enqueue(self, config: RunnableConfig, message: Any, **options: Any) -> Turn:
        """Put a turn behind those that wait for the thread; see `aenqueue`."""
        return run_blocking(self.aenqueue(config, message, **options))

    async def aenqueue(
        self, config: RunnableConfig, message: Any, *, context: Any = None, id: str | None = None,
        answered_by: By = "operator",
    ) -> Turn:  # fmt: skip
        """Put a turn behind those that wait for the thread; `loopwright worker` runs it.

        Each message is a turn of its own, in the order of these calls.

        Args:
            config: Names the thread; kept with the turn, as far as it is JSON.
            message: Its words, a message, a whole input with `messages`, or the answer to an open
                question as `Command(resume=…)`, which goes before the messages that wait.
            context: The settings of the run.
            id: Of the turn: the same id again is the same turn. Give one to be able to try again.
            answered_by: Whose answer it is; see `astream`.

        Returns:
            The turn; its `id` finds it again.

        Raises:
            SettingsError: It cannot be kept, or never be run.
            AnswerRejected: No such question is open, or it is not theirs to answer.
            ThreadIncompatible: The thread is another graph's.
        """
        run = self._make_run(None, config, {ANSWERED_BY: answered_by})
        turns = self._open_queue(run)
        name = id or secrets.token_hex(8)
        known = await run_in_worker(turns, turns.read, run.thread, name) if id else None
        head = await run.read_head()
        if head is not None:
            check_nodes(run, head, self)
        answers = isinstance(message, Command)
        if answers and known is not None:  # its question may have been answered by it
            return known
        given = await _dump_answer(run, head, message) if answers else _dump_message(message, name)
        body = {"thread": run.thread, **given, "context": self._dump_settings(context)}
        turn = Turn(
            id=name, thread=run.thread, graph=self.name or "", state="waiting",
            kind="answer" if answers else "message", body=body | _strip_config(config, run),
        )  # fmt: skip
        refuse_excess("queue", turn.body)
        _check_json(turn.body)
        added = await run_in_worker(turns, turns.add, turn)
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
        """A turn that was enqueued for a thread, with its outcome when it has ended.

        Args:
            config: Names the thread.
            id: Of the turn.
            wait: Seconds to wait until it is over, or its thread asks.

        Returns:
            The turn as it stands; None where the thread has none with this id.
        """
        run = self._make_run(None, config, {})
        turns = self._open_queue(run)
        until, looks = time.monotonic() + (wait or 0), yield_delays(*_LOOKS)
        while True:
            turn = await run_in_worker(turns, turns.read, run.thread, id)
            left = until - time.monotonic()
            if turn is None or turn.over or turn.state == "asks" or left <= 0:
                return turn
            await asyncio.sleep(min(next(looks), left))

    def dequeue(self, config: RunnableConfig, id: str) -> Turn | None:
        """Take back a turn that nobody is at; see `adequeue`."""
        return run_blocking(self.adequeue(config, id))

    async def adequeue(self, config: RunnableConfig, id: str) -> Turn | None:
        """Take back a turn that has not begun, failed, or was set aside: nobody runs it any more.

        What a turn that failed has brought into its thread stays there: `stop` ends that.

        Args:
            config: Names the thread.
            id: Of the turn.

        Returns:
            The turn as it stands: `dequeued`, or as it was where that came too late, or a run
            has the thread; `stop` ends that. None where the thread has none with this id.
        """
        run = self._make_run(None, config, {})
        turns = self._open_queue(run)
        locked_by = run.find_locks(self.own_builder.locked_by)
        return await run_in_worker(turns, turns.dequeue, run.thread, id, locked_by)

    def _open_queue(self, run: Run) -> TurnQueue:
        """The queue of its threads; raises SettingsError if there is none."""
        check_keys(run.configurable, runs=True)
        inbox = self.own_builder.inbox
        turns = find_queue(inbox.journal) if inbox else None
        if turns is None or not run.is_controllable or run.has_checkpoint_id:
            msg = (
                "Nothing can be enqueued by this config: build the graph with"
                " durability=open_durability(url), and name the thread_id of a thread, without a"
                " checkpoint_id."
            )
            raise SettingsError(msg)
        return turns

    def _dump_settings(self, context: Any) -> Any:
        """The settings of a run, as JSON."""
        if context is None or self.context_schema is not Context:
            return context
        try:
            read = Context.model_validate(context)
        except ValidationError as error:
            raise translate_error(error, thread="") or error from error
        return read.model_dump(mode="json", exclude_unset=True)


def _dump_message(message: Any, name: str) -> dict[str, Any]:
    """A message, or a whole input, as JSON, marked with its turn; raises SettingsError."""
    values = dict(message) if isinstance(message, Mapping) and "messages" in message else {}
    given = values.pop("messages") if values else message
    if isinstance(given, str):
        given = [("user", given)]
    given = given if isinstance(given, list) else [given]
    why = explain_unreadable(given)
    said: Sequence[AnyMessage] = () if why else read_messages(given)
    if not why and not (said and isinstance(said[-1], HumanMessage) and said[-1].content):
        why = "the last one is none of the user's, or empty"
    if why:
        msg = f"The message cannot be enqueued: {why.rstrip('.')}. Give its words."
        raise SettingsError(msg)
    last = said[-1].model_copy(
        update={"additional_kwargs": {**said[-1].additional_kwargs, TURN_KEY: name}}
    )
    return {"messages": [message_to_dict(one) for one in [*said[:-1], last]], "values": values}


async def _dump_answer(run: Run, head: ThreadHead | None, command: Command[Any]) -> dict[str, Any]:
    """An answer by the ids of the questions that are open, and what they ask."""
    if command.resume is None or command.update or command.goto:
        msg = "Only an answer can be enqueued as a command: Command(resume=…), and nothing beside."
        raise AnswerRejected(msg)
    pending = [] if head is None else await run.list_questions(head)
    answer: Any = address_answer(run, command, pending).resume
    asked = {one.id: hash_of(one.value) for one in pending if one.id in answer}
    return {"answer": answer, "asked": asked}


def _strip_config(config: RunnableConfig, run: Run) -> dict[str, Any]:
    """What of a config is kept with the turn; what LangGraph and we set is not the caller's."""
    told = {
        key: value
        for key, value in run.configurable.items()
        if not key.startswith((keys.PREFIX, "__")) and value is not None
    }
    more = {key: config[key] for key in _OF_CONFIG if config.get(key)}
    return {"config": {**more, "configurable": told | {"thread_id": run.thread}}}


def _check_json(body: Mapping[str, Any]) -> None:
    try:
        json.dumps(body)
    except (TypeError, ValueError, RecursionError) as error:
        msg = (
            f"The turn cannot be enqueued: what a worker of another process is to read must be"
            f" JSON, and {error}. Leave it out of the message, the context and the config."
        )
        raise SettingsError(msg) from error

"""Stop and steer: requests to a running thread, and how its run reads them.

A request is saved first, then the holder of the thread is notified. The holder looks for requests
at its start, before each node, and once more after it has released the thread. So a held thread has
a holder that will still look, and the finder of a free thread acts itself: no request is lost, and
none is read twice.
"""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from langchain_core.messages import (
    BaseMessage,
    HumanMessage,
    convert_to_messages,
    message_to_dict,
    messages_from_dict,
)
from langchain_core.runnables import RunnableConfig
from langgraph.errors import GraphDrained, GraphInterrupt
from langgraph.graph import END
from langgraph.runtime import RunControl, Runtime
from langgraph.types import Command

from ..state.errors import SettingsError
from ..state.messages import STEERS, explain_unreadable
from ..store.base import langgraph_keys as keys
from ..store.checkpoints.thread_head import write_update
from ..store.journal.port import Wish
from ..store.journal.recorder import Recorder
from ..store.locks.control import Control, InnerControl, Kind
from ..store.locks.thread_locks import HeldLock, notify_holder
from .builder import CheckedStateGraph
from .client_access import check_keys
from .run import Run

STOP: Final[Command[Any]] = Command(goto=END)
"""What ends the turn of a thread at rest; see `client_access.is_withdrawal`."""

_GRAIN: Final = 0.002
"""Seconds: SQLite tells the time in milliseconds."""

_OF_A_RUN: Final = ("run_id", "checkpoint_id")
"""What names the run that was asked for, and where it began."""


Graph = CheckedStateGraph[Any, Any, Any, Any]
"""A graph's builder."""


def make_stop() -> Wish:
    """The wish that the turn ends."""
    return Wish(uuid.uuid4().hex)


def make_steer(message: object) -> Wish:
    """The wish that the turn takes up a user's message; raises SettingsError if it is none."""
    name = uuid.uuid4().hex
    given = [message] if isinstance(message, BaseMessage | Mapping) else [("user", message)]
    why = explain_unreadable(given)
    if not why:
        (read,) = convert_to_messages(given)  # type: ignore[arg-type]  # readable, as was asked
        if isinstance(read, HumanMessage) and read.content:
            marked = {**read.additional_kwargs, STEERS: name}
            about = {"id": read.id or name, "additional_kwargs": marked}
            return Wish(name, message_to_dict(read.model_copy(update=about)))
        why = "it is none of the user's, or empty"
    msg = f"The message cannot be handed to the thread: {why.rstrip('.')}. Give its words."
    raise SettingsError(msg)


async def post_wish(run: Run, graph: Graph, wish: Wish) -> Recorder:
    """Record a wish for a thread, then tell its run in this process; returns where it is recorded.

    Raises SettingsError if the run has no thread that is saved.
    """
    check_keys(run.configurable, runs=True)
    if graph.inbox is None or run.saver is None or not run.is_controllable:
        msg = (
            "Nothing can be stopped or steered by this config: name the thread_id of a thread that"
            " the graph saves by its checkpointer."
        )
        raise SettingsError(msg)
    await graph.inbox.add_wish(run.thread, wish)
    await asyncio.to_thread(
        notify_holder, run.find_locks(graph.locked_by), run.lock_name, kind_of(wish)
    )
    return graph.inbox


def kind_of(wish: Wish) -> Kind:
    """What it does to a turn."""
    return "stop" if wish.message is None else "steer"


def attach_control(run: Run, graph: Graph, held: HeldLock | None) -> Run:
    """The run under a control that wishes reach, where there can be any."""
    control: RunControl | None = None
    if run.is_controllable and graph.inbox is not None and held is not None:
        control = Control(
            run.options.get("control"), partial(_find_newest_wish, graph.inbox, run.thread)
        )
        held.entry.control = control
        control.lost = held.entry.lost
    elif run.options.get("control") is not None:
        return run
    elif graph.ends_itself and isinstance(around := run.configurable.get(keys.RUNTIME), Runtime):
        control = InnerControl(around.control) if isinstance(around.control, Control) else None
    return replace(run, options={**run.options, "control": control}) if control else run


async def _find_newest_wish(inbox: Recorder, thread: str) -> Kind | None:
    """Look for wishes of a thread, where other processes could have left some."""
    wishes = await inbox.list_wishes(thread) if inbox.durable else []
    return kind_of(wishes[-1]) if wishes else None


@asynccontextmanager
async def allow_early_end(run: Run) -> AsyncIterator[None]:
    """A block that a wish may end early; only a pause, or the loss of the thread, is raised."""
    control = run.options.get("control")
    try:
        yield
    except GraphInterrupt as asked:  # LangGraph tells a question by its node and by its task
        asked.args = ([*{question.id: question for question in asked.args[0]}.values()],)
        raise
    except GraphDrained:
        if not isinstance(control, Control) or control.is_paused:
            raise
        if control.wish is None and control.lost is None:
            raise
    if isinstance(control, Control) and control.lost is not None:
        raise control.lost


@asynccontextmanager
async def save_cut(run: Run, graph: Graph, held: HeldLock | None) -> AsyncIterator[None]:
    """A block with a run; what came of model calls that its end has cut stays in the thread."""
    try:
        yield
    finally:
        control = None if held is None else held.entry.control
        cut = control if isinstance(control, Control) and control.lost is None else Control()
        if cut.said or cut.spent:
            head = await run.read_head()
            if run.saver is not None and head is not None and head.find_next_nodes():  # it is open
                update = graph.pack_update({"messages": cut.said, "spend": cut.spent})
                await write_update(run.saver, head.saved.config, head, update)


_WENT_ON: ContextVar[list[str] | None] = ContextVar("loopwright_went_on", default=None)


@contextmanager
def record_continuations() -> Iterator[list[str]]:
    """A block with what a run in it goes on with after a wish; nothing where it does not."""
    went_on: list[str] = []
    token = _WENT_ON.set(went_on)
    try:
        yield went_on
    finally:
        _WENT_ON.reset(token)


async def next_input(run: Run, held: HeldLock | None, inbox: Recorder | None) -> Any:
    """What a run that is over goes on with; None where nothing was wished meanwhile."""
    control = None if held is None else held.entry.control
    if inbox is None or not isinstance(control, Control) or control.is_paused:
        return None
    if not (wishes := await inbox.list_wishes(run.thread)):
        return None
    if (went_on := _WENT_ON.get()) is not None:
        went_on.append(wishes[-1].name)
    return STOP if wishes[-1].message is None else {"messages": []}


def make_next_config(config: RunnableConfig | None) -> RunnableConfig:
    """The config of what a run goes on with: another run to LangGraph, from the newest state."""
    given = RunnableConfig(**(config or {}))
    given.pop("run_id", None)
    given["configurable"] = _drop_run_keys(given.get("configurable", {}))
    given["metadata"] = _drop_run_keys(given.get("metadata", {}))
    return given


def _drop_run_keys(told: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in told.items() if key not in _OF_A_RUN}


@dataclass(frozen=True)
class InboxInput:
    """What a run takes up as it begins: messages, in their order, and which wishes that settles."""

    messages: Sequence[BaseMessage] = ()
    settled: Collection[Wish] = ()


async def read_inbox(run: Run, inbox: Recorder | None, began: float) -> InboxInput:
    """What waits for a run that begins, and is taken up with its input.

    A stop from before the call (`began`) is settled by what the caller wants now. Where the input
    is an answer, messages wait for the next border.
    """
    control = run.options.get("control")
    if inbox is None or not isinstance(control, Control) or run.has_checkpoint_id:
        return InboxInput()
    if not (wishes := await inbox.list_wishes(run.thread)):
        return InboxInput()
    stops = run.input == STOP
    since = time.monotonic() - began + _GRAIN
    if not stops and wishes[-1].message is None and wishes[-1].age <= since:
        control.notify("stop")
        wishes = wishes[:-1]
    said = [wish for wish in wishes if wish.message is not None]
    if isinstance(run.input, Command) and not stops:
        wishes, said = [wish for wish in wishes if wish.message is None], []
    messages = messages_from_dict([wish.message for wish in said if wish.message])
    return InboxInput(messages, wishes)

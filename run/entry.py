"""How a run enters a saved thread: what is checked, brought up to date and taken up with it."""

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from math import inf
from typing import Any, Final

from langchain_core.messages import AnyMessage, BaseMessage, RemoveMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointMetadata, empty_checkpoint
from langgraph.graph import END
from langgraph.types import Command, StateUpdate

from ..state.channels import unpack_fields
from ..state.errors import SettingsError, ThreadIncompatible, ThreadNotFound
from ..state.loop import SCHEMA_VERSION, STOPPING, migrate
from ..state.messages import CUT, STEERS, read_messages
from ..state.outcome import RESUMABLE
from ..store.base import langgraph_keys as keys
from ..store.base.worker_threads import run_in_worker
from ..store.checkpoints.shared_values import describe_incomplete, find_lost_async
from ..store.checkpoints.thread_head import CUT_OFF, ThreadHead, write_update
from .checks import address_answer, check_input
from .client_access import is_withdrawal, strip_marks
from .compiled import Graph
from .run import Run, read_saved_values, read_whole_state, write_state
from .stop_and_steer import InboxInput, read_inbox
from .turn_input import TurnInput

log = logging.getLogger(__name__)


async def prepare_run(graph: Graph, run: Run, began: float, *, client: bool) -> Run:
    """Check and complete a run of the whole graph, whose caller called at `began`.

    It reads the thread's head once. It reads a second time only if old state is migrated, an ended
    thread is resumed, somebody steers, or a client names messages.
    """
    given = run.input
    run, head = await _check_run_input(graph, run, client=client)
    if run.saver is None:
        return run
    if isinstance(given, TurnInput) and run.input is None:  # it goes on, nobody asked it to
        began = -inf
    run = replace(run, options=_require_durability(graph, run.options))
    head = head or await run.read_head()
    keep_order(run, await run.read_newest_head() if run.has_checkpoint_id else head)
    stops = is_withdrawal(run.input)
    head = await _find_intact_head(graph, run, head, client=client)
    if head is None:
        if (run.is_resume or stops) and run.thread:
            msg = f"No thread {run.thread!r} is saved here; start it with a message."
            raise ThreadNotFound(msg)
        return run
    if await run.is_repeat(head, client=client):
        return await _repeat_run(graph, run, head)
    if stops and STOPPING not in graph.own_builder.writable_keys:
        await write_state(graph, run.make_saver_config(), StateUpdate(None, END))
        return replace(run, input=None)
    inbox = graph.own_builder.inbox
    waiting = await read_inbox(run, inbox, began)
    run = await _take_up_wishes(graph, run, head, waiting, stops=stops)
    if inbox is not None and waiting.settled:  # what was said is saved with the thread by now
        await inbox.forget_wishes(run.thread, waiting.settled)
    await _forget_scratch(graph, run, head)
    return run if stops else replace(run, input=await _resolve_input(graph, run, head))


async def _find_intact_head(
    graph: Graph, run: Run, head: ThreadHead | None, *, client: bool
) -> ThreadHead | None:
    """Where the run starts from, once nothing is missing there."""
    if head is None:
        return None
    check_nodes(run, head, graph)
    try:
        await check_values(run, head.saved.config, head.saved.parent_config)
    except ThreadIncompatible:
        if run.has_checkpoint_id or not client or not await restore_thread(graph, run, head):
            raise
        if (head := await run.read_head()) is not None:
            await check_values(run, head.saved.config, head.saved.parent_config)
    return head


async def _repeat_run(graph: Graph, run: Run, head: ThreadHead) -> Run:
    """A run that its server repeats: its input is saved, and perhaps answered."""
    run = replace(run, input=None)
    await _update_state(graph, run, head, (), stops=False)
    return run


async def _check_run_input(
    graph: Graph, run: Run, *, client: bool
) -> tuple[Run, ThreadHead | None]:
    """The run with its input checked, and the thread's head where that had to be read for it."""
    head = None
    if isinstance(run.input, TurnInput):
        head = await run.read_head()
        run = await run.input.choose_input(graph, run, head)
    check_input(run)
    if client and isinstance(run.input, Mapping) and run.input.get("messages"):
        run = await _clean_client_messages(graph, run)
    return run, head


async def _clean_client_messages(graph: Graph, run: Run) -> Run:
    """The run with what its client says, of which nothing passes for words of the run."""
    given = run.input["messages"]
    said = read_messages(given if isinstance(given, list) else [given])
    known: Sequence[AnyMessage] = ()
    if run.saver and run.thread and any(one.id and not _is_users(one) for one in said):
        known = (await read_whole_state(graph, run.make_saver_config())).values.get(
            "messages"
        ) or ()
    return replace(run, input={**run.input, "messages": strip_marks(said, known)})


def _is_users(message: AnyMessage) -> bool:
    """Whether it is a user's by its looks: front ends name them so, and no run does."""
    return message.type == "human" and _UUID.fullmatch(str(message.id)) is not None


_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


async def _take_up_wishes(
    graph: Graph, run: Run, head: ThreadHead, waiting: InboxInput, *, stops: bool
) -> Run:
    """Take up what was said meanwhile, and the wish to stop; where there is nothing to stop, rest.

    What was said begins a turn where nothing else does.
    """
    said = await _drop_known_messages(graph, run, head, waiting.messages)
    over = head.status is not None and not head.find_next_nodes()
    if stops and over and not said:
        return replace(run, input=None)
    if stops or (said and run.input is None):
        run = replace(run, input={"messages": []})
    await _update_state(graph, run, head, said, stops=stops)
    return run


async def _drop_known_messages(
    graph: Graph, run: Run, head: ThreadHead, messages: Sequence[BaseMessage]
) -> list[BaseMessage]:
    """Those that the thread does not have yet: a crash may have come before they were settled."""
    if not messages:
        return []
    known = (await read_whole_state(graph, run.make_saver_config())).values.get("messages") or []
    known += [one for key, value in head.own_writes if key == "messages" for one in value]
    marks = {one.additional_kwargs.get(STEERS) for one in known if isinstance(one, BaseMessage)}
    return [one for one in messages if one.additional_kwargs[STEERS] not in marks]


def _require_durability(graph: Graph, options: dict[str, Any]) -> dict[str, Any]:
    if not graph.own_builder.writes():
        return options
    if options.get("durability") == "exit":
        msg = (
            f'durability="exit" is refused by the graph {graph.name!r}: its tools change the'
            ' world, and a crash would forget that they did. Leave it out, or use "sync".'
        )
        raise SettingsError(msg)
    return {**options, "durability": "sync"}


async def _update_state(
    graph: Graph, run: Run, head: ThreadHead, said: Sequence[BaseMessage], *, stops: bool
) -> None:
    """Write what this run must find in the state and no node of an earlier one has put there."""
    update = {**await _migrate_state(graph, run, head), **await _collect_cut_off(graph, run, head)}
    if (
        STOPPING in graph.own_builder.writable_keys
        and _is_turn_start(run)
        and head.values.get(STOPPING, False) != stops
    ):
        update[STOPPING] = stops
    if told := [*_take_back_cut(run, head), *said]:
        update["messages"] = told
    if update and run.saver is not None:
        await write_update(
            run.saver, head.saved.config, head, graph.own_builder.pack_update(update)
        )


def _take_back_cut(run: Run, head: ThreadHead) -> list[RemoveMessage]:
    """The removal of what the end of a run has cut: a resume runs the step that wrote it again."""
    said = [one for key, value in head.own_writes if key == "messages" for one in value]
    cut = [one for one in said if CUT in getattr(one, "additional_kwargs", ())]
    return [RemoveMessage(id=str(one.id)) for one in cut if run.is_resume]


def _is_turn_start(run: Run) -> bool:
    """Whether a turn begins, or ends before its time."""
    return not (run.is_resume or run.has_checkpoint_id or isinstance(run.input, Command))


async def _migrate_state(graph: Graph, run: Run, head: ThreadHead) -> dict[str, Any]:
    """The state of an older version of the package, brought up to date."""
    version = head.values.get("schema_version")
    if "schema_version" not in graph.own_builder.writable_keys or version == SCHEMA_VERSION:
        return {}
    state = await read_whole_state(graph, run.make_saver_config())
    # Of an older version the state tells nothing: that of schema 2 had a channel for each field.
    update = migrate({**unpack_fields(state.values), "schema_version": version}, thread=run.thread)
    return {key: value for key, value in update.items() if key in graph.own_builder.writable_keys}


async def _collect_cut_off(graph: Graph, run: Run, head: ThreadHead) -> Mapping[str, Any]:
    """What a turn had finished that a new message ends before its time; a resume finds it."""
    if (
        not _is_turn_start(run)
        or CUT_OFF not in graph.own_builder.writable_keys
        or CUT_OFF in head.own_values
    ):
        return {}
    finished = (
        await _read_inner_state(graph, run)
        if graph.own_builder.inside
        else head.list_task_returns()
    )
    return {CUT_OFF: finished} if finished else {}


async def _read_inner_state(graph: Graph, run: Run) -> list[Any]:
    """What the graph had in its state in which the turn was cut off, with its name."""
    left: list[Any] = []
    for task in (await read_whole_state(graph, run.make_saver_config())).tasks:
        inner, where = (
            graph.own_builder.inside.get(task.name),
            run.make_saver_config(f"{task.name}:{task.id}"),
        )
        saved = None if inner is None or run.saver is None else await run.saver.aget_tuple(where)
        if inner is not None and saved is not None:
            values = await read_saved_values(inner, where["configurable"] | {keys.SAVER: run.saver})
            left.append(
                {**values, "graph": task.name, CUT_OFF: ThreadHead(saved).list_task_returns()}
            )
    return left


async def _forget_scratch(graph: Graph, run: Run, head: ThreadHead) -> None:
    """Before a new turn on a thread at rest, drop what only the last one's resume needed."""
    forget = getattr(run.saver, "forget_scratch", None)
    if (
        forget
        and graph.own_builder.scratch
        and not (run.has_checkpoint_id or head.find_next_nodes())
    ):
        await run_in_worker(run.saver, forget, run.thread, graph.own_builder.scratch)


async def _resolve_input(graph: Graph, run: Run, head: ThreadHead) -> Any:
    if isinstance(run.input, Command):
        asked = [question for _, question in head.iterate_questions()]
        given = replace(run.input, update=graph.own_builder.pack_update(run.input.update))
        return address_answer(run, given, await run.list_questions(head), asked=asked)
    if run.input is None and head.status in RESUMABLE and not run.has_checkpoint_id:
        state = await read_whole_state(graph, run.make_saver_config())
        # An ended thread has no task to go on with: a turn without a new message is one.
        return None if state.next else {"messages": []}
    return run.input


_REPORTED_LEAD: Final = 60.0
"""Seconds by which clocks may differ before the log says so."""

_COPY: Final = "__copy__"
"""What LangGraph calls the node of an update that saves an older checkpoint as the newest."""


def check_nodes(run: Run, head: ThreadHead, graph: Graph) -> None:
    """Refuse a thread of another graph, or of another version; raises ThreadIncompatible."""
    if graph.own_builder.whole and (foreign := head.find_foreign_nodes(graph.nodes)):
        names = ", ".join(map(repr, foreign))
        msg = (
            f"Thread {run.thread!r} has been at {names}, which the graph {graph.name!r} does not"
            " have: continue it with the graph that it belongs to, or start a new thread."
        )
        raise ThreadIncompatible(msg)
    if missing := head.find_missing_nodes(graph.nodes, graph.channels):
        names = ", ".join(map(repr, missing))
        msg = (
            f"Thread {run.thread!r} waits at {names}, which the graph {graph.name!r} does not"
            " have: another version or another graph saved it. Continue it with that one, or"
            " start a new thread."
        )
        raise ThreadIncompatible(msg)


async def check_values(run: Run, at: RunnableConfig, parent: RunnableConfig | None) -> None:
    """Refuse a checkpoint whose values were deleted with older ones; raises ThreadIncompatible.

    `parent` is the checkpoint that it followed.
    """
    if run.saver is not None and (lost := await find_lost_async(run.saver, at, parent)):
        raise ThreadIncompatible(describe_incomplete(run.thread, lost))


def keep_order(run: Run, newest: ThreadHead | None) -> None:
    """See that what is saved from now on is newer than what the thread has, whatever the clock.

    Another machine, or this one before its clock was set, may have saved the thread by a clock
    that was ahead: what is saved now would count as older, and the thread would stand still.
    """
    ahead = 0.0 if newest is None else keys.advance_checkpoint_ids(newest.saved.checkpoint["id"])
    if ahead > _REPORTED_LEAD:
        log.warning(
            "Thread %r was saved by a clock that is %s ahead of this one: its checkpoints are"
            " numbered from there on. Look which clock is wrong.",
            run.thread,
            timedelta(seconds=round(ahead)),
        )


async def restore_thread(graph: Graph, run: Run, head: ThreadHead) -> bool:
    """Put a thread back to where it was before the run that saved its incomplete head.

    LangGraph's server deletes the saved steps of a run when a message rolls it back, sometimes
    before the run has ended. Later saves of that run share values with the deleted ones. Returns
    False if no run was rolled back: then somebody has deleted checkpoints.
    """
    saver, gone = run.saver, head.saved.metadata.get("run_id")
    if saver is None or gone is None:
        return False
    place = RunnableConfig(configurable={"thread_id": run.thread, "checkpoint_ns": ""})
    async for saved in saver.alist(place):
        if saved.metadata.get("run_id") != gone:
            where = {**saved.config["configurable"], keys.SAVER: saver}
            await write_state(graph, {"configurable": where}, StateUpdate(None, _COPY))
            return True
    if not head.find_next_nodes() or head.values.get("turn", 0) > 1:
        return False
    await _reset_thread(saver, place)
    return True


async def _reset_thread(saver: BaseCheckpointSaver[Any], place: RunnableConfig) -> None:
    """Let a thread stand where it stood before its first run."""
    about = CheckpointMetadata(source="fork", step=-2, parents={})
    await saver.aput(place, empty_checkpoint(), about, {})

"""Commands for a thread that another process may run, and for the turns that wait for it."""

import json
import shlex
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final

from langchain_core.messages import messages_from_dict
from langchain_core.runnables import RunnableConfig
from langgraph.types import Command

from ..graphs.registry import find_builder
from ..state.errors import SettingsError
from ..store.threads.thread_list import GRAPH_KEY
from ..store.work.turns import Turn, find_queue
from .agents import Graph, load_origin, load_user_graph
from .settings import DEFAULT_GRAPH, Settings, check_thread_id, parse_age, read_goal
from .terminal import Code, Output, clean, shorten_line
from .threads import format_age, print_table

_TITLES: Final = ("thread", "turn", "state", "since", "message")


def stop_thread(settings: Settings, output: Output, thread: str) -> int:
    """End the thread's turn as cancelled; the exit code."""
    with _open_thread(settings, thread) as (graph, config, resume):
        outcome = graph.stop(config)
    said = [f"The run of {thread} ends at its next border, as cancelled."]
    if outcome is not None:
        said = [f"{thread}: {outcome['headline']}", outcome["answer"]]
    said += [f"Go on with it later: {resume}"] if resume else []
    return output.report({"thread": thread, "running": outcome is None, "outcome": outcome}, *said)


def steer_thread(settings: Settings, output: Output, thread: str, message: str) -> int:
    """Hand a message to the thread's running turn; the exit code."""
    words = read_goal(message, "message")
    with _open_thread(settings, thread) as (graph, config, _):
        handed_over = graph.steer(config, words)
    if not handed_over:
        msg = (
            f"No run holds the thread {thread!r}, so nothing was handed over: give it the message"
            f" with `{shlex.join(['loopwright', 'run', '--thread', thread, words])}`."
        )
        raise SettingsError(msg)
    said = f"Handed over: the run of {thread} takes it up at its next border."
    return output.report({"thread": thread, "running": True}, said)


def enqueue_message(
    settings: Settings,
    output: Output,
    thread: str,
    message: str,
    name: str | None,
    *,
    answers: bool,
    at: str | None,
    every: str,
) -> int:
    """Put a message behind those that wait for the thread, or an answer before; the exit code."""
    due_at = None if at is None else _parse_due(at)
    words = read_goal(message, "message")
    given: Any = Command(resume=words) if answers else words
    with _open_thread(settings, thread) as (graph, config, _):
        turn = graph.enqueue(config, given, id=name, at=due_at, every=every)
    shown = {"thread": turn.thread, "turn": turn.id, "graph": turn.graph, "state": turn.state}
    due = f" for {turn.at:%Y-%m-%d %H:%M} UTC" if turn.at else ""
    said = f"{turn.thread} {turn.id}: {turn.state}{due}; `loopwright worker` runs it."
    return output.report({**shown, "outcome": turn.outcome}, said)


def _parse_due(text: str) -> datetime | timedelta:
    """When a turn is due, as given under `--at`."""
    for read in (datetime.fromisoformat, partial(parse_age, name="--at")):
        with suppress(ValueError):
            return read(text)
    msg = f"--at {text!r} is no time: give one such as 2026-12-24T18:00Z, or 30m, 12h, 2d from now."
    raise SettingsError(msg)


@contextmanager
def _open_thread(settings: Settings, thread: str) -> Iterator[tuple[Graph, RunnableConfig, str]]:
    """The graph of a thread, its config, and the command that goes on with it, if one does."""
    thread_id = check_thread_id(thread)
    with settings.open() as durability:
        kept = load_origin(durability, thread_id)
        name = settings.graph or kept.get(GRAPH_KEY) or DEFAULT_GRAPH
        # To end a turn no model is asked and no tool is called.
        graph: Graph
        if settings.module is not None:
            graph = load_user_graph(settings.module, durability)
            name = graph.name
        else:
            graph = find_builder(name)(model="offline", durability=durability)
        config = RunnableConfig(
            configurable={"thread_id": thread_id}, metadata={**kept, GRAPH_KEY: name}
        )
        how = "" if settings.module else settings.build_resume_command(thread_id, durability.url)
        yield graph, config, how


def show_turns(settings: Settings, output: Output, thread: str | None, limit: int) -> int:
    """Print one line a turn, those that came first before the others."""
    name = None if thread is None else check_thread_id(thread)
    with settings.open() as durability:
        turns = durability.turns(name, limit=limit + 1)
    listed = turns[:limit]
    if output.json:
        output.write_result({"turns": [_turn_to_json(turn) for turn in listed]})
    elif not listed:
        output.write_error(f"no turns wait in {durability.url}.")
    else:
        print_table(output, _TITLES, [_build_row(turn, live=output.is_live) for turn in listed])
    if len(turns) > limit:
        output.write_error(f"only the first {limit} are shown: --limit shows more.")
    return Code.COMPLETE


def dequeue_turn(settings: Settings, output: Output, thread: str, turn: str) -> int:
    """Take a turn back that nobody is at; the exit code."""
    with settings.open() as durability:
        queue = find_queue(durability.journal)
        locks = durability.locks
        left = queue.dequeue(check_thread_id(thread), turn, lambda: locks) if queue else None
    if left is None or left.state != "dequeued":
        how = f"is {left.state} already" if left else "is not known: see `loopwright turns`"
        stop = f": `loopwright stop {thread}` ends it" if left and not left.over else ""
        msg = f"The turn {turn!r} of the thread {thread!r} {how}{stop}."
        raise SettingsError(msg)
    said = f"{left.thread} {left.id}: taken back, no worker will run it."
    return output.report(_turn_to_json(left), said)


def _build_row(turn: Turn, *, live: bool) -> tuple[str, ...]:
    since = (
        format_age(datetime.now(UTC) - turn.since) if live else f"{turn.since:%Y-%m-%d %H:%M:%S}"
    )
    text = f"({turn.why})" if turn.why else _describe_message(turn)
    return clean(turn.thread), clean(turn.id), turn.state, since, shorten_line(text, 80)


def _describe_message(turn: Turn) -> str:
    if turn.kind == "message":
        return messages_from_dict([turn.body["messages"][-1]])[0].text
    return json.dumps([*turn.body.get("answer", {}).values()], ensure_ascii=False)[1:-1]


def _turn_to_json(turn: Turn) -> dict[str, Any]:
    return {
        "thread": turn.thread,
        "turn": turn.id,
        "graph": turn.graph,
        "state": turn.state,
        "since": turn.since.isoformat(timespec="seconds"),
        "tries": turn.tries,
        "why": turn.why,
        "message": _describe_message(turn),
    }

"""`loopwright turns`, `loopwright dequeue`: what waits for a worker, and what is taken back."""

import json
from datetime import UTC, datetime
from typing import Any, Final

from langchain_core.messages import messages_from_dict

from ..state.errors import SettingsError
from ..store.turns import Turn, find_queue
from .settings import Settings, check_thread_id
from .terminal import Code, Output, clean, shorten_line
from .threads import format_age, print_table

_TITLES: Final = ("thread", "turn", "state", "since", "message")


def show_turns(settings: Settings, output: Output, thread: str | None, limit: int) -> int:
    """Print one line a turn, those that came first before the others."""
    name = None if thread is None else check_thread_id(thread)
    with settings.open() as durability:
        found = durability.turns(name, limit=limit + 1)
    listed = found[:limit]
    if output.json:
        output.write_result({"turns": [_turn_to_json(turn) for turn in listed]})
    elif not listed:
        output.write_error(f"no turns wait in {durability.url}.")
    else:
        print_table(output, _TITLES, [_build_row(turn, live=output.is_live) for turn in listed])
    if len(found) > limit:
        output.write_error(f"only the first {limit} are shown: --limit shows more.")
    return Code.COMPLETE


def dequeue_turn(settings: Settings, output: Output, thread: str, name: str) -> int:
    """Take a turn back that nobody is at; the exit code.

    Raises:
        SettingsError: The thread has none with this id, or it was too late.
    """
    with settings.open() as durability:
        queue = find_queue(durability.journal)
        locks = durability.locks
        turn = queue.dequeue(check_thread_id(thread), name, lambda: locks) if queue else None
    if turn is None or turn.state != "dequeued":
        how = f"is {turn.state} already" if turn else "is not known: see `loopwright turns`"
        stop = f": `loopwright stop {thread}` ends it" if turn and not turn.over else ""
        msg = f"The turn {name!r} of the thread {thread!r} {how}{stop}."
        raise SettingsError(msg)
    if output.json:
        output.write_result(_turn_to_json(turn))
    else:
        output.write_line(
            f"{clean(turn.thread)} {clean(turn.id)}: taken back, no worker will run it."
        )
    return Code.COMPLETE


def _build_row(turn: Turn, *, live: bool) -> tuple[str, ...]:
    since = (
        format_age(datetime.now(UTC) - turn.since) if live else f"{turn.since:%Y-%m-%d %H:%M:%S}"
    )
    told = f"({turn.why})" if turn.why else _describe_message(turn)
    return clean(turn.thread), clean(turn.id), turn.state, since, shorten_line(told, 80)


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

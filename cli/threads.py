"""The saved threads: listed, offered for a resume, pruned and dismissed."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..state.errors import DatabaseError, SettingsError, require_nonempty
from ..store.durability import Durability
from ..store.journal.intents import describe_uncertain_call
from ..store.threads.pruning import Pruned
from ..store.threads.thread_list import EXPIRY, ThreadSummary
from ..text.canonical import format_seconds, format_size, plural
from .settings import Settings, check_thread_id, parse_age
from .terminal import Code, Output, clean, render_call, shorten_line

_TITLES: Final = ("thread", "last change", "status", "done", "request")
_INCOMPLETE: Final = "older checkpoints, which it needs, were deleted"
_OFFERED: Final = 3
"""Threads that `run` names before it begins."""
_NAMED: Final = 20
"""Up to so many threads are named with the reason why they were left."""


def show_threads(settings: Settings, output: Output, which: Any, order: Any, limit: int) -> int:
    """Print one line a thread; tab-separated where nobody watches."""
    within = settings.read_expiry(EXPIRY)
    with settings.open() as durability:
        threads = durability.threads(which, order=order, limit=limit + 1)
    listed, sized = threads[:limit], order == "largest"
    if output.json:
        output.write_result({"threads": [_thread_to_json(thread, within) for thread in listed]})
    elif not listed:
        kind = f"no {which} threads" if which else "no threads"
        output.write_error(f"{kind} are saved in {durability.url}{'' if which else ' yet'}.")
    else:
        rows = [_build_row(thread, sized, live=output.is_live) for thread in listed]
        titles = (*_TITLES[:-1], *(("size",) if sized else ()), _TITLES[-1])
        print_table(output, titles, rows)
    if len(threads) > limit:
        output.write_error(f"only the first {limit} are shown: --limit shows more.")
    return Code.COMPLETE


def dismiss_threads(settings: Settings, output: Output, threads: Sequence[str]) -> int:
    """Delete threads; see `dismiss_thread`."""
    names = list(map(check_thread_id, threads))
    with settings.open() as durability:
        for name in names:
            dismiss_thread(durability, output, name)
    return Code.COMPLETE


def dismiss_thread(durability: Durability, output: Output, name: str) -> int:
    """Delete one; a call of it that may have taken effect is named, as nothing else records it."""
    doubts = list_doubtful_writes(durability, name)
    durability.dismiss(name)
    for call in doubts:
        called = render_call(call["tool"], call["arguments"], 400)
        output.write_error(f"it is not known whether this call took effect: {called}")
    output.write_line(f"{name} is deleted.")
    return Code.COMPLETE


def list_doubtful_writes(durability: Durability, thread: str) -> tuple[Mapping[str, Any], ...]:
    """The writes of a thread that began and did not end; empty if the database cannot say."""
    with suppress(DatabaseError):
        rows = durability.journal.rows(thread)
        return tuple(describe_uncertain_call(row) for row in rows if row.in_doubt and not row.told)
    return ()


def print_resume_hint(settings: Settings, output: Output) -> None:
    """On a terminal, list the unfinished threads that could be resumed instead."""
    if not (output.is_live and output.is_interactive):
        return
    with settings.open() as durability:
        threads = list_resumable(durability.unfinished(settings.read_expiry(EXPIRY)))
        how = settings.build_resume_command("ID", durability.url)
    if threads:
        output.write_line(f"Unfinished ({how}; `loopwright threads dismiss ID` deletes):")
    for thread in threads[:_OFFERED]:
        output.write_line(f"  {describe_thread(thread)}")
    if len(threads) > _OFFERED:
        output.write_line(f"  … {len(threads) - _OFFERED} more: loopwright threads --unfinished")


def list_resumable(threads: Sequence[ThreadSummary]) -> list[ThreadSummary]:
    """The threads that this command began: it knows their graph."""
    return [thread for thread in threads if thread.graph]


def describe_thread(thread: ThreadSummary) -> str:
    """One line: its id, age, status, progress and request."""
    about = [
        format_age(thread.age),
        _describe_status(thread),
        _describe_progress(thread),
        shorten_line(thread.request, 60),
    ]
    return f"{clean(thread.thread_id)}  {', '.join(filter(None, about))}"


def format_age(age: timedelta) -> str:
    """An age as people say it."""
    seconds = age.total_seconds()
    return f"{format_seconds(seconds)} ago" if seconds >= 60 else "just now"


def _describe_status(thread: ThreadSummary) -> str:
    """Held by a run, waiting for a human, how its last turn ended, or cut off."""
    if thread.incomplete:
        return "incomplete"
    status = "running" if thread.running else "waiting" if thread.waiting else thread.status
    return status or "unfinished"


def _describe_progress(thread: ThreadSummary) -> str:
    done, total = thread.progress
    return f"{done} of {total}" if total else ""


def _build_row(thread: ThreadSummary, sized: bool, *, live: bool) -> tuple[str, ...]:
    updated = datetime.fromisoformat(thread.updated).astimezone()
    when = format_age(thread.age) if live else f"{updated:%Y-%m-%d %H:%M:%S}"
    request = _INCOMPLETE if thread.incomplete else shorten_line(thread.request, 80)
    size = (format_size(thread.bytes or 0),) if sized else ()
    return (
        clean(thread.thread_id),
        when,
        _describe_status(thread),
        _describe_progress(thread),
        *size,
        request,
    )


def _thread_to_json(thread: ThreadSummary, within: timedelta) -> dict[str, Any]:
    done, total = thread.progress
    return {
        "thread": thread.thread_id,
        "graph": thread.graph,
        "updated": thread.updated,
        "seconds": round(thread.age.total_seconds()),
        "status": _describe_status(thread),
        "completed": done,
        "total": total,
        "offered": thread.is_offered(within),
        "expired": thread.expired,
        "bytes": thread.bytes,
        "request": thread.request,
    }


def print_table(output: Output, titles: Sequence[str], rows: Sequence[tuple[str, ...]]) -> None:
    """Print a table, the last column in what room is left; tab-separated where nobody watches."""
    if not output.is_live:
        for row in (titles, *rows):
            output.write_line("\t".join(row))
        return
    shown = Table(box=None, pad_edge=False, header_style="bold", expand=True)
    for title in titles:
        ratio = 1 if title == titles[-1] else None
        shown.add_column(title, no_wrap=True, overflow="ellipsis", ratio=ratio)
    for row in rows:
        shown.add_row(*map(Text, row))
    Console(highlight=False).print(shown)


def _read_kept(keep: str | None, turns: int | None, older_than: str | None) -> dict[str, Any]:
    """What to keep of a thread, as typed, as arguments of `Durability.prune`; one is given."""
    age = None if older_than is None else parse_age(older_than, "--older-than")
    wanted = {"keep": require_nonempty(keep, "--keep"), "turns": turns, "older_than": age}
    if sum(value is not None for value in wanted.values()) != 1:
        msg = "Say what is kept by one of --keep latest, --turns N and --older-than 30d."
        raise SettingsError(msg)
    return wanted


def prune_threads(
    settings: Settings,
    output: Output,
    thread: str | None,
    keep: str | None,
    turns: int | None,
    older_than: str | None,
    every: str | None,
) -> int:
    """Prune one thread or all, once or again and again; say what was left, and why.

    A database error ends the first round; a later round is tried again.
    """
    wanted = _read_kept(keep, turns, older_than)
    name = None if thread is None else check_thread_id(thread)
    pause = None if every is None else parse_age(every, "--every")
    if pause == timedelta():
        msg = f"--every {every!r} leaves no pause: give one such as 30m, 12h or 1d."
        raise SettingsError(msg)
    pruned = _prune_thread(settings, output, name, wanted)
    while pause is not None:
        time.sleep(pause.total_seconds())
        try:
            _prune_thread(settings, output, name, wanted)
        except DatabaseError as error:
            output.write_error(str(error))
    return Code.USAGE if name in pruned.left else Code.COMPLETE


def _prune_thread(
    settings: Settings, output: Output, name: str | None, wanted: dict[str, Any]
) -> Pruned:
    with settings.open() as durability:
        pruned = durability.prune(name, **wanted)
    _print_pruned(output, pruned)
    return pruned


def _print_pruned(output: Output, pruned: Pruned) -> None:
    size = {"before": pruned.before, "after": pruned.after}
    if output.json:
        output.write_result({"threads": pruned.threads, "left": pruned.left, "bytes": size})
        return
    if len(pruned.left) > _NAMED:
        for why, number in Counter(pruned.left.values()).most_common():
            output.write_line(f"{plural(number, 'thread')} left as they were: {why}")
    else:
        for thread, why in pruned.left.items():
            output.write_line(f"{clean(thread)} was left as it is: {why}")
    count = plural(len(pruned.threads), "thread")
    before, after = format_size(pruned.before), format_size(pruned.after)
    output.write_line(f"{count} pruned: {before} before, {after} now")
    if not pruned.shrunk:
        output.write_line(
            "The file keeps its size while others use it: what comes next fills the room."
        )

"""The saved threads: listed, offered for a resume, and dismissed."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..state.errors import DatabaseError
from ..store.durability import Durability
from ..store.journal.intents import describe_uncertain_call
from ..store.threads.thread_list import EXPIRY, ThreadSummary
from ..text.canonical import format_seconds, format_size
from .settings import Settings, check_thread_id
from .terminal import Code, Output, clean, render_call, shorten_line

_TITLES: Final = ("thread", "last change", "status", "done", "request")
_INCOMPLETE: Final = "older checkpoints, which it needs, were deleted"
_OFFERED: Final = 3
"""Threads that `run` names before it begins."""


def show_threads(settings: Settings, output: Output, which: Any, order: Any, limit: int) -> int:
    """Print one line a thread; tab-separated where nobody watches."""
    within = settings.read_expiry(EXPIRY)
    with settings.open() as durability:
        found = durability.threads(which, order=order, limit=limit + 1)
    listed, sized = found[:limit], order == "largest"
    if output.json:
        output.write_result({"threads": [_thread_to_json(thread, within) for thread in listed]})
    elif not listed:
        kind = f"no {which} threads" if which else "no threads"
        output.write_error(f"{kind} are saved in {durability.url}{'' if which else ' yet'}.")
    else:
        rows = [_build_row(one, sized, live=output.is_live) for one in listed]
        print_table(output, _list_titles(sized), rows)
    if len(found) > limit:
        output.write_error(f"only the first {limit} are shown: --limit shows more.")
    return Code.COMPLETE


def dismiss_threads(settings: Settings, output: Output, threads: Sequence[str]) -> int:
    """Delete threads; a call that may have taken effect is named, as nothing else knows of it."""
    names = list(map(check_thread_id, threads))
    with settings.open() as durability:
        for name in names:
            doubts = list_doubtful_writes(durability, name)
            durability.dismiss(name)
            for call in doubts:
                called = render_call(call["tool"], call["arguments"], 400)
                output.write_error(f"it is not known whether this call took effect: {called}")
            output.write_line(f"{name} is deleted.")
    return Code.COMPLETE


def list_doubtful_writes(durability: Durability, thread: str) -> tuple[Mapping[str, Any], ...]:
    """The writes of a thread that have begun and not ended; none where nobody can say."""
    with suppress(DatabaseError):
        rows = durability.journal.rows(thread)
        return tuple(describe_uncertain_call(row) for row in rows if row.in_doubt and not row.told)
    return ()


def print_resume_hint(settings: Settings, output: Output) -> None:
    """Tell who begins a thread on a terminal which unfinished ones could be resumed instead."""
    if not (output.is_live and output.is_interactive):
        return
    with settings.open() as durability:
        found = list_resumable(durability.unfinished(settings.read_expiry(EXPIRY)))
        how = settings.build_resume_command("ID", durability.url)
    if found:
        output.write_line(f"Unfinished ({how}; `loopwright threads dismiss ID` deletes):")
    for thread in found[:_OFFERED]:
        output.write_line(f"  {describe_thread(thread)}")
    if len(found) > _OFFERED:
        output.write_line(f"  … {len(found) - _OFFERED} more: loopwright threads --unfinished")


def list_resumable(found: Sequence[ThreadSummary]) -> list[ThreadSummary]:
    """Those that this command can go on with: it began them, so it knows their graph."""
    return [thread for thread in found if thread.graph]


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
    return (
        f"{format_seconds(age.total_seconds())} ago" if age >= timedelta(minutes=1) else "just now"
    )


def _describe_status(thread: ThreadSummary) -> str:
    """Held by a run, waiting for a human, how its last turn ended, or cut off."""
    if thread.incomplete:
        return "incomplete"
    found = "running" if thread.running else "waiting" if thread.waiting else thread.status
    return found or "unfinished"


def _describe_progress(thread: ThreadSummary) -> str:
    done, total = thread.progress
    return f"{done} of {total}" if total else ""


def _describe_age(thread: ThreadSummary) -> str:
    return datetime.fromisoformat(thread.updated).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def _list_titles(sized: bool) -> tuple[str, ...]:
    return (*_TITLES[:-1], *(("size",) if sized else ()), _TITLES[-1])


def _build_row(thread: ThreadSummary, sized: bool, *, live: bool) -> tuple[str, ...]:
    when = format_age(thread.age) if live else _describe_age(thread)
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

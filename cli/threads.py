"""`threads`: what is saved, newest first."""

from datetime import datetime

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..doors.durability import DEFAULT_URL, ThreadSummary, list_threads, open_durability
from .codes import Code
from .output import Output
from .settings import Settings
from .text import clean, short


def show_threads(settings: Settings, output: Output) -> int:
    """Print one line a thread; tab-separated where nobody watches.

    Raises:
        DatabaseError: The database cannot be opened.
    """
    url = settings.database_url(DEFAULT_URL)
    with open_durability(url) as durability:
        found = list_threads(durability)
    if not found:
        output.error(f"no threads are saved in {durability.url} yet.")
    elif output.live:
        Console(highlight=False).print(_table(found))
    else:
        for thread in found:
            output.line("\t".join(_row(thread)))
    return Code.COMPLETE


def _table(threads: list[ThreadSummary]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", expand=True)
    table.add_column("thread", no_wrap=True)
    table.add_column("last change", no_wrap=True)
    table.add_column("status", no_wrap=True)
    table.add_column("request", no_wrap=True, overflow="ellipsis", ratio=1)
    for thread in threads:
        table.add_row(*(Text(cell) for cell in _row(thread)))
    return table


def _row(thread: ThreadSummary) -> tuple[str, str, str, str]:
    when = datetime.fromisoformat(thread.updated).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    return clean(thread.thread_id), when, status_of(thread), short(thread.request, 80)


def status_of(thread: ThreadSummary) -> str:
    """Waiting for a human, cut off, or how its last turn ended."""
    if thread.waiting:
        return "waiting"
    return thread.status or "unfinished"

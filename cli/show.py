"""What there is to look at: `threads`, what is saved here; `graph`, how a graph is built."""

from datetime import datetime
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..doors.durability import DEFAULT_URL, open_durability
from ..doors.head import ThreadSummary, list_threads
from ..graphs.registry import drawn_graph
from .failures import Code
from .settings import Settings
from .terminal import Output, clean, short


def show_threads(settings: Settings, output: Output) -> int:
    """Print one line a thread, newest first; tab-separated where nobody watches."""
    with open_durability(settings.database_url(DEFAULT_URL)) as durability:
        rows = [_row(thread) for thread in list_threads(durability)]
    if not rows:
        output.error(f"no threads are saved in {durability.url} yet.")
    elif output.live:
        Console(highlight=False).print(_table(rows))
    else:
        for row in rows:
            output.line("\t".join(row))
    return Code.COMPLETE


def _row(thread: ThreadSummary) -> tuple[str, str, str, str]:
    when = datetime.fromisoformat(thread.updated).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    # Waiting for a human, how its last turn ended, or cut off.
    status = "waiting" if thread.waiting else thread.status or "unfinished"
    return clean(thread.thread_id), when, status, short(thread.request, 80)


def _table(rows: list[tuple[str, str, str, str]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", expand=True)
    for title in ("thread", "last change", "status"):
        table.add_column(title, no_wrap=True)
    table.add_column("request", no_wrap=True, overflow="ellipsis", ratio=1)
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def show_graph(output: Output, name: str, *, ascii_: bool) -> int:
    """Print a graph's drawing, as plain text or as Mermaid."""
    drawn = drawn_graph(name).get_graph()
    output.line(_as_text(drawn) if ascii_ else drawn.draw_mermaid().rstrip())
    return Code.COMPLETE


def _as_text(graph: Any) -> str:
    """One block a node: its name, then an arrow to each node that may follow.

    A dotted arrow is one of several ways, chosen at run time.
    """
    names = {"__start__": "START", "__end__": "END"}
    blocks: dict[str, list[str]] = {}
    for edge in graph.edges:
        arrow = "···>" if edge.conditional else "───>"
        line = f"  {arrow} {names.get(edge.target, edge.target)}"
        blocks.setdefault(edge.source, [names.get(edge.source, edge.source)]).append(line)
    return "\n\n".join("\n".join(blocks[node]) for node in graph.nodes if node in blocks)

"""The views a run writes to: a live task list on a terminal, plain lines anywhere else."""

import os
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any, Final, Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from .board import ENDED, FINISHED, Board, StepLine, TaskLine
from .keyboard import Keyboard
from .output import Output
from .plain import line_of
from .text import plural, short

STOPPING: Final = (
    "Stopping after what is running now; the thread stays saved. Ctrl-C again stops at once."
)
_ICONS: Final = {
    "success": ("✓", "green"),
    "error": ("✗", "red"),
    "pending": ("○", "dim"),
    "in_progress": ("▶", "cyan"),
    "completed": ("✓", "green"),
    "failed": ("✗", "red"),
    "skipped": ("↷", "dim"),
    "cancelled": ("⊘", "yellow"),
    "blocked": ("■", "yellow"),
}
_ASKS: Final = ("?", "yellow")
_OTHER_ROWS: Final = 14
"""Screen rows kept for everything but the tasks."""
_SHOWN_CALLS: Final = 4
_SHOWN_WARNINGS: Final = 3


class View(Protocol):
    """What a run tells its progress to."""

    def start(self, values: Mapping[str, Any]) -> None:
        """Show that a leg of the run begins; `values` is the thread's saved state."""

    def event(self, event: Mapping[str, Any]) -> None:
        """Show one progress event."""

    def tasks(self, todos: Iterable[Any]) -> None:
        """Show tasks as the state now has them."""

    def stopping(self) -> None:
        """Show that a stop was asked for. Called in a signal handler: it may not write buffered."""

    def stop(self) -> None:
        """The leg is over: leave the terminal to questions and the report."""


class PlainView:
    """One line an event."""

    def __init__(self, output: Output) -> None:
        """Write progress where `output` has it."""
        self._output = output

    def start(self, values: Mapping[str, Any]) -> None:
        """Nothing to prepare."""

    def event(self, event: Mapping[str, Any]) -> None:
        """Write the event's line, if it has one."""
        line = line_of(event)
        if line is not None:
            self._output.line(line)

    def tasks(self, todos: Iterable[Any]) -> None:
        """Task events have told it already."""

    def stopping(self) -> None:
        """Say so, past the buffers."""
        with suppress(OSError):
            os.write(2, f"{STOPPING}\n".encode())

    def stop(self) -> None:
        """Nothing to give back."""


class LiveView:
    """The task list with icons, the running calls, the spend and the warnings, redrawn in place."""

    def __init__(self, console: Console) -> None:
        """Draw on this console."""
        self._console = console
        self._board = Board()
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self._spinner = Spinner("dots", style="cyan")
        self._live: Live | None = None
        self._known = False
        self._keyboard = Keyboard()

    def start(self, values: Mapping[str, Any]) -> None:
        """Begin to draw."""
        if not self._known:
            self._known = True
            self._board.begin(values)
        self._keyboard.hush()
        self._live = Live(
            get_renderable=self._drawn, console=self._console, refresh_per_second=8, transient=True
        )
        self._live.start()

    def event(self, event: Mapping[str, Any]) -> None:
        """Take the event in; the next redraw shows it."""
        with self._lock:
            self._board.apply(event)

    def tasks(self, todos: Iterable[Any]) -> None:
        """Take the tasks in; the next redraw shows them."""
        with self._lock:
            self._board.put_tasks(todos)

    def stopping(self) -> None:
        """The next redraw shows it."""
        self._board.stopping = True

    def stop(self) -> None:
        """Stop redrawing; the tasks and warnings stay on the screen as they are."""
        if self._live is None:
            return
        self._live.stop()
        self._live = None
        self._keyboard.wake()
        rows = [*work_rows(self._board), *warning_rows(self._board, all_=True)]
        self._console.print(Group(*rows))

    def _drawn(self) -> RenderableType:
        with self._lock:
            rows = max(3, self._console.height - _OTHER_ROWS)
            return draw(self._board, time.monotonic() - self._began, self._spinner, rows)


def draw(board: Board, seconds: float, spinner: RenderableType, rows: int = 1_000) -> Group:
    """The whole view, with at most `rows` rows of tasks or steps."""
    head = Table.grid(padding=(0, 1))
    words = Text(board.phase, style="bold")
    head.add_row(spinner, words, Text(f"{seconds:.0f} s", style="dim"))
    stopping = [Text(STOPPING, style="yellow")] if board.stopping else []
    return Group(
        *work_rows(board, rows),
        head,
        *_call_rows(board),
        Text(spend_text(board.spend), style="dim", no_wrap=True, overflow="ellipsis"),
        *warning_rows(board),
        *stopping,
    )


def work_rows(board: Board, rows: int = 1_000) -> list[RenderableType]:
    """The tasks; in a graph without any, the latest steps: calls and what was seen in them."""
    if board.tasks:
        return task_rows(board, rows)
    left = len(board.steps) - rows
    above = [Text(f"  … {left} above", style="dim")] if left > 0 else []
    return [*above, *map(_step_row, board.steps[-rows:])]


def _step_row(step: StepLine) -> Text:
    icon, style = _ICONS.get(step.status, (" ", ""))
    row = Text(f"  {icon} ", style=style, no_wrap=True, overflow="ellipsis")
    return row.append(step.text, style="" if step.status else "dim")


def task_rows(board: Board, rows: int = 1_000) -> list[RenderableType]:
    """The tasks or steps under their percentage; a long list is cut to where the work is."""
    if not board.tasks:
        return []
    done = sum(task.status in FINISHED for task in board.tasks.values())
    title = f"{board.percent:3d} %  {done} of {plural(len(board.tasks), board.noun)} done"
    first, last = _window(board, rows)
    shown = list(islice(board.tasks.items(), first, last))
    lines: list[RenderableType] = [_task_row(name, task) for name, task in shown]
    if board.noun == "step":
        lines = [_step_table(board, shown)]
    above = [Text(f"  … {first} above", style="dim")] if first else []
    left = len(board.tasks) - last
    below = [Text(f"  … {left} more", style="dim")] if left else []
    return [Text(title, style="bold"), *above, *lines, *below]


def _window(board: Board, rows: int) -> tuple[int, int]:
    """Which tasks to show: from one before the first that has not ended."""
    tasks = list(board.tasks.values())
    if len(tasks) <= rows:
        return 0, len(tasks)
    current = next((i for i, t in enumerate(tasks) if t.status not in ENDED), len(tasks))
    first = max(0, min(current - 1, len(tasks) - rows))
    return first, first + rows


def _task_row(name: str, task: TaskLine) -> Text:
    icon, style = _ICONS.get(task.status, ("?", ""))
    row = Text(f"  {icon} ", style=style, no_wrap=True, overflow="ellipsis")
    row.append(short(f"{name}  {task.description}", 200), style="" if style == "cyan" else style)
    if task.note and task.status in ENDED:
        row.append(f"  {task.status}: {short(task.note, 200)}", style="red")
    return row


def _step_table(board: Board, steps: Iterable[tuple[str, TaskLine]]) -> Table:
    """Steps of a plan of tool calls in columns: id, tool, what it is for, how far it is."""
    table = Table.grid(padding=(0, 1), expand=True)
    for longest in (None, 16, 18):
        table.add_column(no_wrap=True, overflow="ellipsis", max_width=longest)
    table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    table.add_column(no_wrap=True, overflow="ellipsis", max_width=28)
    for name, step in steps:
        icon, style = _ASKS if step.asks else _ICONS.get(step.status, ("?", ""))
        plain = "" if style == "cyan" else style
        words = step.note if step.note and step.status in ENDED else step.description
        table.add_row(
            Text(f"  {icon}", style=style),
            Text(short(name, 40), style=plain),
            Text(short(step.tool, 40), style="dim"),
            Text(short(words, 200), style=plain),
            Text(_progress(board, step), style="dim"),
        )
    return table


def _progress(board: Board, step: TaskLine) -> str:
    """What a step waits for, or what it has taken."""
    if step.asks:
        return "waits for your approval"
    if step.status == "pending":
        waits = ", ".join(board.waits_for(step))
        return short(f"waits for {waits or 'its turn'}", 60) if waits or board.working else ""
    attempts = plural(step.attempts, "attempt") if step.attempts > 1 else ""
    seconds = f"{step.seconds:.1f} s" if step.attempts and step.status in ENDED else ""
    return ", ".join(filter(None, (attempts, seconds)))


def _call_rows(board: Board) -> list[Text]:
    calls = list(board.calls.values())
    shown = [_call_row(call) for call in calls[:_SHOWN_CALLS]]
    rest = len(calls) - _SHOWN_CALLS
    return [*shown, Text(f"  … {rest} more", style="dim")] if rest > 0 else shown


def _call_row(call: StepLine) -> Text:
    if call.status == "awaiting_approval":
        return Text(f"  ? {call.text}", style="yellow", no_wrap=True, overflow="ellipsis")
    return Text(f"  → {call.text}", style="cyan", no_wrap=True, overflow="ellipsis")


def warning_rows(board: Board, *, all_: bool = False) -> list[Text]:
    """The latest warnings, cut to a row each; or all of them, whole."""
    if all_:
        return [Text(f"! {text}", style="yellow") for text in board.warnings]
    return [
        Text(f"! {text}", style="yellow", no_wrap=True, overflow="ellipsis")
        for text in board.warnings[-_SHOWN_WARNINGS:]
    ]


def spend_text(spend: Mapping[str, Any]) -> str:
    """What a run has used, in words."""
    tokens = spend.get("input_tokens", 0) + spend.get("output_tokens", 0)
    parts = [
        plural(spend.get("model_calls", 0), "model call"),
        plural(spend.get("tool_calls", 0), "tool call"),
        plural(tokens, "token"),
    ]
    return " · ".join(parts)

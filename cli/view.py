"""A run on the screen: a live task list on a terminal, plain lines elsewhere, then the end."""

import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from itertools import chain, islice
from typing import Any, Final

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.markdown import CodeBlock, Markdown
from rich.padding import Padding
from rich.spinner import Spinner
from rich.table import Column, Table
from rich.text import Text
from rich.theme import Theme

from ..state.contracts import FINISHED
from ..state.plan import count_progress
from ..text.canonical import plural
from .progress import UNFINISHED, Board, Event, Step, render_event, render_item_count, render_spend
from .prompt import Keyboard
from .settings import NO_MODEL, NO_MODEL_SAID
from .terminal import Output, clean, render_call, shorten_line

STOPPING: Final = (
    "Stopping after what is running now; the thread stays saved. Ctrl-C again stops at once."
)
_ICONS: Final = {
    "success": ("✓", "green4"),
    "error": ("✗", "red"),
    "pending": ("○", "dim"),
    "in_progress": ("▶", "bold"),
    "completed": ("✓", "green4"),
    "failed": ("✗", "red"),
    "skipped": ("↷", "dim"),
    "cancelled": ("⊘", "magenta"),
    "blocked": ("■", "magenta"),
    "executing": ("→", "bold"),
    "awaiting_approval": ("?", "magenta"),
    "warning": ("!", "magenta"),
}
_OTHER_ROWS: Final = 14
"""Screen rows kept for everything but the tasks and what is written."""
_WRITTEN_ROWS: Final = 6
_STEERS: Final = "words typed here are handed to the running turn; Ctrl-C stops it"
_SHOWN_CALLS: Final = 4
_PLAIN: Final = Theme({
    "markdown.code": "bold", "markdown.code_block": "", "markdown.link": "underline",
    "markdown.link_url": "underline",
})  # fmt: skip
"""Rich's own styles have a black background, and colours that are pale on a white one."""

Outcome = Mapping[str, Any]
Records = Sequence[Mapping[str, Any]]


def make_console(*, stderr: bool) -> Console:
    """A console whose colours can be read on a dark and on a light terminal."""
    return Console(highlight=False, stderr=stderr, theme=_PLAIN)


class _Code(CodeBlock):
    """Code as it stands, without a background."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Padding(Text(str(self.text).rstrip()), (0, 2))


class PlainView:
    """One line an event, or with `--json` one object at the end.

    Attributes:
        modes: What it wants to see of a run's stream.
    """

    modes: tuple[str, ...] = ("custom", "updates")

    def __init__(self, output: Output, *, brief: bool = False) -> None:
        """Write to `output`; `brief` shortens the end to what the next message needs."""
        self._output, self._brief = output, brief

    def show_run(self, values: Mapping[str, Any]) -> AbstractContextManager[None]:  # noqa: ARG002 - the live view's
        """Show a part of the run; `values` is the thread's saved state before it."""
        return nullcontext()

    def show_event(self, event: Event) -> None:
        """Show one progress event, if it has a line."""
        line = render_event(event)
        if line is not None:
            self._output.write_line(line)

    def show_text(self, name: str, text: str, *, again: bool = False) -> None:
        """Show a piece of the message with this id; `again`: the message starts over."""

    def show_stopping(self) -> None:
        """Say that a stop was requested; unbuffered, so that a signal handler may call it."""
        with suppress(OSError):
            os.write(2, f"{STOPPING}\n".encode())

    def show_end(self, outcome: Outcome, evidence: Records) -> None:
        """Show the end: the answer, its evidence, what is missing and how to resume."""
        if self._output.json:
            self._output.write_result({**outcome, "thread": self._output.thread})
            return
        self._show_answer(clean(outcome["answer"]))
        lines = (
            list_brief_lines(outcome)
            if self._brief
            else list_closing_lines(self._output, outcome, evidence)
        )
        for line in lines:
            self._output.write_line(line)

    def _show_answer(self, text: str) -> None:
        self._output.write_line(f"\n{text}\n")


class LiveView(PlainView):
    """Tasks, running calls, spend, the message being written and typed words.

    What has ended scrolls away above: each call and each warning once, at the end the tasks.
    """

    modes = ("custom", "updates", "messages")

    def __init__(
        self,
        output: Output,
        console: Console,
        keyboard: Keyboard | None = None,
        *,
        brief: bool = False,
    ) -> None:
        """Draw on this console."""
        super().__init__(output, brief=brief)
        self._console, self._keyboard = console, keyboard
        self._written = ("", "")
        self._summarized: set[str] = set()
        self._board = Board()
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self._spinner = Spinner("dots", style="bold")
        self._known = False

    @contextmanager
    def show_run(self, values: Mapping[str, Any]) -> Iterator[None]:
        """Redraw during a part of the run; what has ended meanwhile stays on the screen."""
        if not self._known:
            self._known = True
            self._board.load_saved(values)
            self._show_news()
        live = Live(
            get_renderable=self._draw_view,
            console=self._console,
            refresh_per_second=8,
            transient=True,
        )
        quiet = self._keyboard.listen() if self._keyboard else nullcontext()
        try:
            with quiet, live:
                yield
        except BaseException:
            self._show_tasks()
            raise

    def show_event(self, event: Event) -> None:
        """Apply the event; the next redraw shows it, and above stays what has ended."""
        with self._lock:
            self._board.apply(event)
        self._show_news()
        if event.get("type") in {"plan", "task"}:  # their messages say what the tasks say
            self._summarized.add(str(event.get("message_id")))
            self._written = ("", "")

    def show_text(self, name: str, text: str, *, again: bool = False) -> None:
        """The next redraw shows it."""
        if name in self._summarized:
            return
        before, written = self._written
        self._written = name, text if again or name != before else written + text

    def show_stopping(self) -> None:
        """The next redraw shows it."""
        self._board.stopping = True

    def show_end(self, outcome: Outcome, evidence: Records) -> None:
        """Show the tasks, then the end."""
        self._show_tasks()
        super().show_end(outcome, evidence)

    def _show_answer(self, text: str) -> None:
        # Addresses are spelled out: a link must not hide where it leads.
        answer = Markdown(text, hyperlinks=False)
        answer.elements = {**Markdown.elements, "fence": _Code, "code_block": _Code}  # type: ignore[misc]  # of this one
        for token in chain(answer.parsed, *(one.children or () for one in answer.parsed)):
            token.content = clean(token.content)  # "&rlm;" has become what it stands for
            # Rich leaves HTML out, and with it <names> that are no HTML.
            token.type = {"html_inline": "text", "html_block": "fence"}.get(token.type, token.type)
        self._console.print("", answer, "")

    def _show_news(self) -> None:
        news, self._board.news = self._board.news, []
        for step in news:
            self._console.print(_build_step_row(step))

    def _show_tasks(self) -> None:
        if self._board.tasks:
            self._console.print(Group(*_build_task_rows(self._board)))

    def _draw_view(self) -> RenderableType:
        below = [*self._render_message(), *self._render_typed()]
        with self._lock:
            rows = max(3, self._console.height - _OTHER_ROWS - len(below))
            drawn = draw_board(self._board, time.monotonic() - self._began, self._spinner, rows)
        return Group(drawn, *below)

    def _render_message(self) -> list[Text]:
        """The last rows of what is being written."""
        tail = clean(self._written[1][-_WRITTEN_ROWS * self._console.width :]).strip()
        rows = Text(tail).wrap(self._console, self._console.width - 2)[-_WRITTEN_ROWS:]
        return [Text("  ").append_text(row) for row in rows] if tail else []

    def _render_typed(self) -> list[Text]:
        if self._keyboard is None or not self._keyboard.takes_messages:
            return []
        text = clean(self._keyboard.text[-3 * self._console.width :])
        return [Text(f"> {text}▏") if text else _build_row(f"> {_STEERS}", "dim")]


def draw_board(board: Board, seconds: float, spinner: RenderableType, rows: int = 1_000) -> Group:
    """The whole view, with at most `rows` rows of tasks or steps."""
    head = Table.grid(padding=(0, 1))
    head.add_row(spinner, Text(board.phase, style="bold"), Text(f"{seconds:.0f} s", style="dim"))
    calls = [step for step in board.steps.values() if step.is_running]
    return Group(
        *_build_task_rows(board, rows),
        head,
        *map(_build_step_row, calls[:_SHOWN_CALLS]),
        *_render_hidden_count(len(calls) - _SHOWN_CALLS, "more"),
        _build_row(render_spend(board.spend), style="dim"),
        *([Text(STOPPING, style="bold")] if board.stopping else []),
    )


def _build_row(text: str, style: str) -> Text:
    return Text(text, style=style, no_wrap=True, overflow="ellipsis")


def _build_task_rows(board: Board, rows: int = 1_000) -> list[RenderableType]:
    """The tasks or steps, cut to those around the current one."""
    if not board.tasks:
        return []
    tasks = list(board.tasks.values())
    done, total = count_progress(tasks)
    noun = "step" if any(task.get("tool") for task in tasks) else "task"
    title = f"{100 * done // total:3d} %  {done} of {plural(total, noun)} done"
    current = next((i for i, task in enumerate(tasks) if task["status"] in UNFINISHED), len(tasks))
    first = max(0, min(current - 1, len(tasks) - rows))
    table = Table.grid(padding=(0, 1), expand=True)
    for longest in (None, 16, 18):
        table.add_column(no_wrap=True, overflow="ellipsis", max_width=longest)
    table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    table.add_column(no_wrap=True, overflow="ellipsis", max_width=28)
    for name, task in islice(board.tasks.items(), first, first + rows):
        table.add_row(*_build_task_cells(board, name, task))
    below = _render_hidden_count(len(tasks) - first - rows, "more")
    return [Text(title, style="bold"), *_render_hidden_count(first, "above"), table, *below]


def _render_hidden_count(count: int, where: str) -> list[Text]:
    """Says how many rows are not shown, if any."""
    return [Text(f"  … {count} {where}", style="dim")] if count > 0 else []


def _build_step_row(step: Step) -> Table:
    icon, style = _ICONS.get(step.status, _ICONS["executing"])
    words = Text(step.text).append(f"  {step.about}" if step.about else "", "dim")
    row = Table.grid(Column(no_wrap=True), Column(overflow="fold"), padding=(0, 1))
    row.add_row(Text(f"  {icon}", style), words)
    return row


def _build_task_cells(board: Board, name: str, task: Mapping[str, Any]) -> list[Text]:
    """Icon, id, a step's tool, what it is for, how far it is."""
    tool, status = task.get("tool", ""), task["status"]
    why = shorten_line(task.get("feedback") or "", 200)
    icon, style = _ICONS.get("awaiting_approval" if task.get("asks") else status, ("?", ""))
    plain = style if style in {"dim", "red"} else ""
    words = shorten_line(task.get("description", ""), 200)
    if why and status not in {*UNFINISHED, "completed"}:
        words = why if tool else f"{words}  {status}: {why}"
    return [
        Text(f"  {icon}", style=style),
        Text(shorten_line(name, 40), style=plain),
        Text(shorten_line(tool, 40), style="dim"),
        Text(words, style=plain),
        Text(_describe_progress(board, task), style="dim"),
    ]


def _describe_progress(board: Board, task: Mapping[str, Any]) -> str:
    """What a step waits for, or how long it took."""
    if task.get("asks"):
        return "waits for your approval"
    if not task.get("tool"):
        return ""
    if task["status"] == "pending":
        known = [str(name) for name in task.get("depends_on") or () if str(name) in board.tasks]
        waits = ", ".join(name for name in known if board.tasks[name]["status"] not in FINISHED)
        # One that could begin waits for a step that runs, or for a slot.
        running = any(other["status"] == "in_progress" for other in board.tasks.values())
        return shorten_line(f"waits for {waits or 'its turn'}", 60) if waits or running else ""
    made, items = int(task.get("attempts") or 0), render_item_count(task)
    attempts = items or (plural(made, "attempt") if made > 1 else "")
    ended = made and task["status"] not in UNFINISHED
    return ", ".join(filter(None, (attempts, f"{task.get('seconds', 0):.1f} s" if ended else "")))


def list_brief_lines(outcome: Outcome) -> list[str]:
    """The lines after an answer in a conversation: the outcome, and what is left open."""
    return [f"{outcome['headline']} {render_spend(outcome['spend'])}", *_list_open_work(outcome)]


def _list_open_work(outcome: Outcome) -> list[str]:
    # A partial answer lists what is missing in its own words: not twice.
    unmet = [text for text in outcome["unmet"] if text not in outcome["answer"]]
    return [
        *_render_section("Unmet", [f"- {shorten_line(text, 300)}" for text in unmet]),
        *_render_section(
            "Uncertain", [_render_uncertain(call) for call in outcome["uncertain_calls"]]
        ),
    ]


def list_closing_lines(output: Output, outcome: Outcome, evidence: Records) -> list[str]:
    """Everything after the answer, line by line."""
    roles: dict[str, list[str]] = {}
    for role, model in outcome["models"].items():
        roles.setdefault(model, []).append(role)
    models = "; ".join(f"{model} ({', '.join(roles[model])})" for model in roles)
    lines = [
        outcome["headline"],
        *_list_open_work(outcome),
        *_render_section("Evidence", _list_evidence(outcome, evidence)),
        f"Models: {models or 'none'}",
        f"Spend: {render_spend(outcome['spend'])}",
        f"Thread: {output.thread}",
    ]
    if outcome.get("resume"):
        lines.append(f"Go on with: {output.resume}")
    if "offline" in roles and NO_MODEL_SAID not in outcome["answer"]:
        lines.append(NO_MODEL)
    return lines


def _render_section(title: str, lines: list[str]) -> list[str]:
    return [f"{title}:", *(f"  {line}" for line in lines)] if lines else []


def _render_uncertain(call: Mapping[str, Any]) -> str:
    called = render_call(call.get("tool"), call.get("arguments"), 80)
    return f"? {called}: {shorten_line(call.get('why', ''), 200)}".rstrip(": ")


def _list_evidence(outcome: Outcome, evidence: Records) -> list[str]:
    """Per task the calls that prove it, or its report; without tasks, every call."""
    records = {record["id"]: record for record in evidence}
    if not outcome["tasks"]:
        return [_render_evidence(name, record) for name, record in records.items()]
    lines: list[str] = []
    for task in outcome["tasks"]:
        lines.append(f"{task['id']}  {shorten_line(task['description'], 80)} ({task['status']})")
        lines += [
            f"   {_render_evidence(name, records.get(name, {}))}" for name in task["evidence"]
        ]
    return lines


def _render_evidence(name: str, record: Mapping[str, Any]) -> str:
    mark, _ = _ICONS.get(str(record.get("status")), ("·", ""))
    tool = record.get("tool")
    text = render_call(tool, record.get("arguments"), 80) if tool else "the task's own report"
    return f"{mark} [{name}] {text}"

"""The questions of a thread: asked at the terminal, or answered by a given text."""

import json
import os
import re
import shlex
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from difflib import unified_diff
from pathlib import Path
from typing import Any, Final, assert_never, get_args

from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from ..state.questions import AnswerKind
from ..text.display import show_json, show_text
from .prompt import read_typed_line
from .terminal import clean, shorten_middle

_ONLY_SHOWN: Final = frozenset({"finished", "changes", "problems"})
_ALL: Final[tuple[AnswerKind, ...]] = get_args(AnswerKind)
_LONGEST, _SHOWN_LINES, _LAST_LINES, _SHOWN_COLUMNS = 2_000, 30, 6, 400
_COMPARED: Final = 200_000
"""Bytes of a file that is compared with what is to be written."""
_DIFF_STYLES: Final = {"+": "green4", "-": "red", "@": "dim"}

_OPEN: Final = "[q]uit this question (it stays open)"
_WORDS: Final = "Type the answer; [q]uit leaves this question open"
_KINDS: Final = {
    "uncertain": (
        "Uncertain call",
        f"[i]t ran (give its result)  [o]nce more (run it again)  [g]ive up  {_OPEN}",
    ),
    "call": (
        "Approval needed",
        "[a]pprove  [s]ession (approve, and ask no more about this tool in this thread)  "
        f"[r]eject  [e]dit  [f]ull arguments  {_OPEN}",
    ),
    "foreign": (
        "Approval needed",
        f"[a]pprove this call  [r]eject  [e]dit  [f]ull arguments  {_OPEN}",
    ),
    "review": (
        "Plan",
        f"[a]pprove  [r]eject  [e]dit  [f]ull plan  {_OPEN}, or say in words what should change",
    ),
    "user": ("Question", _WORDS),
    "form": ("A tool asks", f"Type the answer, or the fields as JSON; [d]ecline  {_OPEN}"),
    "asked": ("Question", f"Type the answer, or the fields as JSON; [d]ecline  {_OPEN}"),
    "confirm": ("A tool asks", f"[y]es  [n]o  {_OPEN}"),
    "desk": ("A colleague has this conversation", _WORDS),
    "other": ("Waiting for an answer", _WORDS),
}
"""The kinds of questions: title and menu; a letter in brackets or the word it begins chooses."""
_NAMES: Final = {"review_plan": "review", "review_flow": "review", "ask_user": "user"}
"""The kinds of questions that no tool asks, by their name."""
_TYPES: Final = {
    "uncertain_call": "uncertain", "elicitation": "form", "ask_user": "asked", "take_over": "desk",
}  # fmt: skip
"""The kinds of questions by the type that their payload names."""
_ALIASES: Final = {"y": "a", "yes": "a", "n": "r", "no": "r"}

Reply = dict[str, Any] | str | None
"""An answer, if there is one. A question of a tool's own gets the plain text."""


@dataclass(frozen=True)
class Question:
    """One open question.

    Attributes:
        id: The interrupt's id.
        value: The whole payload.
        description: The question in words.
        kind: `call`: may a tool be called; `uncertain`: did a call run; `review` of a plan; `user`:
            the planner asks, `asked`: an agent; `form`, or `confirm` by yes or no: a tool's server;
            `desk`: a colleague has the customer; `other`: a tool's own question.
        name: The tool, or what the question is called.
        args: The tool's arguments, or the plan.
        allowed: The kinds of answers it takes.
        expires_at: When an answer comes too late; None where it never does.
    """

    id: str
    value: Any
    description: str
    kind: str = "other"
    name: str = ""
    args: dict[str, Any] = field(default_factory=dict)
    allowed: tuple[str, ...] = _ALL
    expires_at: datetime | None = None

    @classmethod
    def from_interrupt(cls, interrupt: Any) -> "Question":
        """Read an interrupt; an unknown payload becomes a question for a text."""
        value = interrupt.value if isinstance(interrupt.value, dict) else {}
        requests = value.get("action_requests")
        if not isinstance(requests, list) or not requests:
            return cls(interrupt.id, interrupt.value, show_json(interrupt.value))
        request, reviews = requests[0], value.get("review_configs") or [{}]
        name, expires_at = str(request.get("name", "")), value.get("expires_at")
        kind = "call" if "tool_call_id" in request else _NAMES.get(name, "call")
        kind = _TYPES.get(str(value.get("type")), "foreign" if value.get("foreign") else kind)
        allowed = tuple(reviews[0].get("allowed_decisions") or _ALL)
        return cls(
            interrupt.id,
            value,
            str(request.get("description") or ""),
            kind="confirm" if kind == "form" and "approve" in allowed else kind,
            name=name,
            args=dict(request.get("args") or {}),
            allowed=allowed,
            expires_at=datetime.fromisoformat(expires_at) if expires_at else None,
        )

    @property
    def is_call(self) -> bool:
        """Whether it is about a tool call."""
        return self.kind in {"call", "foreign", "uncertain"}

    @property
    def choices(self) -> str:
        """What can be typed."""
        return _KINDS[self.kind][1]

    @property
    def editable_arguments(self) -> str:
        """The arguments that can be changed, as JSON."""
        shown = _ONLY_SHOWN if self.kind == "review" else ()
        return show_json({k: v for k, v in self.args.items() if k not in shown}, indent=2)

    @property
    def answer_hint(self) -> str:
        """How to answer it with text given to `resume`."""
        uncertain = self.kind == "uncertain"
        return ", ".join(_explain_answer(kind, uncertain) for kind in _ALL if kind in self.allowed)

    def render_text(self) -> str:
        """The question as plain text."""
        if not self.is_call:
            return clean(self.description)
        arguments = show_json(self.args) if self.args else ""
        called = shorten_middle(" ".join(clean(f"{self.name} {arguments}").split()), _LONGEST)
        if self.kind == "uncertain":
            return f"Did {called} take effect? It was begun, and its end is not known."
        expiry = self.describe_expiry(datetime.now(UTC))
        asked = f"May {called} be called?" + (f" ({expiry})" if expiry else "")
        return f"{clean(self.value.get('objection', ''))} {asked}".lstrip()

    def describe_expiry(self, now: datetime) -> str:
        """Until when an answer counts, in words; empty if there is no limit."""
        if self.expires_at is None:
            return ""
        at = self.expires_at.astimezone().strftime("%Y-%m-%d %H:%M:%S")
        left = int((self.expires_at - now).total_seconds())
        for size, unit in ((86_400, "days"), (3_600, "hours"), (60, "min")):
            if left >= 2 * size:
                return f"expires at {at}, in {left // size} {unit}"
        return f"expires at {at}, in {left} s" if left > 0 else f"expired at {at}"


def _explain_answer(kind: AnswerKind, uncertain: bool) -> str:
    """What to type for an answer."""
    match kind:
        case "approve":
            return "approve to run it again" if uncertain else "approve"
        case "edit":
            return '{"type": "edit", "args": {…}}'
        case "reject":
            return "reject to give up" if uncertain else "reject: reason"
        case "respond":
            return "respond: its result, if it ran" if uncertain else "respond: text"
        case _:
            assert_never(kind)


def parse_answers(text: str, pending: Sequence[Question]) -> Any:
    """Answers by the ids of their questions, if the text is JSON of them; else one answer."""
    try:
        answers = json.loads(text)
    except (ValueError, RecursionError):
        return text
    ids = {question.id for question in pending}
    return answers if isinstance(answers, dict) and answers and set(answers) <= ids else text


class Asker:
    """Asks the person at the terminal, one question after another."""

    def __init__(self, console: Console, read: Callable[[], str] = read_typed_line) -> None:
        """Show questions on the console; `read` gives typed lines, and EOFError at their end."""
        self._console = console
        self._read = read

    def ask(self, question: Question, place: str = "") -> Reply:
        """Ask one question, with its place such as `1 of 3`; None if it stays open."""
        title = _KINDS[question.kind][0] + (f" ({place})" if place else "")
        diff = self._show(question, title)
        with suppress(EOFError):
            while (choice := _parse_choice(self._read(), question))[0] != "q":
                if choice[0] in ("a", "s") and diff != _compare_file(question):
                    self._say("The file has changed since it was shown; nothing is approved yet:")
                    diff = self._show(question, title)
                elif reply := self._build_reply(*choice, question):
                    return reply
                else:
                    self._say(question.choices)
        return None

    def _show(self, question: Question, title: str) -> list[str]:
        """Show a question and what can be typed; the diff that was shown."""
        diff = _compare_file(question)
        body = _render_call(question, diff) if question.is_call else _render_question(question)
        self._console.print(Panel(body, title=title, title_align="left", border_style="magenta"))
        self._say(question.choices)
        return diff

    def _build_reply(self, letter: str, rest: str, question: Question) -> Reply:
        """The answer for a choice; None if there is none yet."""
        match letter:
            case "a" | "o" | "y":
                return {"type": "approve"}
            case "s":
                return {"type": "approve", "remember": "tool"}
            case "r":
                why = "Why? (the model is told; empty is fine)"
                return {"type": "reject", "message": rest or self._read_line(why)}
            case "g" | "d" | "n":
                return {"type": "reject", "message": rest}
            case "i":
                result = self._read_line(
                    "What was its result? (the model is told; empty: not known)"
                )
                return {"type": "respond", "message": result or "It ran; its result is not known."}
            case "e":
                return self._edit(question)
            case "f":
                self._say(clean(question.editable_arguments))
                return None
            case _:
                told = {"type": "respond", "message": rest}
                return (rest if question.kind == "other" else told) if rest else None

    def _edit(self, question: Question) -> Reply:
        problem = "This must be a JSON object"
        try:
            arguments = json.loads(self._edit_text(question.editable_arguments))
        except (ValueError, RecursionError) as error:
            arguments, problem = None, f"This is no valid JSON ({error})"
        if isinstance(arguments, dict):
            return {"type": "edit", "args": arguments}
        self._say(f"{problem}; nothing was changed.")
        return None

    def _edit_text(self, text: str) -> str:
        editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
        if not editor:
            return self._read_line("The new version as one line of JSON:")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "arguments.json")
            path.write_text(text, encoding="utf-8")
            try:
                # The user's own editor with the user's own words, as git and crontab run it.
                subprocess.run([*shlex.split(editor), str(path)], check=True)
                return path.read_text(encoding="utf-8")
            except (OSError, ValueError, subprocess.CalledProcessError) as error:
                failed = f"The editor {editor!r} failed: {error}."
                return self._read_line(f"{failed} One line of JSON instead:")

    def _read_line(self, prompt: str) -> str:
        self._say(prompt)
        return self._read()

    def _say(self, text: str) -> None:
        self._console.print(Text(text))


def _parse_choice(typed: str, question: Question) -> tuple[str, str]:
    """The chosen letter and the words behind it; free words have no letter.

    A question about a call takes no free words: the words behind its choice are the reason.
    """
    word, _, rest = typed.partition(" ") if question.is_call else (typed, "", "")
    if letter := _map_letters(question.choices).get(word.lower()):
        return letter, rest.strip()
    return "", "" if question.is_call else typed


def _map_letters(menu: str) -> dict[str, str]:
    """All spellings of the choices: the letter, the whole word, other names."""
    choices = re.findall(r"\[(\w)\](\w+)", menu)
    named = {letter + word: letter for letter, word in choices} | {key: key for key, _ in choices}
    return named | {alias: letter for alias, letter in _ALIASES.items() if letter in named}


def _render_call(question: Question, diff: Sequence[str]) -> RenderableType:
    head = Text(show_text(question.name), style="bold")
    # The description repeats the arguments, which are shown below.
    if description := question.description.partition("\n\nArguments:")[0]:
        head.append(f"\n{_truncate_text(description)}", style="not bold dim")
    plain = {key: value for key, value in question.args.items() if not (diff and key == "content")}
    lines = "\n".join(line for name, value in plain.items() for line in _list_argument(name, value))
    # Whoever must find out whether a call ran is shown its arguments whole.
    shown = (clean if question.kind == "uncertain" else _truncate_text)(lines)
    rows = [("· ", line, "") for line in shown.split("\n") if plain]
    if expiry := question.describe_expiry(datetime.now(UTC)):
        rows.append(("· ", expiry, "dim"))
    changes = _truncate_text("\n".join(diff)).split("\n") if diff else ()
    changed = [(line[:1], line[1:], _DIFF_STYLES.get(line[:1], "")) for line in changes]
    return Group(head, *(_mark_lines(part) for part in (rows, changed) if part))


def _mark_lines(lines: Iterable[tuple[str, str, str]]) -> Table:
    """Lines, each with a mark before it and a style: what a long one breaks into has no mark."""
    grid = Table.grid()
    for mark, words, style in lines:
        grid.add_row(Text(mark), Text(words, overflow="fold"), style=style)
    return grid


def _list_argument(name: object, value: object) -> Iterator[str]:
    """An argument as JSON; a text of several lines as it stands, behind a bar."""
    name = show_text(str(name))
    if isinstance(value, str) and "\n" in value:
        yield f"{name}:"
        yield from (f"  │ {line}" for line in value.split("\n"))
    elif isinstance(value, dict | list) and "\\n" in show_json(value):
        yield f"{name}:"
        parts = value.items() if isinstance(value, dict) else enumerate(value, 1)
        yield from (f"  {line}" for key, part in parts for line in _list_argument(key, part))
    else:
        yield f"{name}: {show_json(value)}"


def _compare_file(question: Question) -> list[str]:
    """What the workspace server's tools would change in a file of this folder, as a diff."""
    path, content = question.args.get("path"), question.args.get("content")
    is_write = question.name.endswith(("write_file", "append_file"))
    is_asked = is_write and question.kind in ("call", "foreign")
    if not (is_asked and isinstance(path, str) and isinstance(content, str)):
        return []
    try:
        file = Path(path).resolve(strict=True)
        is_here = file.is_file() and file.is_relative_to(Path.cwd())
        if not is_here or file.stat().st_size > _COMPARED:
            return []
        before = file.read_bytes().decode()
    except (OSError, ValueError):
        return []
    after = before + content if question.name.endswith("append_file") else content
    names = (f"{path}, as it is in this folder", f"{path}, as proposed")
    return [*unified_diff(before.split("\n"), after.split("\n"), *names, lineterm="")]


def _render_question(question: Question) -> RenderableType:
    """A question as text; a plan as headings with lists."""
    text = clean(question.description)
    if question.kind != "review":
        return Text(text)
    parts: list[RenderableType] = []
    for paragraph in text.split("\n\n"):
        heading, *lines = paragraph.split("\n")
        parts += [Text(heading, style="bold"), _mark_lines(("· ", line, "") for line in lines)]
    return Group(*parts)


def _truncate_text(text: str) -> str:
    lines = [shorten_middle(line, _SHOWN_COLUMNS) for line in clean(text).split("\n")]
    if len(lines) > _SHOWN_LINES:
        left_out = f"… {len(lines) - _SHOWN_LINES} more lines: f"
        lines = [*lines[: _SHOWN_LINES - _LAST_LINES], left_out, *lines[-_LAST_LINES:]]
    return "\n".join(lines)

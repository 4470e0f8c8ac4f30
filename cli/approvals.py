"""Questions put to the person at the terminal, one after another."""

import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.panel import Panel
from rich.text import Text

from .keyboard import typed_line
from .questions import ASK_USER, REVIEW_PLAN, Question, read_answer
from .text import as_json, clean

_SHOWN_LINES: Final = 20
_SHOWN_COLUMNS: Final = 400

Reply = Mapping[str, Any] | None
"""An answer; None leaves the question open."""


def read_line() -> str:
    """A line typed by the user; the end of the input counts as wanting to quit."""
    prompt = "> "
    if not sys.stdout.isatty():
        sys.stderr.write(prompt)
        sys.stderr.flush()
        prompt = ""
    try:
        return typed_line(prompt).strip()
    except EOFError:
        return "q"


class Asker:
    """Asks the person at the terminal."""

    def __init__(self, console: Console, read: Callable[[], str] = read_line) -> None:
        """Show questions on the console and take typed lines from `read`."""
        self._console = console
        self._read = read

    def ask(self, question: Question, place: str = "") -> Reply:
        """Put one question; None where the person wants to leave it open.

        Args:
            question: The question.
            place: Which of several this one is, such as `1 of 3`.
        """
        if question.is_call:
            return self._approve(question, place)
        if question.name == REVIEW_PLAN:
            return self._review(question)
        return self._words(question)

    def _approve(self, question: Question, place: str) -> Reply:
        self._show_call(question, place)
        self._say("[a]pprove  [r]eject  [e]dit  [f]ull arguments  [q]uit (the question stays open)")
        while True:
            choice, _, rest = self._read().partition(" ")
            match choice.lower():
                case "a" | "approve" | "y" | "yes":
                    return {"type": "approve"}
                case "r" | "reject" | "n" | "no":
                    return self._rejection(rest)
                case "e" | "edit":
                    edited = self._edit(question)
                    if edited is not None:
                        return edited
                case "f" | "full":
                    self._say(clean(as_json(question.args, indent=2)))
                case "q" | "quit":
                    return None
            self._say("Please type a, r, e, f or q.")

    def _show_call(self, question: Question, place: str) -> None:
        body = Text(clean(question.name), style="bold")
        if question.reason:
            body.append(f"  {clean(question.reason)}", style="not bold dim")
        body.append(f"\n{_truncated(clean(as_json(question.args, indent=2)))}", style="not bold")
        title = "Approval needed" + (f" ({place})" if place else "")
        self._console.print(Panel(body, title=title, title_align="left", border_style="yellow"))

    def _rejection(self, reason: str) -> Reply:
        if not reason:
            self._say("Why? (the model is told; empty is fine)")
            reason = self._read()
        return {"type": "reject", "message": reason}

    def _edit(self, question: Question) -> Reply:
        text = self._edited_text(as_json(question.args, indent=2))
        try:
            arguments = json.loads(text)
        except ValueError as error:
            self._say(f"This is no valid JSON ({error}); nothing was changed.")
            return None
        if not isinstance(arguments, dict):
            self._say("The arguments must be a JSON object; nothing was changed.")
            return None
        return {"type": "edit", "args": arguments}

    def _edited_text(self, text: str) -> str:
        editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
        if not editor:
            self._say("New arguments as one line of JSON:")
            return self._read()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "arguments.json")
            path.write_text(text, encoding="utf-8")
            try:
                # The user's own editor with the user's own words, as git and crontab run it.
                subprocess.run([*shlex.split(editor), str(path)], check=True)
            except (OSError, ValueError, subprocess.CalledProcessError) as error:
                self._say(f"The editor {editor!r} failed: {error}. One line of JSON instead:")
                return self._read()
            return path.read_text(encoding="utf-8")

    def _review(self, question: Question) -> Reply:
        self._panel(question, "Plan")
        self._say("[a]pprove, or say in words what should change; [q]uit leaves the plan open")
        words = self._some_words()
        if words.lower() in {"q", "quit"}:
            return None
        if words.lower() in {"a", "approve", "y", "yes"}:
            return {"type": "approve"}
        return {"type": "respond", "message": words}

    def _words(self, question: Question) -> Reply:
        self._panel(question, "Question" if question.name == ASK_USER else "Waiting for an answer")
        self._say("Type the answer; [q]uit leaves the question open")
        words = self._some_words()
        return None if words.lower() in {"q", "quit"} else {"type": "respond", "message": words}

    def _some_words(self) -> str:
        while not (words := self._read()):
            self._say("Please type something, or q.")
        return words

    def _panel(self, question: Question, title: str) -> None:
        body = Text(clean(question.description))
        self._console.print(Panel(body, title=title, title_align="left", border_style="yellow"))

    def _say(self, text: str) -> None:
        self._console.print(Text(text))


def accepted(reply: Reply, question: Question) -> Reply:
    """The reply if the question takes it.

    Raises:
        AnswerRejected: It does not.
    """
    return None if reply is None else read_answer(dict(reply), question)


def _truncated(text: str) -> str:
    lines = text.split("\n")
    cut = [f"{line[:_SHOWN_COLUMNS]} …" if len(line) > _SHOWN_COLUMNS else line for line in lines]
    if len(lines) > _SHOWN_LINES:
        return "\n".join([*cut[:_SHOWN_LINES], f"… {len(lines) - _SHOWN_LINES} more lines: f"])
    return "\n".join(cut)

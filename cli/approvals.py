"""Questions put to the person at the terminal, one after another."""

import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from .keyboard import typed_line
from .questions import ASK_USER, REVIEWS, Question, read_answer
from .text import as_json, clean

_SHOWN_LINES: Final = 20
_SHOWN_COLUMNS: Final = 400
_KEPT_OPEN: Final = "[q]uit (the question stays open)"
_APPROVAL: Final = (
    "[a]pprove  [s]ession (approve, and ask no more about this tool in this thread)  [r]eject  "
    f"[e]dit  [f]ull arguments  {_KEPT_OPEN}"
)
_UNCERTAIN: Final = (
    f"[i]t ran (give its result)  [o]nce more (run it again)  [g]ive up  {_KEPT_OPEN}"
)
_REVIEW: Final = (
    f"[a]pprove  [r]eject  [e]dit  [f]ull plan  {_KEPT_OPEN}, or say in words what should change"
)
_APPROVAL_WORDS: Final = {
    "a": "a", "approve": "a", "y": "a", "yes": "a", "s": "s", "session": "s", "r": "r",
    "reject": "r", "n": "r", "no": "r", "e": "e", "edit": "e", "f": "f", "full": "f", "q": "q",
    "quit": "q",
}  # fmt: skip
_UNCERTAIN_WORDS: Final = {
    "i": "i", "it": "i", "o": "o", "once": "o", "g": "g", "give": "g", "q": "q", "quit": "q",
}  # fmt: skip
_REVIEW_WORDS: Final = {word: letter for word, letter in _APPROVAL_WORDS.items() if letter != "s"}
_NOT_KNOWN: Final = "It ran; its result is not known."

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
        if question.is_uncertain:
            return self._settle(question, place)
        if question.is_call:
            return self._approve(question, place)
        if question.name in REVIEWS:
            return self._review(question)
        return self._words(question)

    def _approve(self, question: Question, place: str) -> Reply:
        self._show_call(question, "Approval needed", place)
        self._say(_APPROVAL)
        while True:
            choice, rest = self._choice(question, _APPROVAL_WORDS)
            match choice:
                case "a":
                    return {"type": "approve"}
                case "s":
                    return {"type": "approve", "remember": "tool"}
                case "r":
                    return self._rejection(rest)
                case "e":
                    edited = self._edit(question)
                    if edited is not None:
                        return edited
                    self._say(_please(_APPROVAL_WORDS))
                case _:
                    return None

    def _settle(self, question: Question, place: str) -> Reply:
        """A call that may have run: no answer is a default, for each has a price.

        Whoever must find out whether it ran is shown its arguments whole.
        """
        self._show_call(question, "Uncertain call", place, whole=True)
        self._say(_UNCERTAIN)
        choice, rest = self._choice(question, _UNCERTAIN_WORDS)
        match choice:
            case "i":
                self._say("What was its result? (the model is told; empty: it is not known)")
                return {"type": "respond", "message": self._read() or _NOT_KNOWN}
            case "o":
                return {"type": "approve"}
            case "g":
                return {"type": "reject", "message": rest}
            case _:
                return None

    def _choice(self, question: Question, words: Mapping[str, str]) -> tuple[str, str]:
        """The letter of what was chosen and the words behind it; shows the arguments on demand."""
        while True:
            word, _, rest = self._read().partition(" ")
            letter = words.get(word.lower(), "")
            if letter not in {"", "f"}:
                return letter, rest.strip()
            if letter == "f":
                self._say(clean(as_json(question.args, indent=2)))
            self._say(_please(words))

    def _show_call(
        self, question: Question, title: str, place: str, *, whole: bool = False
    ) -> None:
        body = Text(clean(question.name), style="bold")
        if question.asked:
            body.append(f"\n{_truncated(clean(question.asked))}", style="not bold dim")
        arguments = clean(as_json(question.args, indent=2))
        body.append(f"\n{arguments if whole else _truncated(arguments)}", style="not bold")
        expiry = question.expiry(datetime.now(UTC))
        if expiry:
            body.append(f"\n{expiry}", style="not bold dim")
        title += f" ({place})" if place else ""
        self._console.print(Panel(body, title=title, title_align="left", border_style="yellow"))

    def _rejection(self, reason: str) -> Reply:
        if not reason:
            self._say("Why? (the model is told; empty is fine)")
            reason = self._read()
        return {"type": "reject", "message": reason}

    def _edit(self, question: Question) -> Reply:
        text = self._edited_text(as_json(question.editable, indent=2))
        try:
            arguments = json.loads(text)
        except ValueError as error:
            self._say(f"This is no valid JSON ({error}); nothing was changed.")
            return None
        if not isinstance(arguments, dict):
            self._say("This must be a JSON object; nothing was changed.")
            return None
        return {"type": "edit", "args": arguments}

    def _edited_text(self, text: str) -> str:
        editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
        if not editor:
            self._say("The new version as one line of JSON:")
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
        self._say(_REVIEW)
        while True:
            words = self._some_words()
            match _REVIEW_WORDS.get(words.lower()):
                case "a":
                    return {"type": "approve"}
                case "r":
                    return self._rejection("")
                case "e":
                    if edited := self._edit(question):
                        return edited
                    self._say(_REVIEW)
                case "f":
                    self._say(clean(as_json(question.editable, indent=2)))
                    self._say(_REVIEW)
                case "q":
                    return None
                case _:
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
        text = clean(question.description)
        body = _listed(text) if question.name in REVIEWS else Text(text)
        self._console.print(Panel(body, title=title, title_align="left", border_style="yellow"))

    def _say(self, text: str) -> None:
        self._console.print(Text(text))


def accepted(reply: Reply, question: Question) -> Reply:
    """The reply if the question takes it.

    Raises:
        AnswerRejected: It does not.
    """
    return None if reply is None else read_answer(dict(reply), question)


def _please(words: Mapping[str, str]) -> str:
    *others, last = dict.fromkeys(words.values())
    return f"Please type {', '.join(others)} or {last}."


def _listed(text: str) -> Group:
    """Paragraphs of a heading and a list, so that long lines do not run into each other."""
    parts: list[RenderableType] = []
    for paragraph in text.split("\n\n"):
        heading, *lines = paragraph.split("\n")
        grid = Table.grid(padding=(0, 1))
        for line in lines:
            grid.add_row("·", Text(line))
        parts += [Text(heading, style="bold"), grid]
    return Group(*parts)


def _truncated(text: str) -> str:
    lines = text.split("\n")
    cut = [f"{line[:_SHOWN_COLUMNS]} …" if len(line) > _SHOWN_COLUMNS else line for line in lines]
    if len(lines) > _SHOWN_LINES:
        return "\n".join([*cut[:_SHOWN_LINES], f"… {len(lines) - _SHOWN_LINES} more lines: f"])
    return "\n".join(cut)

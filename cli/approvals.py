"""What a thread waits for: put to the person at the terminal, or answered by given text."""

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError
from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from ..state.errors import AnswerRejected
from ..state.questions import Answer
from .output import as_json, call_text, clean
from .terminal import typed_line

ASK_USER: Final = "ask_user"
REVIEWS: Final = frozenset({"review_plan", "review_flow"})
_ONLY_SHOWN: Final = frozenset({"finished", "changes", "problems"})
_ALL: Final = ("approve", "edit", "reject", "respond")
_HOW: Final = {
    "approve": "approve",
    "edit": '{"type": "edit", "args": {…}}',
    "reject": "reject: reason",
    "respond": "respond: text",
}
_HOW_UNCERTAIN: Final = {
    "approve": "approve to run it again",
    "reject": "reject to give up",
    "respond": "respond: its result, if it ran",
}
_LONGEST: Final = 2_000
_SHOWN_LINES: Final = 20
_SHOWN_COLUMNS: Final = 400

_OPEN: Final = "[q]uit (the question stays open)"
_APPROVAL: Final = (
    "[a]pprove  [s]ession (approve, and ask no more about this tool in this thread)  [r]eject  "
    f"[e]dit  [f]ull arguments  {_OPEN}"
)
_UNCERTAIN: Final = f"[i]t ran (give its result)  [o]nce more (run it again)  [g]ive up  {_OPEN}"
_REVIEW: Final = (
    f"[a]pprove  [r]eject  [e]dit  [f]ull plan  {_OPEN}, or say in words what should change"
)
_WORDS: Final = "Type the answer; [q]uit leaves the question open"
_ALIASES: Final = {"y": "a", "yes": "a", "n": "r", "no": "r"}

Answers = dict[str, dict[str, Any]]
"""Answers by the ids of their questions."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """One open question.

    Attributes:
        id: The interrupt's id.
        name: The tool, or what kind of question it is.
        args: The tool's arguments.
        description: The question in words.
        allowed: The kinds of answers it takes.
        is_call: It is about a tool call.
        is_uncertain: It is about a call that may have run already: nobody but a human knows.
        expires_at: When an answer comes too late; None where it never does.
        value: The whole payload.
    """

    id: str
    name: str = ""
    args: dict[str, Any]
    description: str = ""
    allowed: tuple[str, ...] = _ALL
    is_call: bool = False
    is_uncertain: bool = False
    expires_at: datetime | None = None
    value: Any = None

    @classmethod
    def of(cls, interrupt: Any) -> "Question":
        """Read an interrupt; a payload of another shape becomes a question for words."""
        value = interrupt.value if isinstance(interrupt.value, dict) else {}
        requests = value.get("action_requests")
        if not isinstance(requests, list) or not requests:
            shown = as_json(interrupt.value)
            return cls(id=interrupt.id, args={}, description=shown, value=interrupt.value)
        request, reviews = requests[0], value.get("review_configs") or [{}]
        name = str(request.get("name", ""))
        return cls(
            id=interrupt.id,
            name=name,
            args=dict(request.get("args") or {}),
            description=str(request.get("description") or value.get("reason") or ""),
            allowed=tuple(reviews[0].get("allowed_decisions") or _ALL),
            is_call="tool_call_id" in request or name not in {ASK_USER, *REVIEWS},
            is_uncertain=value.get("type") == "uncertain_call",
            expires_at=_moment(value.get("expires_at")),
            value=interrupt.value,
        )

    @property
    def editable(self) -> dict[str, Any]:
        """The arguments without what is only there to be seen."""
        shown = _ONLY_SHOWN if self.name in REVIEWS else ()
        return {key: value for key, value in self.args.items() if key not in shown}

    @property
    def menu(self) -> str:
        """What can be typed; the letter in brackets or the word it begins chooses."""
        if self.is_uncertain:
            return _UNCERTAIN
        if self.is_call:
            return _APPROVAL
        return _REVIEW if self.name in REVIEWS else _WORDS

    @property
    def how(self) -> str:
        """How to answer it with text given to `resume`."""
        words = _HOW_UNCERTAIN if self.is_uncertain else _HOW
        return ", ".join(words[kind] for kind in words if kind in self.allowed)

    def text(self) -> str:
        """The question as plain text."""
        if not self.is_call:
            return clean(self.description)
        called = call_text(self.name, self.args, _LONGEST)
        if self.is_uncertain:
            return f"Did {called} take effect? It was begun, and its end is not known."
        expiry = self.expiry(datetime.now(UTC))
        return f"May {called} be called?" + (f" ({expiry})" if expiry else "")

    def expiry(self, now: datetime) -> str:
        """Until when an answer counts, in words; "" where it always does."""
        if self.expires_at is None:
            return ""
        at = self.expires_at.astimezone().strftime("%Y-%m-%d %H:%M:%S")
        left = int((self.expires_at - now).total_seconds())
        for size, unit in ((86_400, "days"), (3_600, "hours"), (60, "min")):
            if left >= 2 * size:
                return f"expires at {at}, in {left // size} {unit}"
        return f"expires at {at}, in {left} s" if left > 0 else f"expired at {at}"


def _moment(text: object) -> datetime | None:
    """A time in ISO 8601; one without a zone is UTC, as all times in questions are."""
    try:
        found = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return found.replace(tzinfo=UTC) if found and found.tzinfo is None else found


def read_answer(given: object, question: Question) -> dict[str, Any]:
    """Check an answer.

    Raises:
        AnswerRejected: It has no accepted shape, or is of a kind the question does not take.
    """
    try:
        answer = Answer.model_validate(given)
    except ValidationError as error:
        told = error.errors()[0]["msg"].removeprefix("Value error, ")
        msg = f"{str(given)[:80]!r} does not answer the question: {told}. It is still open."
        raise AnswerRejected(msg) from error
    if answer.type not in question.allowed:
        msg = f"This question does not take {answer.type!r}; answer it with {question.how}."
        raise AnswerRejected(msg)
    return answer.model_dump(exclude_defaults=True)


def read_answers(text: str, pending: Sequence[Question], thread: str) -> Answers:
    """Answers by interrupt id: a JSON object keyed by ids, or one answer to the first question.

    Raises:
        AnswerRejected: Nothing is pending, or an answer fits no question.
    """
    if not pending:
        msg = f"Thread {thread!r} has no question waiting; leave the answer out to go on with it."
        raise AnswerRejected(msg)
    by_id = {question.id: question for question in pending}
    try:
        given = json.loads(text)
    except ValueError:
        given = None
    if isinstance(given, dict) and given and set(given) <= set(by_id):
        return {key: read_answer(value, by_id[key]) for key, value in given.items()}
    return {pending[0].id: read_answer(text, pending[0])}


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
    """Asks the person at the terminal, one question after another."""

    def __init__(self, console: Console, read: Callable[[], str] = read_line) -> None:
        """Show questions on the console and take typed lines from `read`."""
        self._console = console
        self._read = read

    def ask(self, question: Question, place: str = "") -> dict[str, Any] | None:
        """Put one question; None where the person wants to leave it open.

        Args:
            question: The question.
            place: Which of several this one is, such as `1 of 3`.

        Raises:
            AnswerRejected: The question does not take this answer.
        """
        title, body = _shown(question)
        title += f" ({place})" if place else ""
        self._console.print(Panel(body, title=title, title_align="left", border_style="yellow"))
        self._say(question.menu)
        while True:
            letter, rest = self._choice(question)
            if letter == "q":
                return None
            reply = self._reply(letter, rest, question)
            if reply is not None:
                return read_answer(reply, question)
            self._say(_please(question))

    def _choice(self, question: Question) -> tuple[str, str]:
        """The letter of what is chosen and the words behind it; no letter for words of one's own.

        A question about a call takes no words, so what stands behind the choice is its reason.
        """
        while True:
            typed = self._read()
            word, _, rest = typed.partition(" ") if question.is_call else (typed, "", "")
            letter = _letters(question.menu).get(word.lower(), "")
            if letter or (typed and not question.is_call):
                return letter, rest.strip() if letter else typed
            self._say(_please(question))

    def _reply(self, letter: str, rest: str, question: Question) -> Mapping[str, Any] | None:
        """The answer that a choice makes; None where it makes none yet."""
        match letter:
            case "a" | "o":
                return {"type": "approve"}
            case "s":
                return {"type": "approve", "remember": "tool"}
            case "r":
                why = "Why? (the model is told; empty is fine)"
                return {"type": "reject", "message": rest or self._line(why)}
            case "g":
                return {"type": "reject", "message": rest}
            case "i":
                told = self._line(
                    "What was its result? (the model is told; empty: it is not known)"
                )
                return {"type": "respond", "message": told or "It ran; its result is not known."}
            case "e":
                return self._edit(question)
            case "f":
                self._say(clean(as_json(question.editable, indent=2)))
                return None
            case _:
                return {"type": "respond", "message": rest}

    def _edit(self, question: Question) -> Mapping[str, Any] | None:
        text = self._edited_text(as_json(question.editable, indent=2))
        try:
            arguments = json.loads(text)
        except ValueError as error:
            self._say(f"This is no valid JSON ({error}); nothing was changed.")
            return None
        if isinstance(arguments, dict):
            return {"type": "edit", "args": arguments}
        self._say("This must be a JSON object; nothing was changed.")
        return None

    def _edited_text(self, text: str) -> str:
        editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
        if not editor:
            return self._line("The new version as one line of JSON:")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "arguments.json")
            path.write_text(text, encoding="utf-8")
            try:
                # The user's own editor with the user's own words, as git and crontab run it.
                subprocess.run([*shlex.split(editor), str(path)], check=True)
            except (OSError, ValueError, subprocess.CalledProcessError) as error:
                return self._line(
                    f"The editor {editor!r} failed: {error}. One line of JSON instead:"
                )
            return path.read_text(encoding="utf-8")

    def _line(self, prompt: str) -> str:
        self._say(prompt)
        return self._read()

    def _say(self, text: str) -> None:
        self._console.print(Text(text))


def _letters(menu: str) -> dict[str, str]:
    """The letter by everything that chooses it: itself, the word that it begins, other names."""
    choices = re.findall(r"\[(\w)\](\w+)", menu)
    named = {letter + word: letter for letter, word in choices} | {key: key for key, _ in choices}
    return named | {alias: letter for alias, letter in _ALIASES.items() if letter in named}


def _please(question: Question) -> str:
    if question.name in REVIEWS and not question.is_call:
        return question.menu
    *others, last = dict.fromkeys(_letters(question.menu).values())
    if question.is_call:
        return f"Please type {', '.join(others)} or {last}."
    return f"Please type something, or {last}."


def _shown(question: Question) -> tuple[str, RenderableType]:
    """The title and the body of a question's panel."""
    if question.is_uncertain:
        return "Uncertain call", _called(question)
    if question.is_call:
        return "Approval needed", _called(question)
    text = clean(question.description)
    if question.name in REVIEWS:
        return "Plan", _listed(text)
    return "Question" if question.name == ASK_USER else "Waiting for an answer", Text(text)


def _called(question: Question) -> Text:
    body = Text(clean(question.name), style="bold")
    # The description repeats the arguments, which are shown below.
    asked = question.description.partition("\n\nArguments:")[0]
    if asked:
        body.append(f"\n{_truncated(clean(asked))}", style="not bold dim")
    arguments = clean(as_json(question.args, indent=2))
    # Whoever must find out whether a call ran is shown its arguments whole.
    shown = arguments if question.is_uncertain else _truncated(arguments)
    body.append(f"\n{shown}", style="not bold")
    if expiry := question.expiry(datetime.now(UTC)):
        body.append(f"\n{expiry}", style="not bold dim")
    return body


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

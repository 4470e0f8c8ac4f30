"""The commands of a conversation, and what can be completed at its prompt."""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import Final, NamedTuple

from ..models.choice import Models
from ..state.errors import ThreadNotFound
from ..state.roles import roles_of
from ..store.durability import Durability
from ..text.canonical import plural
from ..text.display import show_text
from .agents import load_origin
from .progress import render_spend, sum_spends
from .prompt import Suggestion
from .run import Session
from .settings import Settings
from .terminal import shorten_line
from .threads import list_resumable

COMMANDS: Final = {
    "/resume [ID]": "go on with a turn that stopped, waits or fell short, or with another thread",
    "/new": "begin a new conversation",
    "/stop": "end the turn that is running, as Ctrl-C does",
    "/model [NAME]": "say which models answer, or choose one",
    "/tools": "list the tools, and what the policy says",
    "/prompts": "list the prompts and resources of MCP servers",
    "/cost": "say what this chat has used",
    "/help": "list the commands",
    "/quit": "leave, as Ctrl-D does; the conversation stays saved",
}
NAMES: Final = {name.partition(" ")[0]: about for name, about in COMMANDS.items()}
_HELP: Final = "\n".join([
    "Type what you want; while a turn runs, what you type is handed to it.",
    "Alt-Enter, or \\ and Enter, begins a new line; @ and Tab name a file; ↑ brings back.",
    *(f"  {name:<13}  {about}" for name, about in COMMANDS.items()),
])  # fmt: skip
SUGGESTED: Final = 50
_FILE: Final = re.compile(r"(?<!\S)@(\S+)")


class Switch(NamedTuple):
    """How a conversation goes on, in a session of its own."""

    settings: Settings
    thread: str
    resumes: bool = False
    is_new: bool = True


def run_command(settings: Settings, session: Session, command: str, words: str) -> Switch | None:
    """Run a command that begins no turn here; how the conversation goes on, if elsewhere."""
    output = session.output
    match command:
        case "/resume":
            return _find_thread(settings, session, words)
        case "/model":
            return _choose_model(settings, session, words)
        case "/tools":
            from .show import check_servers  # noqa: PLC0415 - not every conversation asks

            for mark, text in check_servers(settings, output):
                output.write_line(f"{mark} {text}")
        case "/prompts":
            from .show import list_offers  # noqa: PLC0415 - see above

            output.write_line("\n".join(list_offers(settings)))
        case "/cost":
            for spend in session.spends[-1:]:
                output.write_line(f"The last turn: {render_spend(spend)}")
            count, spent = plural(len(session.spends), "turn"), sum_spends(session.spends)
            output.write_line(f"{count} of this chat: {render_spend(spent)}")
        case _:
            output.write_line(_HELP)
    return None


def _find_thread(settings: Settings, session: Session, thread: str) -> Switch:
    """A switch to another thread, with the graph and the agent that it has."""
    if session.durability is None or not load_origin(session.durability, thread):
        msg = f"The command line began no thread {thread!r} here; see `loopwright threads`."
        raise ThreadNotFound(msg)
    return Switch(replace(settings, graph=None, agent=None), thread, resumes=True)


def _choose_model(settings: Settings, session: Session, name: str) -> Switch | None:
    """Say which models answer; with a name, a switch to that model."""
    if name:
        settings = replace(settings, model=name, script=None)
    models, asked = Models(settings.model, environ=settings.environ), dict[str, list[str]]()
    for role in roles_of(session.graph.name):
        chosen = settings.script or models.choose(role, session.context).name
        asked.setdefault(chosen, []).append(role)
    for model, roles in asked.items():
        session.output.write_line(f"{model} ({', '.join(roles)})")
    return Switch(settings, session.thread, is_new=False) if name else None


def suggest(durability: Durability | None, text: str) -> Iterator[Suggestion]:
    """What could end the text: a command, a thread behind /resume, a file behind @."""
    word = re.split(r"\s", text)[-1]
    if text == word and text.startswith("/"):
        fits = [name for name in NAMES if name.startswith(text)]
        yield from ((name, len(text), NAMES[name]) for name in fits)
    elif text == f"/resume {word}":
        saved = durability.threads(limit=SUGGESTED) if durability else ()
        for thread in list_resumable(saved):
            if thread.thread_id.startswith(word):
                yield thread.thread_id, len(word), shorten_line(thread.request, 60)
    elif word.startswith("@"):
        yield from _suggest_files(word[1:])


def _suggest_files(path: str) -> Iterator[Suggestion]:
    """The files and folders whose path begins so, without names with a space or what is unseen."""
    folder, slash, start = path.rpartition("/")
    with suppress(OSError):
        names = sorted(os.listdir(folder + slash or "."))
        fits = (
            name for name in names
            if name.startswith(start) and not re.search(r"\s", name)
            and (start or not name.startswith(".")) and show_text(name) == name
        )  # fmt: skip
        for name in islice(fits, SUGGESTED):
            end = "/" if os.path.isdir(folder + slash + name) else ""
            yield f"{name}{end}", len(start), ""


def drop_file_marks(text: str) -> str:
    """The text without each @ that helped to type the path of a file."""
    return _FILE.sub(lambda found: found[1] if os.path.exists(found[1]) else found[0], text)

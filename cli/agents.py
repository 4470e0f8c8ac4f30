"""What `--agent` and `--module` name: an agent's definition, and a graph of the user's own.

A thread remembers its agent; a changed file of it is reported.
"""

import hashlib
import importlib
import logging
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from ..prompts.agents import SHIPPED, read_agent
from ..run.graph import LoopGraph
from ..state.agent import AgentDefinition
from ..state.errors import LoopwrightError, SettingsError, read_variable
from ..store.durability import Durability
from ..store.threads.thread_list import GRAPH_KEY
from ..store.work.turns import find_records
from .settings import DEFINED, Settings
from .terminal import LOG_FILE, Output

log = logging.getLogger(__name__)

Graph = LoopGraph[Any, Any, Any, Any]

AGENT_KEY: Final = "loopwright_agent"
"""Checkpoint metadata that says which agent a thread belongs to."""


@dataclass(frozen=True)
class NamedAgent:
    """An agent.

    Attributes:
        definition: What it is.
        named: The absolute path of its file, or the name of one that ships.
        seal: A hash of its file.
    """

    definition: AgentDefinition
    named: str
    seal: str

    @property
    def mark(self) -> str:
        """What a thread saves of it."""
        return f"{self.seal} {self.named}"


def find_agent(name: str, environ: Mapping[str, str]) -> NamedAgent:
    """The agent of this name, or of the file with this path."""
    path = Path(name)
    if path.suffix == ".md" or path.name != name:
        return _read_agent_file(path.absolute())
    known = _list_agents(environ)
    if name in known:
        return _read_agent_file(known[name])
    if path.is_file():
        return _read_agent_file(path.absolute())
    msg = f"There is no agent {name!r}: give the path of its file, or one of {', '.join(known)}."
    raise SettingsError(msg)


def load_origin(durability: Durability, thread: str) -> dict[str, str]:
    """The graph and the agent with which this command began a thread."""
    saved = durability.checkpointer.get_tuple({"configurable": {"thread_id": thread}})
    known = dict(saved.metadata) if saved else {}
    return {key: str(known[key]) for key in (GRAPH_KEY, AGENT_KEY) if known.get(key)}


def select_agent(
    settings: Settings,
    output: Output,
    graph: str,
    thread: str = "",
    kept: Mapping[str, str] = MappingProxyType({}),
) -> NamedAgent | None:
    """The agent of a run: the named one, or the one its thread saved (`kept`); reports a change."""
    if graph != DEFINED:
        if not settings.agent:
            return None
        msg = f"--agent is for {DEFINED}, not {graph}: leave --graph out, or begin a new thread."
        raise SettingsError(msg)
    seal, _, before = kept.get(AGENT_KEY, "").partition(" ")
    if not (settings.agent or before):
        return None
    try:
        agent = find_agent(settings.agent or before, settings.environ)
    except SettingsError as error:
        if settings.agent:
            raise
        msg = f"The thread {thread!r} needs its agent {before}. {error} Or name one with --agent."
        raise SettingsError(msg) from error
    if before and agent.named != before:
        output.write_line(f"Its agent was {before}; from now on it is {agent.named}.")
    elif before and agent.seal != seal:
        output.write_line(
            f"Its agent {before} has changed since the last turn; it is what it is now."
        )
    return agent


def _list_agents(environ: Mapping[str, str]) -> dict[str, Path]:
    """The agents that have names: those of the operator's folders, then ours."""
    known: dict[str, Path] = {}
    for folder in (read_variable(environ, "LOOPWRIGHT_AGENTS") or "").split(os.pathsep):
        if folder and not Path(folder).is_dir():
            msg = f"LOOPWRIGHT_AGENTS: {folder!r} is no folder: name folders with agent files."
            raise SettingsError(msg)
        for path in sorted(Path(folder).absolute().glob("*.md")) if folder else ():
            with suppress(SettingsError):  # told where it is named by its path
                known.setdefault(read_agent(path).name, path)
            known.setdefault(path.stem, path)
    return known | {
        path.stem: path for path in sorted(SHIPPED.glob("*.md")) if path.stem not in known
    }


def _read_agent_file(path: Path) -> NamedAgent:
    definition = read_agent(path)
    seal = hashlib.sha256(path.read_bytes()).hexdigest()[:12]
    return NamedAgent(definition, path.stem if path.parent == SHIPPED else str(path), seal)


def load_user_graph(named: str, durability: Durability) -> Graph:
    """A graph of the user's: one with a database of its own, or a function that builds one."""
    module, _, attribute = named.partition(":")
    if os.getcwd() not in sys.path:  # as `python -m` has it, behind what is installed
        sys.path.append(os.getcwd())
    try:
        value = getattr(importlib.import_module(module), attribute)
        graph = value if isinstance(value, LoopGraph) else value(durability)
    except LoopwrightError:
        raise
    except Exception as error:  # whatever a module of the user's raises
        log.exception("--module %s", named)
        msg = (
            f"--module {named} gives no graph ({type(error).__name__}: {error}): name"
            " package.module:graph, or package.module:function, which is given the open database."
            f" The details are in {LOG_FILE}."
        )
        raise SettingsError(msg) from error
    inbox = graph.own_builder.inbox if isinstance(graph, LoopGraph) else None
    theirs = None if inbox is None else find_records(inbox.journal)
    ours = find_records(durability.journal)
    if theirs is None or ours is None:
        msg = (
            f"--module {named} gives no graph of this package with durability=open_durability(url):"
            " nothing else can go on in another process."
        )
        raise SettingsError(msg)
    # PgBouncer and the server behind it are one database under two addresses.
    if len({Path(one.database.partition("?")[0]).name for one in (theirs, ours)}) > 1:
        msg = (
            f"--module {named} keeps its threads in {theirs.database!r}, and this worker takes"
            f" turns from {ours.database!r}: name the same database, or a function that is given"
            " the worker's."
        )
        raise SettingsError(msg)
    return graph

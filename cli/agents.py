"""The agent that `--agent` names: of a file, of a folder of the operator's, or one that ships.

A thread remembers its agent, and that its file has changed is said.
"""

import hashlib
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from ..prompts.agents import SHIPPED, read_agent
from ..state.agent import AgentDefinition
from ..state.errors import SettingsError, read_variable
from ..store.durability import Durability
from ..store.threads.thread_list import GRAPH_KEY
from .settings import DEFINED, Settings
from .terminal import Output

AGENT_KEY: Final = "loopwright_agent"
"""Checkpoint metadata that says which agent a thread belongs to."""


@dataclass(frozen=True)
class NamedAgent:
    """An agent.

    Attributes:
        definition: What it is.
        named: What names it wherever one stands: the path of its file, or a name of ours.
        seal: Of what its file says.
    """

    definition: AgentDefinition
    named: str
    seal: str

    @property
    def mark(self) -> str:
        """What a thread remembers of it."""
        return f"{self.seal} {self.named}"


def find_agent(given: str, environ: Mapping[str, str]) -> NamedAgent:
    """The agent of this name, or of the file with this path.

    Raises:
        SettingsError: There is none, or its file cannot be used.
    """
    path = Path(given)
    if path.suffix == ".md" or path.name != given:
        return _read_agent_file(path.absolute())
    known = _list_agents(environ)
    if given in known:
        return _read_agent_file(known[given])
    if path.is_file():
        return _read_agent_file(path.absolute())
    msg = f"There is no agent {given!r}: give the path of its file, or one of {', '.join(known)}."
    raise SettingsError(msg)


def load_origin(durability: Durability, thread: str) -> dict[str, str]:
    """What a thread remembers of how this command began it: its graph, its agent."""
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
    """The agent of a run, if one is named now or was when its thread began; says if it is another.

    Args:
        settings: May name one.
        output: Where that is said.
        graph: Its graph.
        thread: Its thread.
        kept: What the thread remembers.

    Raises:
        SettingsError: The agent cannot be used, or the graph has none.
    """
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

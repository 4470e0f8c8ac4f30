"""From the arguments of `build_<name>()`, or a server's environment, to the parts of a graph."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.tools import BaseTool
from langgraph.store.base import BaseStore
from langgraph.types import Checkpointer
from langgraph.typing import StateT

from ..calls.policy import PolicyLike
from ..calls.toolbox import Toolbox
from ..doors.durability import Durability, LateDatabase
from ..doors.graph import LoopBuilder
from ..doors.journal import Journal, memory_journal
from ..hooks.contract import Hook
from ..hooks.registry import Hooks, sessions
from ..models.choice import Models
from ..nodes.parts import Parts
from ..prompts.prompt_manager import PromptManager
from ..state.context import Context
from ..state.errors import SettingsError
from ..state.loop import LoopInput, LoopOutput
from ..tools.catalog import Catalog
from ..tools.python_tools import PythonTool


def _current_folder() -> str:
    try:
        return str(Path.cwd())
    except OSError:  # deleted under the process: matters only to who serves files from it
        return "."


# Read once, at import: a node may not look at the file system on the event loop.
_STARTED_IN = _current_folder()


def assemble(
    *,
    model: str | BaseChatModel | Mapping[str, str | BaseChatModel] | None = None,
    tools: Sequence[BaseTool | Callable[..., Any]] = (),
    mcp: str | Path | Mapping[str, Any] | None = None,
    policy: PolicyLike = None,
    prompts: PromptManager | None = None,
    hooks: Sequence[Hook] = (),
    journal: Journal | None = None,
    name: str = "",
) -> Parts:
    """Make the live objects that nodes share.

    Raises:
        SettingsError: An argument is wrong.
    """
    if journal is not None and not isinstance(journal, Journal):
        msg = (
            f"journal= is no Journal but {type(journal).__name__}: pass the journal of"
            " open_durability(url), or leave the argument out."
        )
        raise SettingsError(msg)
    return Parts(
        models=Models(model),
        toolbox=Toolbox(tools, mcp=mcp, policy=policy),
        prompts=prompts or PromptManager(),
        hooks=Hooks(hooks),
        journal=journal or memory_journal(),
        name=name,
    )


def outer_builder(
    state: type[StateT], parts: Parts
) -> LoopBuilder[StateT, Context, LoopInput, LoopOutput]:
    """An empty graph that takes messages and gives an outcome, with what surrounds its runs."""
    builder = LoopBuilder(state, Context, input_schema=LoopInput, output_schema=LoopOutput)
    builder.writes = parts.toolbox.has_writes
    builder.locked_by = parts.locked_by
    builder.session = sessions(parts.hooks)
    return builder


def kept_by(
    durability: Durability | None,
    checkpointer: Checkpointer,
    store: BaseStore | None,
    journal: Journal | None,
) -> tuple[Checkpointer, BaseStore | None, Journal | None]:
    """Where a graph keeps threads, long results and calls: what is given on its own wins."""
    if durability is None:
        return checkpointer, store, journal
    return (
        durability.checkpointer if checkpointer is None else checkpointer,
        durability.store if store is None else store,
        durability.journal if journal is None else journal,
    )


def served_parts(name: str = "", tools: Sequence[PythonTool] = ()) -> Parts:
    """The parts of a graph that a server loads: MCP servers by LOOPWRIGHT_MCP, or the workspace.

    What may run is by LOOPWRIGHT_POLICY; `tools` are those the graph itself brings.

    The server saves the threads; journal and locks are where LOOPWRIGHT_DATABASE_URL says, else
    in memory. A wrong variable fails each run with its sentence, not the import of the module.
    """
    try:
        parts = assemble(
            tools=tools,
            mcp=default_mcp(os.environ),
            policy=default_policy(os.environ),
            name=name,
        )
    except SettingsError as error:
        parts = Parts(toolbox=_UnusableToolbox(error), name=name)
    url = os.environ.get("LOOPWRIGHT_DATABASE_URL")
    if not url:
        return parts
    database = _database(url)
    return replace(parts, journal=database.journal, locked_by=database.saver)


@cache
def _database(url: str) -> LateDatabase:
    """One for all graphs of the process."""
    return LateDatabase(url)


class _UnusableToolbox(Toolbox):
    """Stands in where the environment's MCP configuration or policy cannot be read."""

    def __init__(self, error: SettingsError) -> None:
        super().__init__()
        self._error = error

    async def catalog(self, user_id: str | None = None) -> Catalog:  # noqa: ARG002 - Toolbox's signature
        raise type(self._error)(str(self._error)) from self._error


def default_mcp(environ: Mapping[str, str]) -> str | dict[str, Any]:
    """The MCP configuration where none is given: LOOPWRIGHT_MCP, or the workspace server here."""
    return environ.get("LOOPWRIGHT_MCP") or workspace_mcp(_STARTED_IN)


def default_policy(environ: Mapping[str, str]) -> str | None:
    """The policy where none is given: LOOPWRIGHT_POLICY, a word or a file, or none."""
    return environ.get("LOOPWRIGHT_POLICY") or None


def workspace_mcp(root: str) -> dict[str, Any]:
    """An MCP configuration with the bundled workspace server on one folder."""
    arguments = ["-m", "loopwright.servers.workspace", "--root", root]
    return {"mcpServers": {"workspace": {"command": sys.executable, "args": arguments}}}

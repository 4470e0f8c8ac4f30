"""The parts of the graphs that a server loads, from its environment."""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from ..calls.toolbox import Toolbox
from ..doors.durability import LateDatabase
from ..doors.recorder import Recorder
from ..nodes.parts import Parts
from ..state.errors import SettingsError
from ..tools.catalog import Catalog
from ..tools.python_tools import PythonTool
from .build import assemble


def _current_folder() -> str:
    try:
        return str(Path.cwd())
    except OSError:  # deleted under the process: matters only to who serves files from it
        return "."


# Read once, at import: a node may not look at the file system on the event loop.
_STARTED_IN = _current_folder()


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
    return replace(parts, journal=Recorder(late=database.journal), locked_by=database.locks)


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

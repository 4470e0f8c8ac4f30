"""From the arguments of `build_<name>()`, or a server's environment, to the parts of a graph."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.tools import BaseTool

from ..models.choice import Models
from ..nodes.parts import Parts
from ..prompts.prompt_manager import PromptManager
from ..state.errors import SettingsError, ToolServerError
from ..tools.catalog import Catalog
from ..tools.policy import PolicyLike
from ..tools.toolbox import Toolbox


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
    hooks: Sequence[Any] = (),
    journal: Any = None,
) -> Parts:
    """Make the live objects that nodes share.

    Raises:
        SettingsError: An argument is wrong, or asks for what this version does not have.
    """
    for argument, given in (("hooks", hooks), ("journal", journal)):
        if given:
            msg = f"This version of loopwright has no {argument} yet: leave the argument out."
            raise SettingsError(msg)
    return Parts(
        models=Models(model),
        toolbox=Toolbox(tools, mcp=mcp, policy=policy),
        prompts=prompts or PromptManager(),
    )


def served_parts() -> Parts:
    """The parts of a graph that a server loads: MCP servers by LOOPWRIGHT_MCP, or the workspace.

    A wrong LOOPWRIGHT_MCP fails each run with its sentence, not the import of the module.
    """
    try:
        return assemble(mcp=default_mcp(os.environ))
    except ToolServerError as error:
        return Parts(toolbox=_UnusableToolbox(error))


class _UnusableToolbox(Toolbox):
    """Stands in where the environment's MCP configuration cannot be read."""

    def __init__(self, error: ToolServerError) -> None:
        super().__init__()
        self._error = error

    async def catalog(self, user_id: str | None = None) -> Catalog:  # noqa: ARG002 - Toolbox's signature
        raise ToolServerError(str(self._error)) from self._error


def default_mcp(environ: Mapping[str, str]) -> str | dict[str, Any]:
    """The MCP configuration where none is given: LOOPWRIGHT_MCP, or the workspace server here."""
    return environ.get("LOOPWRIGHT_MCP") or workspace_mcp(_STARTED_IN)


def workspace_mcp(root: str) -> dict[str, Any]:
    """An MCP configuration with the bundled workspace server on one folder."""
    arguments = ["-m", "loopwright.servers.workspace", "--root", root]
    return {"mcpServers": {"workspace": {"command": sys.executable, "args": arguments}}}

"""One call of a tool within its deadline: whatever happens becomes a result, or is no failure.

A write that gave no answer may have taken effect. Nothing here sends it again; the result says so,
and whoever asked is told that the end is not known.
"""

import asyncio
import logging
import sys
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config, merge_configs
from langgraph.errors import GraphBubbleUp
from langgraph.store.base import BaseStore

from ..state.context import Context
from ..state.told import say
from ..tools.catalog import CatalogTool
from ..tools.mcp.call import ServerUnavailable
from ..tools.python_tools import run_tool
from .results import ToolResult, failure, from_exception, normalise
from .waiting import staying, wait_at_most

log = logging.getLogger(__name__)

_RUNTIME_MODULE: Final = "langgraph.prebuilt.tool_node"


@dataclass(frozen=True)
class Ended:
    """What a call gave; `ambiguous` where it may have taken effect without an answer."""

    result: ToolResult
    ambiguous: bool = False


async def run_once(tool: CatalogTool, work: Coroutine[Any, Any, Any], deadline: float) -> Ended:
    """Do the work within the deadline; whatever goes wrong becomes a result.

    Args:
        tool: What is called; the result of a write says where it may have taken effect.
        work: The call.
        deadline: Seconds; after them the work is cancelled, and left behind if it will not end.

    Raises:
        GraphBubbleUp: The tool asked a question of its own.
        CancelledError: The run was cancelled.
    """
    task = asyncio.ensure_future(staying(work))
    in_time = await wait_at_most(task, deadline)
    if not in_time and (not task.done() or task.cancelled()):
        slow = "too_slow" if tool.read_only else "too_slow_still_running"
        return _doubtful(tool, failure(say(slow, tool=tool.name, seconds=f"{deadline:g}")))
    if task.cancelled():  # the tool cancelled itself; a cancelled run does not come here
        return _doubtful(tool, failure(say("cancelled_within", tool=tool.name)))
    error = task.exception()
    if error is None:
        return Ended(normalise(task.result()))
    if isinstance(error, GraphBubbleUp | asyncio.CancelledError | KeyboardInterrupt):
        raise error
    log.info("tool %s failed", tool.name, exc_info=error)
    result = _failed(tool, error)
    return _doubtful(tool, result) if _is_ambiguous(error) else Ended(result)


def _doubtful(tool: CatalogTool, result: ToolResult) -> Ended:
    if tool.read_only:
        return Ended(result)
    return Ended(replace(result, text=say("may_have_worked", text=result.text)), ambiguous=True)


def _failed(tool: CatalogTool, error: BaseException) -> ToolResult:
    if isinstance(error, ServerUnavailable):
        return failure(say("server_unavailable", server=repr(tool.server), why=error))
    return from_exception(tool.name, error)


def _is_ambiguous(error: BaseException) -> bool:
    """Whether an error says nothing about what the tool did: it ended, or was not answered."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, ServerUnavailable):
        return error.sent
    if not isinstance(error, Exception) or isinstance(error.__cause__, SystemExit | GeneratorExit):
        return True
    if isinstance(error, ConnectionRefusedError):
        return False
    return isinstance(error, TimeoutError | ConnectionError) or _is_read_timeout(error)


def _is_read_timeout(error: Exception) -> bool:
    """Time-outs of HTTP clients, which have their own types; one while connecting sent nothing."""
    name = type(error).__name__.lower()
    return "timeout" in name and not any(word in name for word in ("connect", "pool"))


async def call_python(
    tool: CatalogTool,
    args: Mapping[str, Any],
    *,
    call_id: str,
    about: Mapping[str, str],
    context: Context,
    store: BaseStore | None,
    write: Callable[[Any], None],
) -> Any:
    """Call a tool of the embedding program.

    Args:
        tool: The tool.
        args: Its arguments.
        call_id: The provider's id of the call.
        about: What the tool may know of the call, as metadata of its `RunnableConfig`.
        context: The run's settings.
        store: The run's store.
        write: The stream writer of its `ToolRuntime`.
    """
    config = merge_configs(ensure_config(), {"metadata": dict(about)})
    given = dict(args)
    for name in _runtime_arguments(tool):
        given[name] = sys.modules[_RUNTIME_MODULE].ToolRuntime(
            state={}, context=context, config=config, stream_writer=write, tool_call_id=call_id,
            store=store,
        )  # fmt: skip
    request = {"type": "tool_call", "name": tool.original, "args": given, "id": call_id}
    return await _invoked(tool, request, config)


async def _invoked(tool: CatalogTool, request: Mapping[str, Any], config: RunnableConfig) -> Any:
    if tool.tool is None:
        msg = f"{tool.name} is no tool of the program"
        raise TypeError(msg)
    return await run_tool(tool.tool, request, config)


def _runtime_arguments(tool: CatalogTool) -> list[str]:
    """Hidden parameters annotated as LangGraph's `ToolRuntime`, which a tool node would fill in."""
    module = sys.modules.get(_RUNTIME_MODULE)  # whoever annotates with it has imported it
    fields = getattr(getattr(tool.tool, "args_schema", None), "model_fields", {})
    if module is None or not tool.hidden:
        return []
    return [
        name
        for name in tool.hidden
        if name in fields and _is_a(fields[name].annotation, module.ToolRuntime)
    ]


def _is_a(annotation: Any, kind: type) -> bool:
    origin = getattr(annotation, "__origin__", annotation)
    return isinstance(origin, type) and issubclass(origin, kind)

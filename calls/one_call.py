"""One call of a tool within its deadline: whatever happens becomes a result, or is no failure.

A write that gave no answer may have taken effect. Nothing here sends it again; the result says so,
and whoever asked is told that the end is not known.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar, cast

from langchain_core.runnables.config import ensure_config, merge_configs
from langchain_core.tools import BaseTool, ToolException
from langgraph.errors import GraphBubbleUp

from ..hooks.contract import Verdict
from ..state.calls import HOOK_STOP, UNCERTAIN
from ..text.told import say
from ..tools.catalog import CatalogTool
from ..tools.mcp.call import ServerUnavailable
from ..tools.python_tools import refused_arguments, run_tool
from ..tools.values import NoJson
from ..turn.scope import RunScope
from .call_records import Answered, PendingCall, Reason, told_hooks
from .commands import commands_in, joined, read_commands, without_messages
from .injected import NotGiven, injected
from .results import ToolResult, failure, from_exception, normalise

log = logging.getLogger(__name__)

T = TypeVar("T")
TailCall = Callable[[str, dict[str, Any]], Awaitable[ToolResult]]
"""Makes another call, of this name and these arguments."""

_GRACE: Final = 2.0
"""Seconds a cancelled piece of work gets to clean up before it is left behind."""
_RESPONSE_KEYS: Final = frozenset(
    {"llmContent", "llm_content", "returnDisplay", "return_display", "error"}
)


async def run_once(tool: CatalogTool, work: Coroutine[Any, Any, Any], deadline: float) -> Answered:
    """Do the work within the deadline; whatever goes wrong becomes a result.

    Args:
        tool: What is called; a write that may have taken effect ends `uncertain`, and says so.
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
        return _ran(_read(tool, task.result()))
    if isinstance(error, GraphBubbleUp | asyncio.CancelledError | KeyboardInterrupt):
        raise error
    if isinstance(error, NoJson):
        return _ran(unread(tool, error))
    log.info("tool %s failed", tool.name, exc_info=error)
    result = from_exception(tool.name, error)
    if isinstance(error, ServerUnavailable):
        result = failure(say("server_unavailable", server=repr(tool.server), why=error))
    ended = tool.resendable or _has_ended(tool, error)
    return _ran(result) if ended else _doubtful(tool, result)


def _read(tool: CatalogTool, given: Any) -> ToolResult:
    """The result of a tool that ended; one that cannot be read does not undo what a write did."""
    try:
        return normalise(given)
    except NoJson as error:
        return unread(tool, error)


def unread(tool: CatalogTool, error: NoJson) -> ToolResult:
    """What to say of a result that is no JSON."""
    if tool.read_only:
        return failure(say("tool_unread", tool=tool.name, why=error))
    return ToolResult(say("ran_but_unread", why=error))


def _ran(result: ToolResult, reason: Reason = "") -> Answered:
    return Answered(result, reason=reason, ran=True, counts=True)


def _doubtful(tool: CatalogTool, result: ToolResult) -> Answered:
    if tool.read_only:
        return _ran(result)
    return _ran(replace(result, text=say("may_have_worked", text=result.text)), UNCERTAIN)


def _has_ended(tool: CatalogTool, error: BaseException) -> bool:
    """Whether an error says that the call changed nothing and never will.

    Only the tool can say so, by a refusal, or its server by never having been sent the call: any
    other error may come after the effect.
    """
    if isinstance(error, BaseExceptionGroup):
        return all(_has_ended(tool, one) for one in error.exceptions)
    if isinstance(error, ServerUnavailable):
        return not error.sent
    return isinstance(error, ToolException) or refused_arguments(tool.tool, error)


async def call_python(
    scope: RunScope,
    tool: CatalogTool,
    args: Mapping[str, Any],
    call: PendingCall,
    about: Mapping[str, str],
    tools: Sequence[BaseTool] = (),
) -> Any:
    """Call a tool of the embedding program.

    `about` is what it may know of the call, as metadata of its `RunnableConfig`; `tools` are the
    program's. What it wants changed in the graph's state is the result's `update`.
    """
    config, id_ = merge_configs(ensure_config(), {"metadata": dict(about)}), call["call_id"]
    try:
        given = {**args, **injected(scope, tool, call, config, tools)}
    except NotGiven as error:
        told = say("failed_call", why=error, advice=say("do_without"))
        return ToolResult(told, is_error=True)
    request = {"type": "tool_call", "name": tool.original, "args": given, "id": id_}
    result = await run_tool(cast("BaseTool", tool.tool), request, config)
    commands = commands_in(result)
    if not commands:
        return result
    return read_commands(commands, scope.by_tools, id_, scope.public.get("messages", ()))


async def staying(work: Coroutine[Any, Any, T]) -> T:
    """Keep a tool that calls `sys.exit()` from ending the loop: asyncio lets that one out."""
    try:
        return await work
    except SystemExit as error:
        msg = f"SystemExit: {error.code}"
        raise RuntimeError(msg) from error


async def wait_at_most(task: asyncio.Future[Any], deadline: float) -> bool:
    """Wait for a task at most so long, then cancel it; one that will not end is left behind.

    Returns:
        Whether it ended in time.
    """
    try:
        done, _ = await asyncio.wait({task}, timeout=deadline)
        return bool(done)
    finally:
        # A caller who is cancelled meanwhile will not look at what the task ends with.
        task.add_done_callback(_forget)
        if not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=_GRACE)


def _forget(task: asyncio.Future[Any]) -> None:
    """Look at a task's exception, which perhaps nobody else will."""
    if not task.cancelled():
        task.exception()


async def in_order(steps: Sequence[tuple[bool, Callable[[], Coroutine[Any, Any, T]]]]) -> list[T]:
    """Run some work side by side and some alone, everything after what stands before it.

    Args:
        steps: For each piece of work whether it must run alone, and what starts it.

    Returns:
        The results, in the order given.
    """
    results: list[T] = []
    together: list[Coroutine[Any, Any, T]] = []
    for alone, run in steps:
        if not alone:
            together.append(run())
            continue
        results += await side_by_side(together)
        results += await side_by_side([run()])
        together = []
    return results + await side_by_side(together)


async def side_by_side(work: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """Wait for all of it, also when one raises: its siblings' results must not get lost."""
    tasks = [asyncio.ensure_future(one) for one in work]
    if not tasks:
        return []
    try:
        await asyncio.wait(tasks)
    except asyncio.CancelledError:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        raise
    for task in tasks:  # each exception has to be looked at, though only the first is raised
        if not task.cancelled():
            task.exception()
    return [task.result() for task in tasks]


async def after_tool(
    scope: RunScope,
    tool: CatalogTool,
    args: Mapping[str, Any],
    result: ToolResult,
    tail: TailCall | None,
    original: str,
) -> ToolResult:
    """What the model gets to see of a result, by the AfterTool hooks.

    It is withheld where a hook denies it, and has the reason under `HOOK_STOP` in its artifact
    where one ends the run.

    Args:
        scope: The run and its hooks.
        tool: What ran.
        args: The arguments it ran with.
        result: What it gave back.
        tail: Makes another call, where one may be made, and its result takes the place of this one.
        original: The tool the model called, where this one ran as its tail.
    """
    fields = told_hooks(tool, args) | {"tool_response": _response(result)}
    if original:
        fields["original_request_name"] = original
    verdict = await scope.fire("AfterTool", **fields)
    shown, wanted = _replaced(result, verdict), verdict.tail_call
    if wanted and not verdict.blocked:
        if tail is not None:
            follows = await tail(wanted.name, wanted.args)
            shown = replace(follows, update=joined(shown.update, follows.update))
        else:
            note = say("no_tail_here", tool=wanted.name)
            shown = replace(shown, text=f"{shown.text}\n\n{note}")
    if verdict.context:
        shown = replace(shown, text=f"{shown.text}\n\n{verdict.context}")
    if verdict.stop is not None:
        shown = replace(shown, artifact={**shown.artifact, HOOK_STOP: verdict.stop})
    return shown


def _response(result: ToolResult) -> dict[str, Any]:
    error = {"message": result.text} if result.is_error else None
    data = result.text if result.data is None else result.data
    return {"llmContent": result.text, "returnDisplay": data, "error": error}


def _replaced(result: ToolResult, verdict: Verdict) -> ToolResult:
    """The text a hook put in the place of a result.

    Its data, files and links are gone then, and the messages that its tool adds.
    """
    given = verdict.tool_response
    if verdict.blocked:
        return failure(say("result_withheld", why=verdict.reason))
    if isinstance(given, Mapping):
        if set(given) - _RESPONSE_KEYS:  # a misspelt key must not show what it meant to hide
            return failure(say("result_unreadable"))
        given = next((str(given[k]) for k in ("llmContent", "llm_content") if k in given), None)
    if given is None:
        return result
    return ToolResult(given, is_error=result.is_error, update=without_messages(result.update))

"""How a call reaches its tool, within its deadline; whatever happens there becomes a result.

A write that gave no answer may have taken effect. Nothing here sends it again; the result says so,
and whoever asked is told that the end is not known.
"""

import asyncio
import logging
import time
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, cast

from langchain_core.runnables.config import ensure_config, merge_configs
from langchain_core.tools import BaseTool, ToolException
from langgraph.errors import GraphBubbleUp
from langgraph.types import Command

from ..state.calls import UNCERTAIN, CallState, Evidence
from ..state.context import Context
from ..text.sentences import say
from ..tools.catalog import Catalog, CatalogTool
from ..tools.mcp.call import ServerUnavailable
from ..tools.python_tools import BUILT_IN, is_argument_error, run_tool
from ..tools.values import NoJson
from ..turn import spans
from ..turn.scope import RunScope
from .call_records import Call, Reason
from .commands import find_commands, read_commands
from .injection import InjectionError, inject_arguments
from .result_store import ResultStore
from .results import (
    ToolResult,
    from_exception,
    make_failure,
    mask_result,
    normalize_result,
    render_items,
)
from .toolbox import Toolbox

if TYPE_CHECKING:
    from .path import PassScope, Then

log = logging.getLogger(__name__)

T = TypeVar("T")

_GRACE: Final = 2.0
"""Seconds a cancelled piece of work gets to clean up before it is left behind."""


async def mark_executing(_: "PassScope", call: Call, then: "Then") -> None:
    """Tell that a call runs, with its final arguments, and measure for how long."""
    call.begin()
    began = time.monotonic()
    await then(call)
    call.seconds = time.monotonic() - began


async def trace_call(work: "PassScope", call: Call, then: "Then") -> None:
    """Make a call inside an OpenTelemetry span, which is told of its failure."""
    tool = call.known_tool
    with spans.open_tool_span(work.scope, call.pending, tool.name, tool.server) as tell_end:
        await then(call)
        tell_end(call.outcome.is_error)


async def send_call(work: "PassScope", call: Call, _: "Then") -> None:
    """Call the tool, and mask the secrets in what it gave; components are for people."""
    tool, pending = call.known_tool, call.pending
    call.key = call.key or work.book.build_intent(call).key
    deadline = compute_deadline(pending, tool, work.scope.context)
    asks = not pending.get("tail_of")
    made = await make_call(work.scope, work.toolbox, call, deadline, asks=asks)
    call.returned, call.reason = made
    call.ran = call.counts = True
    result = mask_result(call.returned, work.toolbox.secrets)
    if isinstance(result.data, Mapping) or result.artifact.get("links"):
        result = render_items(result)
    call.result = result


async def make_call(
    scope: RunScope, toolbox: Toolbox, call: Call, deadline: float, *, asks: bool
) -> "Response":
    """Make a call within its deadline, in seconds; a graph on tape keeps what it gave, or has it.

    See `run_once` and `send_to_tool`.
    """

    def make() -> Coroutine[Any, Any, Response]:
        sent = send_to_tool(scope, toolbox, call, asks=asks)
        return run_once(call.known_tool, sent, deadline)

    if toolbox.tape is None or call.known_tool.tool is BUILT_IN:  # which only asks a model
        return await make()
    response: Response = await toolbox.tape.send(scope.thread, toolbox.secrets, call, make)
    return response


async def send_to_tool(scope: RunScope, toolbox: Toolbox, call: Call, *, asks: bool) -> Any:
    """Make a call, with what its tool may know of the run; `asks` lets its server ask the human.

    Whatever the tool does comes back, or is raised.
    """
    pending, tool = call.pending, call.known_tool
    about = {
        "loopwright/thread": scope.thread,
        "loopwright/turn": scope.turn,
        "loopwright/task": pending["task"],
        "loopwright/call": call.id,
        "loopwright/idempotency_key": call.key,
    }
    traced = spans.build_metadata(scope, scope.run.role, pending) | about
    if tool.tool is not None:
        return await _call_python(scope, toolbox, call, traced)
    async with toolbox.sampler(scope) if toolbox.sampler else nullcontext() as sample:
        return await toolbox.call_server(
            tool, call.args, user_id=scope.user, meta=about | _describe_application(scope),
            traced=traced, emit=scope.emit, turn=scope.turn, can_ask=scope.can_ask and asks,
            reply=call.reply, sample=sample,
        )  # fmt: skip


def _describe_application(scope: RunScope) -> dict[str, Any]:
    """What a server is told of the application; a Python tool has it in its `ToolRuntime`."""
    names = ("resource_id", "task_id", "tool_context")
    values = {f"loopwright/{name}": getattr(scope.context, name) for name in names}
    return {key: value for key, value in values.items() if value}


async def _call_python(
    scope: RunScope, toolbox: Toolbox, call: Call, about: Mapping[str, str]
) -> Any:
    """Call a tool of the embedding program.

    `about` is what it may know of the call, as metadata of its `RunnableConfig`. What it wants
    changed in the graph's state is the result's `update`.
    """
    tool, id_ = call.known_tool, call.pending["call_id"]
    config = merge_configs(ensure_config(), {"metadata": dict(about)})
    args = call.args
    if tool.hidden:
        emit, secrets = scope.emit, toolbox.secrets
        shown = replace(scope, emit=lambda event: emit(secrets.mask_json(event)))
        tools = (await toolbox.catalog(scope.user)).tools.values()
        try:
            offered = [known.tool for known in tools if known.tool]
            values = inject_arguments(shown, tool, call.pending, config, offered)
        except InjectionError as error:
            told = say("failed_call", why=error, advice=say("do_without"))
            return ToolResult(say("call_ended_so", why=error), is_error=True, to_model=told)
        args = {**args, **values}
    request = {"type": "tool_call", "name": tool.original, "args": args, "id": id_}
    result = await run_tool(cast("BaseTool", tool.tool), request, config)
    commands = find_commands(result) if isinstance(result, Command | list) else []
    if not commands:
        return result
    return read_commands(
        commands, scope.around.by_tools, id_, scope.around.public.get("messages", ())
    )


def compute_deadline(call: Mapping[str, Any], tool: CatalogTool, context: Context) -> float:
    """Seconds a call may take: those of its tool, or fewer where its plan says so."""
    allowed = tool.timeout or context.tool_deadline
    return min(allowed, call.get("deadline") or allowed)


class Response(NamedTuple):
    """What a tool gave; `uncertain` is the reason of a failed write that may have taken effect."""

    result: ToolResult
    reason: Reason = ""


async def run_once(tool: CatalogTool, work: Coroutine[Any, Any, Any], deadline: float) -> Response:
    """Do the work within the deadline, in seconds; whatever goes wrong becomes a result.

    A write that may have taken effect ends as `uncertain`, and says so. Work that does not end when
    it is cancelled is left behind.

    Raises:
        GraphBubbleUp: The tool asked a question of its own.
        CancelledError: The run was cancelled.
    """
    task = asyncio.ensure_future(contain_exit(work))
    in_time = await wait_with_deadline(task, deadline)
    if not in_time and (not task.done() or task.cancelled()):
        slow = "too_slow" if tool.read_only else "too_slow_still_running"
        late = make_failure(say(slow, tool=tool.name, seconds=f"{deadline:g}"))
        return _mark_uncertain(tool, replace(late, is_own=True))
    if task.cancelled():  # the tool cancelled itself; a cancelled run does not come here
        return _mark_uncertain(tool, make_failure(say("cancelled_within", tool=tool.name)))
    error = task.exception()
    if error is None:
        return Response(_read_result(tool, task.result()))
    if isinstance(error, GraphBubbleUp | asyncio.CancelledError | KeyboardInterrupt):
        raise error
    if isinstance(error, NoJson):
        return Response(explain_unreadable(tool, error))
    log.info("tool %s failed", tool.name, exc_info=error)
    result = from_exception(tool.name, error)
    if isinstance(error, ServerUnavailable):
        result = make_failure(say("server_unavailable", server=repr(tool.server), why=error))
    ended = tool.resendable or _has_ended(error)
    return Response(result) if ended else _mark_uncertain(tool, result)


def _read_result(tool: CatalogTool, given: Any) -> ToolResult:
    """The result of a tool that ended; one that cannot be read does not undo what a write did."""
    try:
        return normalize_result(given)
    except NoJson as error:
        return explain_unreadable(tool, error)


def explain_unreadable(tool: CatalogTool, error: NoJson) -> ToolResult:
    """What to say of a result that is no JSON."""
    if tool.read_only:
        return make_failure(say("tool_unread", tool=tool.name, why=error))
    told = say("ran_but_unread", why=error)
    return ToolResult(say("call_made_but", why=error), to_model=told)


def _mark_uncertain(tool: CatalogTool, result: ToolResult) -> Response:
    if tool.read_only:
        return Response(result)
    told = say("may_have_worked", text=result.to_model or result.text)
    text = f"{result.text} {say('call_in_doubt')}"
    return Response(replace(result, text=text, to_model=told), UNCERTAIN)


def _has_ended(error: BaseException) -> bool:
    """Whether an error says that the call changed nothing and never will.

    Only the tool can say so, by a refusal, or its server by never having been sent the call: any
    other error may come after the effect.
    """
    if isinstance(error, BaseExceptionGroup):
        return all(_has_ended(inner) for inner in error.exceptions)
    if isinstance(error, ServerUnavailable):
        return not error.sent
    return isinstance(error, ToolException) or is_argument_error(error)


async def contain_exit(work: Coroutine[Any, Any, T]) -> T:
    """Keep a tool that calls `sys.exit()` from ending the loop: asyncio lets that one out."""
    try:
        return await work
    except SystemExit as error:
        msg = f"SystemExit: {error.code}"
        raise RuntimeError(msg) from error


async def wait_with_deadline(task: asyncio.Future[Any], deadline: float) -> bool:
    """Whether a task ends in time; else it is cancelled, and left behind if it will not end."""
    try:
        done, _ = await asyncio.wait({task}, timeout=deadline)
        return bool(done)
    finally:
        # A caller who is cancelled meanwhile will not look at what the task ends with.
        task.add_done_callback(_consume_exception)
        if not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=_GRACE)


def _consume_exception(task: asyncio.Future[Any]) -> None:
    """Look at a task's exception, which perhaps nobody else will."""
    if not task.cancelled():
        task.exception()


# The package's own tools.


@dataclass(frozen=True)
class HandlerScope:
    """One call of such a tool, as its handler sees it; it changes state by its result."""

    scope: RunScope
    results: ResultStore
    """Long results of the thread."""
    catalog: Catalog
    """What can be called."""
    state: CallState | None = None
    """The graph's state, to be read only; None where a call stands in no loop."""
    beside: Sequence[Evidence] = ()
    """The calls of the same message that have ended, in this pass or an earlier one."""
    call: Mapping[str, Any] = field(default_factory=dict)
    """The call as it was planned."""
    reply: Mapping[str, Any] | None = None
    """A human's answer, once the handler has raised `ElicitationPending`."""


async def answer_by_handler(work: "PassScope", call: Call, _: "Then") -> None:
    """Answer a call of the package's own tool; no allowance pays for it."""
    tool = call.known_tool
    about = (work.scope, work.results, work.gate.catalog, work.state)
    own = HandlerScope(*about, [*work.beside], call.pending, call.reply)
    call.begin()
    handler: Any = tool.own
    began = time.monotonic()
    deadline = compute_deadline(call.pending, tool, work.scope.context)
    result, call.reason = await run_once(tool, handler(call.args, own), deadline)
    call.result = mask_result(result, work.toolbox.secrets)
    call.reason = call.reason or _ANSWERS.get((call.reply or {}).get("action"), "")
    call.ran, call.seconds = True, time.monotonic() - began


_ANSWERS: Final[Mapping[Any, Reason]] = {"accept": "answered by the user", "decline": "rejected"}
"""What a human's answer to a question of the handler is to the record."""

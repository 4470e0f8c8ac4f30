"""The one path by which a tool call runs, from the model's message to a ToolMessage.

`plan_calls` looks each call up, checks its arguments and asks the policy; its answer is plain JSON
that can wait in the state while a human is asked. `run_calls` runs what may run.
"""

import asyncio
import logging
import time
import uuid
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, Literal, Protocol, cast

from langchain_core.messages import BaseMessage, ToolMessage
from langchain_core.runnables.config import ensure_config, merge_configs
from langgraph.errors import GraphBubbleUp
from langgraph.store.base import BaseStore
from typing_extensions import TypedDict

from ..state.context import Context
from ..state.events import Emit
from .catalog import READER, CatalogTool
from .mcp import ServerUnavailable
from .planning import Gate, PlannedCall, unknown_tool
from .policy import NOT_INTERACTIVE
from .python_tools import run_tool
from .results import NOTHING, ToolResult, failure, from_exception, normalise
from .stored import ResultStore
from .toolbox import Toolbox
from .waiting import in_order, staying, wait_at_most

log = logging.getLogger(__name__)

Status = Literal["success", "error", "denied"]

_EVENT_TEXT: Final = 2_000
_SPENT: Final = "Not run: the run's allowance of tool calls is used up. Answer with what you have."
_UNAPPROVED: Final = "nobody has approved it"
_REJECTED: Final = (
    "Not run: the user rejected this call{said}. Do not send it again; do without it or report it."
)


class CallRecord(TypedDict):
    """One call as it ended. `result` is the text the model is shown, `message` carries it.

    `reason` says why a call was denied: `denied` by policy, `rejected` by the user, or
    `not_interactive`; it is empty for all others.
    """

    id: str
    task: str
    call_id: str
    tool: str
    arguments: dict[str, Any]
    status: Status
    reason: str
    result: str
    seconds: float
    ran: bool
    message: ToolMessage


class ToolBudget(Protocol):
    """What the run's ledger must offer."""

    def reserve_tool_calls(self, n: int, /) -> int:
        """Take up to n calls from the allowance; returns how many were granted."""


async def run_calls(
    calls: Sequence[Mapping[str, Any]],
    *,
    toolbox: Toolbox,
    context: Context,
    decisions: Mapping[str, Mapping[str, Any]] | None = None,
    emit: Emit | None = None,
    store: BaseStore | None = None,
    thread_id: str = "",
    user_id: str | None = None,
    ledger: ToolBudget | None = None,
) -> list[CallRecord]:
    """Run the calls of one message and answer every one of them.

    Reads run side by side; a write waits for what stands before it, and what stands behind it
    waits for the write. Whatever a tool does is data: a call cannot fail the run.

    Args:
        calls: What `plan_calls` gave.
        toolbox: Where the tools are.
        context: The run's settings.
        decisions: The human's answers by the call's id: `{"type": "approve"}`, `{"type": "reject",
            "message"?}`, `{"type": "edit", "args"}` or `{"type": "respond", "message"}`.
        emit: Takes a `tool_call` event at the start and at the end of each call.
        store: Keeps results that are too long to show; without one they stay in memory.
        thread_id: The thread, told to the tools and used to keep results apart.
        user_id: Whose headers MCP servers get.
        ledger: Grants tool calls; what it does not grant is answered as not run.

    Returns:
        One record a call, in the order of `calls`.
    """
    catalog = await toolbox.catalog(user_id)
    run = _Run(
        gate=Gate(catalog, toolbox.policy, context, can_ask=True),
        toolbox=toolbox,
        context=context,
        emit=emit or _silent,
        results=ResultStore(store or toolbox.spare_store(thread_id), thread_id),
        thread_id=thread_id,
        user_id=user_id,
    )
    planned = [cast("PlannedCall", call) for call in calls]
    steps = [run.settle(call, (decisions or {}).get(call["id"])) for call in planned]
    pairs = zip(planned, _granted(steps, ledger), strict=True)
    return await in_order([(_is_write(s), partial(run.finish, c, s)) for c, s in pairs])


@dataclass(frozen=True)
class _Ready:
    """A call that may run."""

    tool: CatalogTool
    args: dict[str, Any]


@dataclass(frozen=True)
class _Settled:
    """A call that is answered without running."""

    status: Status
    text: str
    reason: str = ""


_Step = _Ready | _Settled


def _is_write(step: _Step) -> bool:
    return isinstance(step, _Ready) and not step.tool.read_only


def _granted(steps: Sequence[_Step], ledger: ToolBudget | None) -> list[_Step]:
    """The steps the allowance covers; the rest is answered as not run."""
    wanted = sum(isinstance(step, _Ready) for step in steps)
    left = ledger.reserve_tool_calls(wanted) if ledger is not None and wanted else wanted
    kept: list[_Step] = []
    for step in steps:
        if isinstance(step, _Ready):
            left -= 1
        kept.append(step if left >= 0 or isinstance(step, _Settled) else _Settled("error", _SPENT))
    return kept


@dataclass(frozen=True, kw_only=True)
class _Run:
    """What the calls of one message share."""

    gate: Gate
    toolbox: Toolbox
    context: Context
    emit: Emit
    results: ResultStore
    thread_id: str
    user_id: str | None

    def settle(self, call: PlannedCall, decision: Mapping[str, Any] | None) -> _Step:
        """Say whether a call runs. Catalog and policy may have changed since it was planned."""
        if call["action"] == "error":
            return _Settled("error", call["reason"])
        if call["action"] == "deny":
            return _denied(call["reason"])
        tool = self.gate.catalog.find(call["name"], call["server"])
        if tool is None:
            return _Settled("error", unknown_tool(call["name"], self.gate.catalog))
        if call["action"] == "ask":
            return self._answered(call, tool, decision or {})
        return self._judged(tool, call["args"])

    def _answered(self, call: PlannedCall, tool: CatalogTool, decision: Mapping[str, Any]) -> _Step:
        said = str(decision.get("message") or "").strip()
        kind = decision.get("type")
        if kind == "approve":
            return self._judged(tool, call["args"], asked=True)
        if kind == "edit":
            return self._edited(call, tool, decision)
        if kind == "respond":
            return _Settled("success", said or NOTHING, "answered by the user")
        if kind == "reject":
            text = _REJECTED.format(said=f" and said: {said}" if said else "")
            return _Settled("denied", text, "rejected")
        return _denied(_UNAPPROVED)

    def _edited(self, call: PlannedCall, tool: CatalogTool, decision: Mapping[str, Any]) -> _Step:
        if decision.get("name") not in (None, "", call["name"]):
            return _denied("an edit may change the arguments of a call, not its tool")
        return self._judged(tool, decision.get("args"), asked=True)

    def _judged(self, tool: CatalogTool, args: object, *, asked: bool = False) -> _Step:
        """A call with its final arguments; the policy may be stricter by now than when planned."""
        fitted, action, reason = self.gate.judge(tool, args)
        if action == "error":
            return _Settled("error", reason)
        if action == "ask" and not asked:
            return _denied(_UNAPPROVED)
        return _denied(reason) if action == "deny" else _Ready(tool, fitted)

    async def finish(self, call: PlannedCall, step: _Step) -> CallRecord:
        """Run one call, or answer it, and tell of it."""
        args = step.args if isinstance(step, _Ready) else call["args"]
        event = {
            "type": "tool_call",
            "id": call["id"],
            "task": call["task"],
            "tool": call["name"],
            "arguments": args,
        }
        started = time.monotonic()
        if isinstance(step, _Settled):
            status, result, stored = step.status, ToolResult(step.text), ""
        else:
            self.emit({**event, "status": "running"})
            result, stored = await self._ran(call, step)
            status = "error" if result.is_error else "success"
        seconds = round(time.monotonic() - started, 3)
        told = {"status": status, "result": result.text[:_EVENT_TEXT], "seconds": seconds}
        self.emit({**event, **told})
        return CallRecord(
            id=call["id"],
            task=call["task"],
            call_id=call["call_id"],
            tool=call["name"],
            arguments=args,
            status=status,
            reason="" if isinstance(step, _Ready) else step.reason,
            result=result.text,
            seconds=seconds,
            ran=isinstance(step, _Ready),
            message=_message(call, status, result, stored),
        )

    async def _ran(self, call: PlannedCall, step: _Ready) -> tuple[ToolResult, str]:
        cap = self.context.result_cap
        if step.tool is READER:
            return await self._guarded(step, self.results.read(step.args, cap)), ""
        result = await self._guarded(step, self._raw(call, step))
        return await self.results.shorten(result, cap)

    async def _raw(self, call: PlannedCall, step: _Ready) -> Any:
        about = {
            "loopwright/thread": self.thread_id,
            "loopwright/task": call["task"],
            "loopwright/call": call["id"],
        }
        if step.tool.tool is None:
            return await self.toolbox.call_server(
                step.tool, step.args, user_id=self.user_id, meta=about
            )
        request = {
            "type": "tool_call",
            "name": step.tool.original,
            "args": step.args,
            "id": call["call_id"],
        }
        config = merge_configs(ensure_config(), {"metadata": about})
        return await run_tool(step.tool.tool, request, config)

    async def _guarded(self, step: _Ready, work: Coroutine[Any, Any, Any]) -> ToolResult:
        """Do the work within the deadline; whatever goes wrong becomes a result."""
        name, deadline = step.tool.name, step.tool.timeout or self.context.tool_deadline
        task = asyncio.ensure_future(staying(work))
        in_time = await wait_at_most(task, deadline)
        if not in_time and (not task.done() or task.cancelled()):
            still = (
                ""
                if step.tool.read_only
                else "; it may still be running, so check before repeating"
            )
            return failure(f"{name} did not answer within {deadline:g} s{still}")
        if task.cancelled():  # the tool cancelled itself; a cancelled run does not come here
            return failure(f"{name} was cancelled from within")
        error = task.exception()
        if error is None:
            return normalise(task.result())
        if isinstance(error, GraphBubbleUp | asyncio.CancelledError | KeyboardInterrupt):
            raise error
        log.info("tool %s failed", name, exc_info=error)
        return _failed(step.tool, error)


def _failed(tool: CatalogTool, error: BaseException) -> ToolResult:
    if isinstance(error, ServerUnavailable):
        return failure(f"The MCP server {tool.server!r} is not available: {error}")
    return from_exception(tool.name, error)


def _message(call: PlannedCall, status: Status, result: ToolResult, stored: str) -> ToolMessage:
    """The answer to a call as the model and the state get it."""
    about = {"evidence": call["id"], "timestamp": datetime.now(UTC).isoformat(timespec="seconds")}
    if stored:
        about["stored"] = stored
    artifact = {**result.artifact, **({} if result.data is None else {"data": result.data})}
    return ToolMessage(
        content=result.text or NOTHING,
        id=str(uuid.uuid4()),
        name=call["name"],
        tool_call_id=call["call_id"],
        status="success" if status == "success" else "error",
        artifact=artifact or None,
        additional_kwargs=about,
    )


def has_stored(messages: Sequence[BaseMessage]) -> bool:
    """Whether one of these messages was shortened, so that `read_result` is of use."""
    return any(isinstance(m, ToolMessage) and "stored" in m.additional_kwargs for m in messages)


def _denied(why: str) -> _Settled:
    code = NOT_INTERACTIVE if why == NOT_INTERACTIVE else "denied"
    if why == NOT_INTERACTIVE:
        why = f"{NOT_INTERACTIVE}: this call needs a human's approval, and nobody can be asked"
    text = f"Not run: {why}. Do without it, or report what you could not do."
    return _Settled("denied", text, code)


def _silent(_: dict[str, Any]) -> None:
    """Where nobody listens."""

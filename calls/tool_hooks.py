"""Hooks around tool calls: what they change is checked and judged like the model's own words."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, cast

from langchain_core.messages import BaseMessage, ToolMessage

from ..hooks.contract import Verdict
from ..hooks.registry import Hooks
from ..state.session import Emit
from ..tools.catalog import CatalogTool
from .gate import Gate, PlannedCall
from .policy import NOT_INTERACTIVE
from .results import ToolResult, failure

HOOK_STOP: Final = "hook_stop"
"""Key of a planned call, and of a result's artifact: why a hook wants the run to end here."""

TailCall = Callable[[str, dict[str, Any]], Awaitable[ToolResult]]

_ASKED: Final = "a hook wants a human to decide"
_RESPONSE_KEYS: Final = frozenset(
    {"llmContent", "llm_content", "returnDisplay", "return_display", "error"}
)
_UNREADABLE: Final = "The result is withheld: a hook put something unreadable in its place."
_NO_TAIL: Final = "[A hook asked for a call of {name} after this one, which cannot be made here.]"


async def before_tools(
    planned: Sequence[PlannedCall], gate: Gate, hooks: Hooks, *, emit: Emit | None = None
) -> list[PlannedCall]:
    """Let the BeforeTool hooks speak of each call whose arguments are sound.

    Args:
        planned: What `plan_calls` gave.
        gate: Judges what hooks changed, as it judged what the model wrote.
        hooks: The graph's hooks.
        emit: Takes their events.

    Returns:
        The calls in the same order: denied where a hook blocks, asked about where one asks, with
        other arguments where one changed them. If a hook ended the run, no call of the message
        may run, and each says why under `HOOK_STOP`.
    """
    if not hooks.listens("BeforeTool"):
        return list(planned)
    calls = [await _before_tool(call, gate, hooks, emit) for call in planned]
    stop = stopped_by(calls)
    return [_stopped(call, stop) for call in calls] if stop else calls


def stopped_by(calls: Sequence[Mapping[str, Any]]) -> str:
    """Why a hook wants the run to end instead of these calls; "" where none does."""
    return next((str(call[HOOK_STOP]) for call in calls if call.get(HOOK_STOP)), "")


def stopped_after(messages: Sequence[BaseMessage]) -> str:
    """Why a hook wants the run to end after the newest results; "" where none does."""
    for message in reversed(messages):
        if not isinstance(message, ToolMessage):
            return ""
        if isinstance(message.artifact, Mapping) and message.artifact.get(HOOK_STOP):
            return str(message.artifact[HOOK_STOP])
    return ""


def _stopped(call: PlannedCall, why: str) -> PlannedCall:
    if call["action"] == "error":
        return call
    return cast("PlannedCall", {**call, "action": "deny", "reason": why, HOOK_STOP: why})


async def _before_tool(
    call: PlannedCall, gate: Gate, hooks: Hooks, emit: Emit | None
) -> PlannedCall:
    tool = gate.catalog.find(call["name"], call["server"])
    if call["action"] == "error" or tool is None:
        return call
    fields = _about(tool) | {"tool_input": call["args"]}
    verdict = await hooks.fire("BeforeTool", emit=emit, **fields)
    if verdict.stop is not None:
        return cast("PlannedCall", {**call, HOOK_STOP: verdict.stop})
    changed = _changed(call, tool, verdict, gate)
    if changed["action"] in ("error", "deny"):
        return changed
    if verdict.blocked:
        return cast("PlannedCall", {**changed, "action": "deny", "reason": verdict.reason})
    return _asking(changed, verdict, gate) if verdict.ask else changed


def _changed(call: PlannedCall, tool: CatalogTool, verdict: Verdict, gate: Gate) -> PlannedCall:
    """The call with the arguments a hook gave it, checked and judged afresh."""
    if verdict.tool_input is None or verdict.tool_input == call["args"]:
        return call
    fitted, action, reason = gate.judge(tool, verdict.tool_input)
    if action == "error":
        reason = f"{reason} (A hook changed the arguments.)"
    return cast("PlannedCall", {**call, "args": fitted, "action": action, "reason": reason})


def _asking(call: PlannedCall, verdict: Verdict, gate: Gate) -> PlannedCall:
    if not gate.can_ask:
        return cast("PlannedCall", {**call, "action": "deny", "reason": NOT_INTERACTIVE})
    reason = verdict.reason or _ASKED
    if call["action"] == "ask" and call["reason"]:
        reason = f"{call['reason']}; {reason}"
    return cast("PlannedCall", {**call, "action": "ask", "reason": reason})


async def check_edit(
    tool: CatalogTool, args: Mapping[str, Any], hooks: Hooks, *, emit: Emit | None = None
) -> str:
    """Why arguments a human or a hook gave a call may not run after all; "" where they may.

    The call is decided on, so hooks can only block here. One that wants other arguments blocks
    too: what runs is what was decided on, or nothing.
    """
    if not hooks.listens("BeforeTool"):
        return ""
    verdict = await hooks.fire("BeforeTool", emit=emit, **_about(tool), tool_input=dict(args))
    if verdict.stop is not None:
        return verdict.stop
    if verdict.blocked:
        return verdict.reason
    if verdict.tool_input is not None and verdict.tool_input != dict(args):
        return "another hook would change its arguments"
    return ""


async def after_tool(
    tool: CatalogTool,
    args: Mapping[str, Any],
    result: ToolResult,
    hooks: Hooks,
    *,
    emit: Emit | None = None,
    tail: TailCall | None = None,
    original: str = "",
) -> ToolResult:
    """What the model gets to see of a result, by the AfterTool hooks.

    Args:
        tool: What ran.
        args: The arguments it ran with.
        result: What it gave back.
        hooks: The graph's hooks.
        emit: Takes their events.
        tail: Makes another call by name and arguments, where that may be made; its result takes
            the place of this one.
        original: The tool the model called, where this one ran as its tail.

    Returns:
        The result; withheld where a hook denies it, longer by the hooks' context, and with the
        reason under `HOOK_STOP` in its artifact where a hook ends the run.
    """
    if not hooks.listens("AfterTool"):
        return result
    fields = _about(tool) | {"tool_input": dict(args), "tool_response": _response(result)}
    if original:
        fields["original_request_name"] = original
    verdict = await hooks.fire("AfterTool", emit=emit, **fields)
    if verdict.blocked:
        shown = failure(f"The result is withheld: {verdict.reason}")
    else:
        shown = await _tailed(_replaced(result, verdict), verdict, tail)
    if verdict.context:
        shown = replace(shown, text=f"{shown.text}\n\n{verdict.context}")
    if verdict.stop is not None:
        shown = replace(shown, artifact={**shown.artifact, HOOK_STOP: verdict.stop})
    return shown


def _about(tool: CatalogTool) -> dict[str, Any]:
    about: dict[str, Any] = {"tool_name": tool.name}
    if tool.server is not None:
        about["mcp_context"] = {"server_name": tool.server, "tool_name": tool.original}
    return about


def _response(result: ToolResult) -> dict[str, Any]:
    error = {"message": result.text} if result.is_error else None
    data = result.text if result.data is None else result.data
    return {"llmContent": result.text, "returnDisplay": data, "error": error}


def _replaced(result: ToolResult, verdict: Verdict) -> ToolResult:
    """The text a hook put in the place of a result; its data, files and links are gone then."""
    given = verdict.tool_response
    if isinstance(given, Mapping):
        if set(given) - _RESPONSE_KEYS:  # a misspelt key must not show what it meant to hide
            return failure(_UNREADABLE)
        given = next((str(given[k]) for k in ("llmContent", "llm_content") if k in given), None)
    return result if given is None else ToolResult(given, is_error=result.is_error)


async def _tailed(result: ToolResult, verdict: Verdict, tail: TailCall | None) -> ToolResult:
    wanted = verdict.tail_call
    if wanted is None:
        return result
    if tail is None:
        return replace(result, text=f"{result.text}\n\n{_NO_TAIL.format(name=wanted['name'])}")
    return await tail(wanted["name"], wanted["args"])

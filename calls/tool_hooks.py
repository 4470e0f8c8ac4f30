"""Hooks around tool calls: what they change is checked and judged like the model's own words."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, cast

from ..hooks.contract import Verdict
from ..hooks.registry import Hooks
from ..state.calls import HOOK_STOP, stopped_by
from ..state.context import Emit
from ..state.told import say
from ..tools.catalog import CatalogTool
from .gate import Gate, PendingCall
from .policy import NOT_INTERACTIVE
from .results import ToolResult, failure

TailCall = Callable[[str, dict[str, Any]], Awaitable[ToolResult]]

_ASKED: Final = "a hook wants a human to decide"
_RESPONSE_KEYS: Final = frozenset(
    {"llmContent", "llm_content", "returnDisplay", "return_display", "error"}
)


async def before_tools(
    planned: Sequence[PendingCall], gate: Gate, hooks: Hooks, *, emit: Emit | None = None
) -> list[PendingCall]:
    """Let the BeforeTool hooks speak of each call whose arguments are sound.

    A call is denied where a hook blocks, asked about where one asks, and judged anew where one
    changed its arguments. If a hook ended the run, no call of the message may run, and each says
    why under `HOOK_STOP`.
    """
    calls = [await _before_tool(call, gate, hooks, emit) for call in planned]
    if not (stop := stopped_by(calls)):
        return calls
    denied: dict[str, Any] = {"action": "deny", "reason": stop, HOOK_STOP: stop}
    return [call if call["action"] == "error" else _with(call, denied) for call in calls]


def _with(call: PendingCall, changed: Mapping[str, Any]) -> PendingCall:
    return cast("PendingCall", {**call, **changed})


async def _before_tool(
    call: PendingCall, gate: Gate, hooks: Hooks, emit: Emit | None
) -> PendingCall:
    tool = gate.catalog.find(call["name"], call["server"])
    if call["action"] == "error" or tool is None:
        return call
    verdict = await hooks.fire("BeforeTool", emit=emit, **_about(tool, call["args"]))
    if verdict.stop is not None:
        return _with(call, {HOOK_STOP: verdict.stop})
    if verdict.tool_input is not None and verdict.tool_input != call["args"]:
        fitted, action, reason = gate.judge(tool, verdict.tool_input)
        reason = say("hook_changed_arguments", why=reason) if action == "error" else reason
        call = _with(call, {"args": fitted, "action": action, "reason": reason})
    if call["action"] in ("error", "deny"):
        return call
    if verdict.blocked:
        return _with(call, {"action": "deny", "reason": verdict.reason})
    return _asking(call, verdict, gate) if verdict.ask else call


def _asking(call: PendingCall, verdict: Verdict, gate: Gate) -> PendingCall:
    if not gate.can_ask:
        return _with(call, {"action": "deny", "reason": NOT_INTERACTIVE})
    before = call["reason"] if call["action"] == "ask" else ""
    reason = "; ".join(filter(None, [before, verdict.reason or _ASKED]))
    return _with(call, {"action": "ask", "reason": reason})


async def check_edit(
    tool: CatalogTool, args: Mapping[str, Any], hooks: Hooks, *, emit: Emit | None = None
) -> str:
    """Why arguments a human or a hook gave a call may not run after all; "" where they may.

    The call is decided on, so hooks can only block here. One that wants other arguments blocks
    too: what runs is what was decided on, or nothing.
    """
    verdict = await hooks.fire("BeforeTool", emit=emit, **_about(tool, args))
    if not verdict.refused and verdict.tool_input not in (None, dict(args)):
        return say("another_hook_would_change")
    return verdict.refused


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

    It is withheld where a hook denies it, and has the reason under `HOOK_STOP` in its artifact
    where one ends the run.

    Args:
        tool: What ran.
        args: The arguments it ran with.
        result: What it gave back.
        hooks: The graph's hooks.
        emit: Takes their events.
        tail: Makes another call, where that may be made; its result takes the place of this one.
        original: The tool the model called, where this one ran as its tail.
    """
    fields = _about(tool, args) | {"tool_response": _response(result)}
    if original:
        fields["original_request_name"] = original
    verdict = await hooks.fire("AfterTool", emit=emit, **fields)
    shown, wanted = _replaced(result, verdict), verdict.tail_call
    if wanted and not verdict.blocked:
        if tail is not None:
            shown = await tail(wanted.name, wanted.args)
        else:
            note = say("no_tail_here", tool=wanted.name)
            shown = replace(shown, text=f"{shown.text}\n\n{note}")
    if verdict.context:
        shown = replace(shown, text=f"{shown.text}\n\n{verdict.context}")
    if verdict.stop is not None:
        shown = replace(shown, artifact={**shown.artifact, HOOK_STOP: verdict.stop})
    return shown


def _about(tool: CatalogTool, args: Mapping[str, Any]) -> dict[str, Any]:
    about: dict[str, Any] = {"tool_name": tool.name, "tool_input": dict(args)}
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
    if verdict.blocked:
        return failure(say("result_withheld", why=verdict.reason))
    if isinstance(given, Mapping):
        if set(given) - _RESPONSE_KEYS:  # a misspelt key must not show what it meant to hide
            return failure(say("result_unreadable"))
        given = next((str(given[k]) for k in ("llmContent", "llm_content") if k in given), None)
    return result if given is None else ToolResult(given, is_error=result.is_error)

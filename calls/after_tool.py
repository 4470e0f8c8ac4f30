"""AfterTool hooks: what the model gets to see of a result, and which call follows it at once."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ..hooks.contract import Verdict
from ..state.calls import HOOK_STOP
from ..text.sentences import say
from .approval import settle_tail
from .call_records import Call, PendingCall, build_hook_fields, tell_end, update_call
from .commands import drop_messages, merge_updates
from .foreign import trace_call
from .results import ToolResult, make_failure

if TYPE_CHECKING:
    from .path import PassScope, Then

_RESPONSE_KEYS: Final = frozenset(
    {"llmContent", "llm_content", "returnDisplay", "return_display", "error"}
)


async def show_to_hooks(work: "PassScope", call: Call, then: "Then") -> None:
    """Make a call, then let hooks change its result for the model.

    A hook that denies withholds the result. A hook that ends the run puts its reason under
    `HOOK_STOP` into the artifact.
    """
    await then(call)
    tail_of, result = call.pending.get("tail_of", ""), call.outcome
    fields = build_hook_fields(call.known_tool, call.args)
    fields["tool_response"] = {
        "llmContent": result.to_model or result.text,
        "returnDisplay": result.text if result.data is None else result.data,
        "error": {"message": result.text} if result.is_error else None,
    }
    if tail_of:
        fields["original_request_name"] = tail_of
    verdict = await work.scope.fire("AfterTool", **fields)
    shown, wanted = _apply_hook_output(result, verdict), verdict.tail_call
    if wanted and not verdict.is_blocked:
        if tail_of:
            note = say("no_tail_here", tool=wanted.name)
            shown = replace(shown, to_model=f"{shown.to_model or shown.text}\n\n{note}")
        else:
            follows = await _run_tail(work, call.pending, wanted.name, wanted.args)
            shown = replace(follows, update=merge_updates(shown.update, follows.update))
    if verdict.context:
        shown = replace(shown, to_model=f"{shown.to_model or shown.text}\n\n{verdict.context}")
    if verdict.halt_reason is not None:
        shown = replace(shown, artifact={**shown.artifact, HOOK_STOP: verdict.halt_reason})
    call.result = shown


async def _run_tail(
    work: "PassScope", before: PendingCall, name: str, args: dict[str, Any]
) -> ToolResult:
    """The call a hook wants right after another one, if policy allows it without a question."""
    tool = work.gate.catalog.find(name)
    pending = update_call(
        before, id=f"{before['id']}.tail", name=name, args=args, action="allow",
        server=tool.server if tool else None, doubt=None, tail_of=before["name"],
        intent=f"{before.get('intent')}.tail", before=[],
    )  # fmt: skip
    pending = trace_call(pending, work.gate)
    call = Call.from_pending(pending, work.scope.emit, tool, "scheduled")
    await settle_tail(work.gate, call)
    if may_run := call.result is None:
        if work.memory is not None and not call.known_tool.read_only:
            work.memory.invalidate_server(call.known_tool.server)
        await work.run_along(work, call)
    if not may_run or call.reason == "denied":
        return make_failure(say("tail_refused", tool=name, why=call.outcome.text))
    if call.doubt is not None:
        return make_failure(say("tail_in_doubt", tool=name, why=call.doubt.why))
    tell_end(call)
    return call.outcome


def _apply_hook_output(result: ToolResult, verdict: Verdict) -> ToolResult:
    """The text a hook put in the place of a result.

    Its data, files and links are gone then, and the messages that its tool adds.
    """
    response = verdict.tool_response
    if verdict.is_blocked:
        return make_failure(say("result_withheld", why=verdict.reason))
    if isinstance(response, Mapping):
        if set(response) - _RESPONSE_KEYS:  # a misspelt key must not show what it meant to hide
            return make_failure(say("result_unreadable"))
        shown = [str(response[k]) for k in ("llmContent", "llm_content") if k in response]
        response = shown[0] if shown else None
    if response is None:
        return result
    return ToolResult(response, is_error=result.is_error, update=drop_messages(result.update))

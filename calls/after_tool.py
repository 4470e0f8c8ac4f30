"""AfterTool hooks: what the model gets to see of a result, and which call follows it at once."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from ..hooks.contract import Verdict
from ..state.calls import HOOK_STOP
from ..text.told import say
from .approval import settle_tail
from .call_records import Call, PendingCall, changed, hook_fields, record_end
from .commands import joined, without_messages
from .guard import allowed_by_tables
from .results import ToolResult, failure
from .wrapper import PassScope, Then

_RESPONSE_KEYS: Final = frozenset(
    {"llmContent", "llm_content", "returnDisplay", "return_display", "error"}
)


async def show_to_hooks(work: PassScope, call: Call, then: Then) -> None:
    """Make a call, and let the hooks change what is shown of it.

    Its result is withheld where a hook denies it, and has the reason under `HOOK_STOP` in its
    artifact where one ends the run.
    """
    await then(call)
    tail_of, result = call.pending.get("tail_of", ""), call.outcome
    fields = hook_fields(call.known_tool, call.args) | {"tool_response": _response(result)}
    if tail_of:
        fields["original_request_name"] = tail_of
    verdict = await work.scope.fire("AfterTool", **fields)
    shown, wanted = _replaced(result, verdict), verdict.tail_call
    if wanted and not verdict.blocked:
        if tail_of:
            note = say("no_tail_here", tool=wanted.name)
            shown = replace(shown, text=f"{shown.text}\n\n{note}")
        else:
            follows = await _run_tail(work, call.pending, wanted.name, wanted.args)
            shown = replace(follows, update=joined(shown.update, follows.update))
    if verdict.context:
        shown = replace(shown, text=f"{shown.text}\n\n{verdict.context}")
    if verdict.stop is not None:
        shown = replace(shown, artifact={**shown.artifact, HOOK_STOP: verdict.stop})
    call.result = shown


async def _run_tail(
    work: PassScope, before: PendingCall, name: str, args: dict[str, Any]
) -> ToolResult:
    """The call a hook wants right after another one, if policy allows it without a question."""
    tool = work.gate.catalog.find(name)
    pending = changed(
        before, id=f"{before['id']}.tail", name=name, args=args, action="allow",
        server=tool.server if tool else None, doubt=None, tail_of=before["name"],
        intent=f"{before.get('intent')}.tail", before=[],
    )  # fmt: skip
    call = Call.of(pending, work.scope.emit, tool, "scheduled")
    await settle_tail(work.gate, call)
    if call.result is not None or not await allowed_by_tables(work, call):
        why = call.doubt.why if call.doubt else call.outcome.text
        return failure(say("tail_refused", tool=name, why=why))
    if work.memory is not None and not call.known_tool.read_only:
        work.memory.written(call.known_tool.server)
    await work.run_along(work, call)
    if call.doubt is not None:
        return failure(say("tail_in_doubt", tool=name, why=call.doubt.why))
    record_end(call)
    return call.outcome


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

"""Run the calls of one model turn along the one path every call takes."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any, Final, cast

from langchain_core.messages import AIMessage
from langgraph.runtime import Runtime

from ..calls.approval import keep_waiting
from ..calls.call_records import Call
from ..calls.commands import build_messages, collect_updates, merge_values
from ..calls.path import run_calls
from ..calls.toolbox import Toolbox
from ..state.calls import (
    STOPPED,
    UNCERTAIN,
    CallState,
    CallsUpdate,
    Evidence,
    find_stop_in_results,
    is_left_in_doubt,
)
from ..state.context import Context
from ..state.messages import ENDS, EVIDENCE, STORED, make_signature
from ..state.outcome import Spend
from ..stream.turn_messages import make_message_id
from ..text.sentences import say
from ..turn.repetition import LAST_STRIKE, LOOP_DETECTED, count_strikes, describe_loop
from ..turn.scope import RunScope, make_scope
from .parts import Parts


class PassUpdate(CallsUpdate, total=False):
    """What a pass over the calls changes."""

    messages: list[Any]
    spend: Spend
    warnings: list[str]


Ended = Callable[[str, str], Any]
"""What a graph changes besides where it cannot go on behind calls: `uncertain`, `loop_detected` or
`denied`, and why in words; `stopped` where the turn ends before some of them began."""


def end_turn_after_calls(reason: str, why: str) -> Any:
    """A doubt with nobody to ask, a loop or a hook ends the turn; whoever stops it does so."""
    if reason == STOPPED:
        return {}
    if reason == UNCERTAIN:  # the outcome names the call
        return {"halt": "NOT_INTERACTIVE"}
    return {"halt": "LOOP_DETECTED" if reason == LOOP_DETECTED else "DENIED", "unmet": [why]}


def abort_turn_after_calls(reason: str, why: str) -> Any:
    """The same in a graph that ends a stopped turn itself."""
    return {"halt": "ABORTED"} if reason == STOPPED else end_turn_after_calls(reason, why)


async def call_tools(
    state: CallState, runtime: Runtime[Context], *, parts: Parts, role: str, ended: Ended
) -> PassUpdate:
    """Run what may run now; each call gets one tool message, in this pass or in a later one."""
    scope = await make_scope(state, runtime, parts)
    scope = replace(scope, run=replace(scope.run, role=role))
    done = await run_calls(
        scope, parts.toolbox, state.calls, decisions=state.decisions, history=state.own_evidence,
        state=state,
    )  # fmt: skip
    calls, before = done.answered, state.denied if _has_earlier_pass(state) else ""
    evidence = [call.evidence for call in calls]
    kept = [
        call.evidence for call in calls
        if call.final_status != "success" or not call.pending.get("own") or call.known_tool.is_work
    ]  # fmt: skip
    cancelled = [call.reason for call in calls if call.final_status == "cancelled"]
    update = _apply_tool_wishes(state, calls, waits=bool(done.waiting)) | PassUpdate(
        evidence=kept,
        denied=cancelled[-1] if cancelled else before,
        strikes=max(state.strikes, count_strikes(evidence)),
        spend=scope.add_seconds(Spend(tool_calls=sum(call.counts for call in calls))),
        warnings=scope.notes,
    )
    update |= keep_waiting(state, done.waiting)
    if why := _find_stop(scope, calls, evidence):
        update |= ended(*why)
    elif done.waiting and scope.run.stopped():
        update |= ended(STOPPED, "")
    elif not done.waiting and role in _DIRECT and parts.toolbox.direct:
        update |= await _answer_directly(scope, state, parts.toolbox, update["messages"], evidence)
    return update


_DIRECT: Final = ("action", "agent")
"""Roles of graphs that end with the result of a tool of `return_direct`."""


async def _answer_directly(
    scope: RunScope, state: Any, toolbox: Toolbox, came: Sequence[Any], new: Sequence[Evidence]
) -> Any:
    """End with the results as the answer, if each call of the message was of such a tool.

    `came` are the results of this pass, `new` their records.
    """
    before = takewhile(lambda message: message.type == "tool", reversed(state.messages))
    results, direct = [*[*before][::-1], *came], toolbox.direct
    if not all(m.type == "tool" and m.status == "success" and m.name in direct for m in results):
        return {}
    whole, texts = toolbox.open_results(scope), []
    plain = {record["id"]: record["result"] for record in (*state.evidence, *new)}
    for message in results:  # a long one is shown cut, others with words for the model
        key, name = (message.additional_kwargs.get(kind) for kind in (STORED, EVIDENCE))
        text = await whole.load_text(key) if key else ""
        texts.append(text or plain.get(str(name)) or message.text)
    text = "\n\n".join(texts)
    signed = {**make_signature(scope.run.role), ENDS: True}
    answer = AIMessage(text, id=make_message_id(state), additional_kwargs=signed)
    end = {"should_continue": False, "task_completed": True, "messages": [*came, answer]}
    report = {"report": {"status": "responded", "summary": text}}
    return end | (report if hasattr(state, "report") else {})


def _apply_tool_wishes(state: CallState, calls: Sequence[Call], *, waits: bool) -> PassUpdate:
    """What tools want changed; their messages follow once every call of the turn has its answer."""
    answers = [call.message for call in calls]
    if not (state.held or any(call.update for call in calls)):
        return PassUpdate(messages=answers, held=[], found=[])
    wishes = collect_updates(calls)
    held = [*state.held, *(wish for wish in wishes if wish.get("messages"))]
    added = [] if waits else build_messages(held, state.turn_id, state.messages)
    found = [name for wish in wishes for name in wish.get("found", [])]
    return (
        PassUpdate(messages=[*answers, *added], held=held if waits else [])
        | cast("PassUpdate", merge_values(wishes))
        | PassUpdate(found=found)
    )


def _has_earlier_pass(state: CallState) -> bool:
    """Whether an earlier pass has answered some calls of the same message."""
    newest = state.evidence[-1]["id"].rpartition(".")[0] if state.evidence else ""
    return bool(state.calls) and str(state.calls[0]["id"]).rpartition(".")[0] == newest


def _find_stop(
    scope: RunScope, calls: Sequence[Call], evidence: Sequence[Evidence]
) -> tuple[str, str] | None:
    """A doubt with nobody to ask, a loop that goes on after a warning, or a hook's word."""
    if doubtful := [record for record in evidence if is_left_in_doubt(record)]:
        words = "; ".join(f"{record['tool']} ({record['id']})" for record in doubtful)
        return UNCERTAIN, say("task_in_doubt", calls=words)
    if count_strikes(evidence) >= LAST_STRIKE:
        what = describe_loop(evidence, scope.run.model_turn)
        scope.emit({"type": "loop", "task": scope.path, "strike": LAST_STRIKE, "what": what})
        return LOOP_DETECTED, what
    stopped = find_stop_in_results([call.message for call in calls])
    return ("denied", stopped) if stopped else None

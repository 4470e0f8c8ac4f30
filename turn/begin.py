"""How every user turn begins: what is reset, what is carried over, and what hooks decide."""

import hashlib
import json
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import MISSING, fields, replace
from functools import reduce
from itertools import takewhile
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar, cast

from langchain_core.messages import AnyMessage, RemoveMessage, ToolMessage
from langgraph.types import Overwrite

from ..state.attachments import blocks_in
from ..state.calls import STOPPED, UNCERTAIN, Evidence, is_left_in_doubt, merge_records, step_of
from ..state.history import make_earlier_records
from ..state.loop import FOLDED, SCHEMA_VERSION, LoopState, LoopUpdate
from ..state.messages import ROLE, STEERS, find_request, make_repairs
from ..state.outcome import Spend, add_spend
from ..state.plan import Task, merge_tasks
from ..state.undone import find_undone
from ..store.journal.port import Row
from ..stream.events import close_questions
from ..stream.turn_messages import list_unanswered, make_answers, make_error_answer
from ..text.canonical import canonical
from ..text.sentences import say
from .scope import RunScope

S = TypeVar("S", bound=LoopState)

Adopt = Callable[[RunScope, S], Awaitable[Any]]
"""Returns a graph's update with what it carries over from the turn before; see `resume_work`."""

# Begins the request id of a turn whose prompt a hook dropped; the newest prompt that is left
# follows it, which must not be taken for a request that is still to be done.
DROPPED: Final = "dropped "
EMPTY_REQUEST: Final = "The request is empty."
NOTHING_NEW: Final = "The last message was dropped by a hook; send another one."
_SHOWN: Final = 300


class MissingTools(NamedTuple):
    """Notes about tools for the start of a turn, and the servers without tools."""

    warnings: Sequence[str] = ()
    servers: Sequence[str] = ()


Look = Callable[[str | None], Awaitable[MissingTools]]
"""From whom a run is for to what is missing of the tools."""


async def begin_turn(scope: RunScope, state: S, adopt: Adopt[S], look: Look) -> Any:
    """Reset what lasts one turn, carry over what `adopt` returns, and ask the hooks.

    `look` finds missing tools, which are reported before a model is asked. If the update has a
    `halt`, the turn ends at once.
    """
    if state.stopping:
        return await _end_stopped(scope, state, adopt)
    fresh = _reset_turn(state)
    if scope.around.handed is not None:
        taken: dict[str, Any] = await adopt(scope, state)
        turn = scope.around.handed
        improvements = {"improvements": turn.improvements} if turn.improvements else {}
        return fresh | taken | {name: getattr(turn, name) for name in _OF_OUTER_TURN} | improvements
    if "request_id" not in fresh:
        return fresh | _build_halt("DENIED", NOTHING_NEW)
    if not state.turn and scope.thread:
        # The graph is inside another one, or this is a fork from before the first turn: recorded
        # calls match nothing any more.
        await scope.release(lambda _: False, ended=True)
    adopted: dict[str, Any] = await adopt(scope, state)
    for event in close_questions(state.events):
        scope.emit(event)
    newest = find_newest_prompt(state.messages, state.request_message)
    if newest is None or not (newest.text.strip() or blocks_in(newest)):
        return fresh | adopted | _build_halt("MISSING_INFORMATION", EMPTY_REQUEST)
    scope.journal.begin_usage(scope.thread, fresh["turn_id"])
    verdict = await scope.fire("BeforeAgent", prompt=note_request(state).request)
    if verdict.is_blocked:  # the prompt is dropped, and what was adopted for it
        dropped = _drop_prompt(state, adopted.get("messages", []))
        return fresh | _build_halt("DENIED", verdict.reason) | dropped | _collect_warnings(scope)
    _emit_steered(scope, state, adopted)
    halted = verdict.halt_reason is not None
    missing = "" if halted else await _report_missing_tools(scope, look)
    context = [text for text in (scope.run.session.context, verdict.context, missing) if text]
    update = fresh | adopted | {"hook_context": context} | _collect_warnings(scope)
    return update | (_build_halt("DENIED", verdict.halt_reason or "") if halted else {})


_OF_OUTER_TURN: Final = (
    "turn", "turn_id", "request_id", "request_message", "allowance", "hook_context"
)  # fmt: skip
"""What a graph inside another one takes from the turn around it."""


def _emit_steered(scope: RunScope, state: LoopState, adopted: Mapping[str, Any]) -> None:
    """Report the messages that came while the turn ran, and the tasks completed by then."""
    since = takewhile(lambda m: ROLE not in m.additional_kwargs, reversed(state.messages))
    came = [str(m.text) for m in since if m.additional_kwargs.get(STEERS)][::-1]
    if came:
        tasks = getattr(adopted.get("todos"), "value", [])
        kept = [task["id"] for task in tasks if task["status"] == "completed"]
        scope.emit({"type": "steered", "messages": came, "kept": kept})


async def _end_stopped(scope: RunScope, state: S, adopt: Adopt[S]) -> Any:
    """End a stopped turn with what it has done; if its turn had not begun, end the new message."""
    began = bool(state.turn) and is_same_request(state)
    fresh = {} if began else _reset_turn(state)
    adopted: dict[str, Any] = await adopt(scope, state)
    for event in close_questions(state.events):
        scope.emit(event)
    spends: list[Spend] = [end["spend"] for end in getattr(state, "cut_off", [])] if began else []
    used = reduce(add_spend, spends, Spend())
    ended = LoopUpdate(
        halt="ABORTED", unmet=[say("stopped")], should_continue=False, stopping=False
    )
    return fresh | adopted | ({"spend": used} if used else {}) | ended


def _collect_warnings(scope: RunScope) -> dict[str, Any]:
    return {"warnings": Overwrite(list(dict.fromkeys([*scope.run.session.warnings, *scope.notes])))}


async def _report_missing_tools(scope: RunScope, look: Look) -> str:
    """Warn the user of missing tools; returns the words for models."""
    missing = await look(scope.user)
    for text in missing.warnings:
        scope.emit({"type": "warning", "text": text})
    return say("servers_missing", servers=", ".join(missing.servers)) if missing.servers else ""


def _build_halt(reason: str, why: str) -> dict[str, Any]:
    return {"halt": reason, "unmet": [why], "should_continue": False}


def _drop_prompt(state: LoopState, messages: Sequence[Any]) -> dict[str, Any]:
    """Remove the prompt that a hook rejected; the request before it stays done."""
    newest = find_newest_prompt(state.messages, state.request_message)
    kept = [message for message in state.messages if message is not newest]
    before = find_newest_prompt(kept, state.request_message)
    return {
        "messages": [*messages, *([RemoveMessage(id=str(newest.id))] if newest else [])],
        "request_id": f"{DROPPED}{build_request_id(kept, state.request_message)}",
        "request_message": str(before.id) if before else "",
    }


def _reset_turn(state: LoopState) -> dict[str, Any]:
    """The fields that last one turn, reset, and the names and counts of the new turn.

    Without a request if a hook dropped the newest prompt and none has come since.
    """
    update: dict[str, Any] = {}
    for field in fields(state):
        if field.name in state.per_turn:
            made = field.default_factory
            value = field.default if made is MISSING else made()
            update[field.name] = Overwrite(value) if field.name in FOLDED else value
    turn, name = state.turn + 1, build_request_id(state.messages, state.request_message)
    update |= LoopUpdate(
        schema_version=SCHEMA_VERSION, turn=turn, turn_id=f"{turn}-{uuid.uuid4().hex[:12]}"
    )
    if state.request_id == f"{DROPPED}{name}":
        return update
    return update | LoopUpdate(
        request_message=note_request(state).request_message,
        request_id=name,
        allowance=state.allowance + 1 if is_same_request(state) else 1,
    )


def find_newest_prompt(messages: Sequence[AnyMessage], request: str = "") -> AnyMessage | None:
    """The message that holds the request of a turn that begins.

    The newest human message since the graph spoke last; if none came, the old request (its id is
    `request`). Human messages that nodes have added are no requests.
    """
    came = list(takewhile(lambda m: ROLE not in m.additional_kwargs, reversed(messages)))
    newest: AnyMessage | None = next((m for m in came if m.type == "human"), None)
    if newest is None and (place := find_request(messages, request)) >= 0:
        newest = messages[place]
    return newest


def build_request_id(messages: Sequence[AnyMessage], request: str = "") -> str:
    """The id of a request: that of its message, and a hash of the words, as clients reuse ids."""
    newest = find_newest_prompt(messages, request)
    if newest is None:
        return ""
    text = newest.text + (canonical(attached) if (attached := blocks_in(newest)) else "")
    digest = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:8]
    return f"{newest.id}-{digest}"


def note_request(state: S) -> S:
    """The state with the request of the turn that begins."""
    newest = find_newest_prompt(state.messages, state.request_message)
    return replace(state, request_message=str(newest.id) if newest else "")


def is_same_request(state: LoopState) -> bool:
    """Whether a turn that begins takes up the request of the one before."""
    request = build_request_id(state.messages, state.request_message)
    return bool(request) and request == state.request_id


# What a turn had done when a new message ended it before its time, often after a crash


class TurnWork(NamedTuple):
    """What a turn of a plan has done: its tasks with how they ended, and its calls."""

    tasks: Sequence[Task]
    evidence: list[Evidence]


async def resume_work(
    scope: RunScope, state: LoopState, before: TurnWork, ended: Mapping[str, Any]
) -> TurnWork | None:
    """What a new turn of a plan carries over; None if it begins from nothing.

    A resumed request keeps everything. A new request keeps the work of a turn that never reached
    its outcome. `ended` are the `todos` and `evidence` that ended inside the step under way. Calls
    of other tasks that changed the world come from the journal: they become evidence and feedback
    of the task, and a repeated call gets the recorded result.
    """
    if not state.turn:
        return None
    again = is_same_request(state)
    over = not again and state.outcome is not None
    tasks = merge_tasks(list(before.tasks), [ended["todos"]])
    done = {task["id"] for task in tasks if not over and task["status"] == "completed"}
    rows = await scope.release(
        lambda row: not done.isdisjoint((row.task, step_of(row.task))),
        ended=over and scope.around.handed is None,
        told=over,
    )
    if over:
        return None
    evidence = merge_records(before.evidence, [ended["evidence"]])
    known = {record["id"] for record in evidence}
    news = [row for row in rows if row.turn == scope.turn and row.call not in known]
    evidence += map(make_evidence, news)
    if not (again or evidence or done):
        return None
    return TurnWork([_add_feedback(task, news) for task in tasks], evidence)


def make_evidence(row: Row) -> Evidence:
    """A write as evidence, from its row: it has ended, or nobody knows."""
    record = Evidence(
        id=row.call, task=row.task, call_id="", tool=row.tool, arguments=dict(row.arguments),
        status="success", result=_get_result_text(row), seconds=0.0,
    )  # fmt: skip
    if not row.in_doubt:
        return record
    in_doubt = Evidence(status="cancelled", reason=UNCERTAIN, result=say("cut_off_before_result"))
    return record | in_doubt | (Evidence(server=row.server) if row.server else Evidence())


def _get_result_text(row: Row) -> str:
    return str((row.result or {}).get("text", ""))


def _add_feedback(task: Task, rows: Sequence[Row]) -> Task:
    """An unfinished task tells which calls were already made for it."""
    made = [row for row in rows if task["id"] in {row.task, step_of(row.task)}]
    if not made or task["status"] == "completed":
        return task
    return {**task, "feedback": describe_rows(made)}


def describe_rows(rows: Sequence[Row]) -> str:
    """What the next attempt is told of these calls."""
    return describe_evidence([make_evidence(row) for row in rows])


def describe_evidence(evidence: Sequence[Evidence]) -> str:
    """The calls that took effect or may have, for the next attempt; "" if there are none."""
    made = [r for r in evidence if r["tool"]]
    calls = [_describe_made(r) for r in made if r["status"] == "success" or is_left_in_doubt(r)]
    return say("before_the_cut", calls="; ".join(calls)) if calls else ""


def _describe_made(record: Evidence) -> str:
    arguments = json.dumps(record["arguments"], ensure_ascii=False)
    call = f"{record['tool']}({arguments[:_SHOWN]})"
    if record["status"] != "success":
        return say("began_call", call=call)
    return say("called_before", call=call, result=record["result"][:_SHOWN])


How = tuple[str, dict[str, str]]
"""The answer to a call that was cut off, and its status with the reason."""


async def answer_open_calls(
    scope: RunScope,
    state: LoopState,
    calls: Sequence[Mapping[str, Any]],
    known: Mapping[str, How] = MappingProxyType({}),
) -> tuple[list[Any], list[Evidence]]:
    """The writes that give every call in the conversation an answer, and how `calls` ended.

    A turn that was cut off may have left them without one. `known` says by call id how some
    ended; the journal knows the others.
    """
    if scope.turn:
        told = state.outcome is not None and not is_same_request(state)
        # Graphs that work for one turn, one after another, close their calls when it is over.
        await scope.release(lambda _: False, ended=scope.around.handed is None, told=told)
    return await repair_conversation(scope, state, state.messages, calls, known)


def explain_cut(state: LoopState) -> str:
    """Why a call of the turn before did not run, in words."""
    if state.stopping:
        return say("stopped_first")
    return say("turn_ended_first" if is_same_request(state) else "superseded")


def carry_undone(state: Any, ended: list[Evidence]) -> dict[str, Any]:
    """What the turn before left undone, where its request goes on; it counts until it is done.

    `ended` are the calls that were cut off.
    """
    if state.stopping:
        return {"evidence": ended} if ended else {}
    undone = find_undone(merge_records(ended, [state.evidence])) if is_same_request(state) else []
    return {"evidence": Overwrite(make_earlier_records(state.turn, undone))} if undone else {}


async def repair_conversation(
    scope: RunScope,
    state: LoopState,
    messages: Sequence[AnyMessage],
    calls: Sequence[Mapping[str, Any]],
    known: Mapping[str, How] = MappingProxyType({}),
) -> tuple[list[Any], list[Evidence]]:
    """The same writes; the journal stays as it is."""
    names = [call["intent"] for call in calls]
    found = await scope.journal.rows(scope.journal_thread, names) if names else []
    rows = {row.name: row for row in found}
    answers, why = dict[str, ToolMessage](), explain_cut(state)
    evidence: list[Evidence] = []
    for call in calls:
        text, how = known.get(call["id"]) or _describe_end(rows.get(call["intent"]), state)
        status = "success" if how == {"status": "success"} else "error"
        about = {"name": call["name"], "additional_kwargs": {"evidence": call["id"]}}
        answers[call["call_id"]] = make_error_answer(call["call_id"], text, status=status, **about)
        event = {"task": call["task"], "tool": call["name"], "arguments": call["args"]}
        scope.emit({"type": "tool_call", "id": call["id"], **event, **how, "result": text})
        evidence.append(_make_end(call, text, how))
    return make_repairs(
        messages,
        lambda call_id: answers.pop(call_id, None) or make_error_answer(call_id, why),
        open_calls=list(answers),
    ), evidence


def _make_end(call: Mapping[str, Any], text: str, how: Mapping[str, str]) -> Evidence:
    """The record of a call that was cut off."""
    record = Evidence(
        id=call["id"], task=call["task"], call_id=call["call_id"], tool=call["name"],
        arguments=call["args"], result=text, seconds=0.0, reason="", status="cancelled",
    )  # fmt: skip
    about = {name: call[name] for name in ("read_only", "own", "unknown") if call.get(name)}
    return cast("Evidence", {**record, **how, **about})


def answer_asked_calls(state: LoopState, evidence: Sequence[Evidence]) -> list[Any]:
    """The same writes if the conversation has only the calls that people were asked about."""
    open_calls = [str(asked.tool_calls[0]["id"]) for asked in list_unanswered(state)]
    answers = make_answers(state, evidence)
    why = explain_cut(state)
    return make_repairs(
        [*state.messages, *answers],
        lambda call_id: make_error_answer(call_id, why),
        open_calls=open_calls,
    )


def _describe_end(row: Row | None, state: LoopState) -> How:
    if row is None or row.paused:
        reason = STOPPED if state.stopping else "superseded"
        return explain_cut(state), {"status": "cancelled", "reason": reason}
    if row.result is None or row.in_doubt:
        return say("cut_off_under_way"), {"status": "cancelled", "reason": UNCERTAIN}
    return _get_result_text(row), {"status": "error" if row.result.get("is_error") else "success"}

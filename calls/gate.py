"""From a model's message to calls that are checked, judged, and scheduled or asked about."""

import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any, Final

from langchain_core.messages import AIMessage, AnyMessage

from ..policy.origin_words import ValueOrigins
from ..policy.origins import Origins
from ..state.calls import HOOK_STOP, call_id, find_stop_in_calls
from ..state.messages import calls_in
from ..text.canonical import hash_of, make_storable_json, shorten_text
from ..text.secrets import MASK, Secrets, is_masked
from ..text.sentences import say
from ..tools.arguments import check_arguments
from ..tools.catalog import Catalog, CatalogTool
from ..tools.names import is_name, normalize_name
from ..tools.python_tools import BUILT_IN
from ..turn.scope import RunScope
from .call_records import (
    Action,
    Call,
    PendingCall,
    build_hook_fields,
    emit_waiting,
    mark_waiting,
    update_call,
)
from .foreign import build_origins, know_schema, mark_foreign, mark_kept, trace_call
from .grants import is_granted
from .guard import Guard
from .journal import CallJournal, find_doubt
from .policy import GRANTED, NOT_INTERACTIVE, Decision, Policy
from .toolbox import Toolbox

REFRESH: Final = "refresh"
RETRY_REASON: Final = "retry_reason"
_SHOWN_DESCRIPTION: Final = 300
_ASKED: Final = "a hook wants a human to decide"


@dataclass(frozen=True)
class Gate:
    """What stands between a call and its run; the same for every call of a message."""

    catalog: Catalog
    policy: Policy
    scope: RunScope
    grants: Collection[Mapping[str, Any]] = ()
    """What a human has allowed for the thread."""
    secrets: Secrets = field(default_factory=Secrets)
    """What no call may carry."""
    guard: Guard | None = None
    """The tables of the policy, if it has some."""
    traced: Origins | None = None
    """What the calls are made from, if it is known."""
    toolbox: Toolbox | None = None
    """What knows the tools of other agents, whose results are read here."""

    @classmethod
    async def for_run(cls, toolbox: Toolbox, scope: RunScope) -> "Gate":
        """What judges the calls of a run."""
        catalog = await toolbox.catalog(scope.user)
        table = toolbox.policy.table
        # A task's toolbox may lack the tools that read facts.
        guard = None if table is None else Guard(table, scope, toolbox.whole)
        secrets = toolbox.secrets
        return cls(catalog, toolbox.policy, scope, secrets=secrets, guard=guard, toolbox=toolbox)

    def find_tool(self, call: PendingCall) -> CatalogTool | None:
        """The tool of a call, if it is still there."""
        return self.catalog.find(call["name"], call["server"])

    @cached_property
    def origins(self) -> Origins:
        """Where the values of a call may come from that is planned now."""
        return self.traced or build_origins(self)

    def find_origins(self, tool: CatalogTool, args: Mapping[str, Any]) -> ValueOrigins | None:
        """Where these values of a call come from by now; None where the policy does not ask."""
        asks = self.policy.names_origins(tool)
        return know_schema(self.origins, tool).find_origins(args) if asks else None

    def judge(
        self, tool: CatalogTool, args: object, origins: ValueOrigins | None = None
    ) -> tuple[dict[str, Any], Action, str]:
        """The arguments to run a call with, what happens to it by the policy, and why."""
        fitted, problem = check_arguments(tool.schema, self.secrets.mask_json(args), tool.name)
        if is_masked(fitted) and tool.tool is not BUILT_IN:
            problem = say("arguments_masked", mask=MASK)
        if problem:
            return fitted, "error", say("not_run", why=problem)
        fitted = {name: value for name, value in fitted.items() if name not in tool.hidden}
        decision = self.decide(tool, fitted, origins)
        return fitted, decision.action, decision.reason

    def decide(
        self, tool: CatalogTool, args: Mapping[str, Any], origins: ValueOrigins | None = None
    ) -> Decision:
        """What the policy says of a call with checked arguments; of one planned before by them."""
        scope = self.scope
        origins = self.find_origins(tool, args) if origins is None else origins
        return self.policy.decide(
            tool, args, context=scope.context, can_ask=scope.can_ask, agent=scope.agent,
            grants=self.grants, origins=origins,
        )  # fmt: skip


async def open_calls(
    scope: RunScope,
    toolbox: Toolbox,
    message: AIMessage,
    *,
    round_: int,
    complete: bool = True,
    names: str = "",
    before: Sequence[str] = (),
    traced: Origins | None = None,
) -> list[PendingCall]:
    """Check and judge the calls of a message, let hooks change them, and schedule or ask.

    Args:
        scope: The run; its path begins the ids of the calls.
        toolbox: What can be called, and by which policy.
        message: The model's message.
        round_: The model turn, next in the ids of its calls.
        complete: False if the message was cut, so that no call in it can be trusted.
        names: Begins the calls' names in the journal if the same calls are planned again after a
            crash. Without it the names are new, and must be saved before the calls run.
        before: Names under which earlier plans may have made the call.
        traced: What the calls are made from, if it is known.
    """
    gate = replace(await Gate.for_run(toolbox, scope), traced=traced)
    planned = plan_calls(message, task=scope.path, round_=round_, gate=gate, complete=complete)
    if "BeforeTool" in scope.hooks.events:
        planned = await run_before_tool_hooks(planned, gate)
    for call in planned:
        call["intent"] = f"{names}.{call['id']}" if names else call["intent"]
        call["before"] = list(before)
    planned = [trace_call(call, gate) for call in await _check_journal(gate, planned)]
    if gate.guard is not None:
        planned = await gate.guard.judge_planned(planned, [*map(gate.find_tool, planned)])
    planned = [mark_kept(mark_foreign(call, gate), gate) for call in planned]
    asked = any(_wants_approval(call) for call in planned)
    grants = await scope.journal.grants(scope.thread) if asked else []
    return [await _announce_call(gate, apply_grants(call, gate, grants)) for call in planned]


async def _announce_call(gate: Gate, pending: PendingCall) -> PendingCall:
    """Tell where a call stands, and begin to wait for a human where it must."""
    call = Call.from_pending(pending, gate.scope.emit, status="validating")
    call.emit_status()
    if pending["action"] == "allow":
        call.change_status("scheduled")
    elif pending["action"] == "ask":
        pending["expires_at"] = None if pending.get("doubt") else _compute_expiry(pending, gate)
        if (tool := gate.find_tool(pending)) is not None:
            pending["definition"] = tool.definition
        await emit_waiting(gate.scope, call)
    return update_call(pending, status=call.status)


async def _check_journal(gate: Gate, calls: Sequence[PendingCall]) -> list[PendingCall]:
    """The calls to ask about, updated from the journal.

    A call that was made needs no question. One that may have been made gets one question, also for
    its approval; the first call concerned asks it for all others.
    """
    asked = [call for call in calls if gate.guard or _wants_approval(call)]
    writes = [call for call in asked if not (call["read_only"] or call.get("own"))]
    if not writes:
        return list(calls)
    book, emit = CallJournal(gate.scope), gate.scope.emit
    made = [Call.from_pending(call, emit, gate.find_tool(call)) for call in writes]
    verdicts = await book.look_up([book.build_intent(call) for call in made])
    changed: dict[str, PendingCall] = {}
    doubted: set[str] = set()
    for call, verdict in zip(writes, verdicts, strict=True):
        doubt = find_doubt(verdict)
        if verdict.say == "known":
            changed[call["id"]] = update_call(
                call, action="allow", reason="it was made before", known=True
            )
        elif doubt and gate.scope.can_ask and verdict.row.key not in doubted:
            doubted.add(verdict.row.key)
            changed[call["id"]] = mark_waiting(
                call, doubt.arguments(call["args"]), doubt.reason, doubt=doubt.to_in_doubt()
            )
    return [changed.get(call["id"], call) for call in calls]


def apply_grants(
    call: PendingCall, gate: Gate, grants: Collection[Mapping[str, Any]]
) -> PendingCall:
    """The call, without its question if the human has allowed calls like it for the thread."""
    tool = gate.find_tool(call)
    of_one = gate.guard or call.get("foreign") or call.get("doubt")  # each yes is for one call
    if tool is None or of_one or not _wants_approval(call):
        return call
    if any(is_granted(grant, tool, call["args"]) for grant in grants):
        return update_call(call, action="allow", reason=GRANTED)
    return call


def _wants_approval(call: PendingCall) -> bool:
    """Whether a question stands before the call, or would if somebody could be asked."""
    unasked = call["action"] == "deny" and call["reason"] == NOT_INTERACTIVE
    return call["action"] == "ask" or unasked


def _compute_expiry(call: PendingCall, gate: Gate) -> str | None:
    """When the question about a call ends, as ISO 8601; None where it never does."""
    tool, seconds = gate.find_tool(call), gate.scope.context.question_expires_in
    if tool is not None:  # a hook may ask about a call that policy allows
        seconds = gate.decide(tool, call["args"], call.get("origins")).expires_in or seconds
    if tool is None or seconds is None:
        return None
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat(timespec="milliseconds")


def plan_calls(
    message: AIMessage, *, task: str, round_: int, gate: Gate, complete: bool = True
) -> list[PendingCall]:
    """Plan the calls of one message, invalid ones last: each of them needs an answer.

    Missing and repeated call ids are made unique; `set_call_ids` does the same to the message.
    """
    planned: list[PendingCall] = []
    ids = make_unique_ids(message, gate.scope, task=task, round_=round_)
    for index, (call, problem) in enumerate(read_calls(message)):
        problem = problem or ("" if complete else say("call_cut_off"))
        own = {"id": call_id(task, round_, index), "task": task, "call_id": ids[index]}
        planned.append(_plan_call(gate, call, problem) | own | {"intent": uuid.uuid4().hex})
    return planned


def _plan_call(gate: Gate, call: Mapping[str, Any], problem: str) -> Any:
    """A planned call without its ids."""
    name = str(call.get("name") or "")
    tool = gate.catalog.find(name)
    args, again = split_refresh(
        tool.schema if tool else {}, gate.secrets.mask_json(call.get("args"))
    )
    planned = {
        "name": name,
        "server": tool.server if tool else None,
        "about": shorten_text(tool.description, _SHOWN_DESCRIPTION) if tool else "",
        "args": make_storable_json(args) if isinstance(args, dict) else {},
        "action": "error",
        "reason": problem,
        "read_only": tool is None or tool.read_only,  # what is not there changes nothing
        "status": "validating",
        "again": again,
    }
    if tool is None:
        return planned | {"reason": gate.catalog.explain_unknown(name), "unknown": True}
    if tool.own is not None and (tool.is_work or not tool.read_only):
        planned["own"] = True
    if tool.own is None and not tool.declared:
        planned["undeclared"] = True
    if problem:
        return planned | {"args": {}}
    fitted, action, reason = gate.judge(tool, args)
    return planned | {"args": fitted, "action": action, "reason": reason}


def split_refresh(schema: Mapping[str, Any], args: object) -> tuple[Any, bool]:
    """The tool's own arguments, and whether `"refresh": true` or a `"retry_reason"` was there.

    A tool that has such arguments itself gets them. Anything but an object is handed back.
    """
    if not isinstance(args, dict):
        return args, False
    own = schema.get("properties") or {}
    asked = {n: args[n] for n in (REFRESH, RETRY_REASON) if n in args and n not in own}
    refresh, reason = asked.get(REFRESH), asked.get(RETRY_REASON)
    again = refresh is True or str(refresh).lower() == "true" or bool(str(reason or "").strip())
    return {name: value for name, value in args.items() if name not in asked}, again


async def run_before_tool_hooks(planned: Sequence[PendingCall], gate: Gate) -> list[PendingCall]:
    """Let the BeforeTool hooks speak of each call whose arguments are sound.

    A call is denied if a hook blocks it, asked about if one asks, and judged again if one changed
    its arguments. If a hook ended the run, no call of the message may run, and each says why under
    `HOOK_STOP`.
    """
    calls = [await _fire_before_tool(call, gate) for call in planned]
    if not (stop := find_stop_in_calls(calls)):
        return calls
    denied: dict[str, Any] = {"action": "deny", "reason": stop, HOOK_STOP: stop}
    return [call if call["action"] == "error" else update_call(call, **denied) for call in calls]


async def _fire_before_tool(call: PendingCall, gate: Gate) -> PendingCall:
    tool = gate.find_tool(call)
    if call["action"] == "error" or tool is None:
        return call
    verdict = await gate.scope.fire("BeforeTool", **build_hook_fields(tool, call["args"]))
    if verdict.halt_reason is not None:
        return update_call(call, **{HOOK_STOP: verdict.halt_reason})
    if verdict.tool_input is not None and verdict.tool_input != call["args"]:
        fitted, action, reason = gate.judge(tool, verdict.tool_input)
        reason = say("hook_changed_arguments", why=reason) if action == "error" else reason
        call = update_call(call, args=fitted, action=action, reason=reason)
    if call["action"] in ("error", "deny"):
        return call
    if verdict.is_blocked:
        return update_call(call, action="deny", reason=verdict.reason)
    if verdict.decision != "ask":
        return call
    if not gate.scope.can_ask:
        return update_call(call, action="deny", reason=NOT_INTERACTIVE)
    before = call["reason"] if call["action"] == "ask" else ""
    reason = "; ".join(filter(None, [before, verdict.reason or _ASKED]))
    return update_call(call, action="ask", reason=reason)


async def check_edit(scope: RunScope, tool: CatalogTool, args: Mapping[str, Any]) -> str:
    """Why arguments a human or a hook gave a call may not run after all; "" where they may.

    The call is decided on, so hooks can only block here. One that wants other arguments blocks
    too: what runs is what was decided on, or nothing.
    """
    verdict = await scope.fire("BeforeTool", **build_hook_fields(tool, args))
    if not verdict.refusal and verdict.tool_input not in (None, dict(args)):
        return say("another_hook_would_change")
    return verdict.refusal


# The calls of a message as they stand in it: read, named, and spelled as providers take them.


def read_calls(message: AIMessage) -> Iterator[tuple[Mapping[str, Any], str]]:
    """Every call in the message, invalid ones last, with what is wrong with its form, or ""."""
    yield from ((call, "") for call in message.tool_calls)
    for invalid in message.invalid_tool_calls:
        why = str(invalid.get("error") or say("not_readable"))
        yield invalid, say("arguments_no_json", why=why[:200])


def make_unique_ids(message: AIMessage, scope: RunScope, *, task: str, round_: int) -> list[str]:
    """An id for each call of a message: the provider's, or a new one if the thread has it already.

    Providers repeat ids or give none; tasks that run side by side may still share one. Ours is made
    of the turn and a hash, because ids of steps may contain characters that no call id may have,
    and OpenAI allows 40 characters.
    """
    given, ids = [call.get("id") for call in calls_in(message)], list[str]()
    known = scope.around.public.get("messages", ()) if any(given) else ()
    taken = {call["id"] for m in known if m.type == "ai" for call in calls_in(m)}
    for index, own in enumerate(given):
        made = hash_of([scope.agent, call_id(task, round_, index)])[:12]
        is_new = isinstance(own, str) and own and own not in taken
        ids.append(str(own) if is_new else f"call_{scope.turn}_{made}")
        taken.add(ids[-1])
    return ids


def set_call_ids(message: AIMessage, calls: Sequence[Mapping[str, Any]]) -> AIMessage:
    """The message with the call ids of its planned calls, so that each answer finds its call.

    A name that was made up, such as `multi_tool_use.parallel`, is spelled as providers take it:
    one they refuse would fail every later request with this message.
    """
    ids = (call["call_id"] for call in calls)
    made = [
        _fix_call_name(call) | {"args": make_storable_json(call["args"]), "id": next(ids)}
        for call in message.tool_calls
    ]
    broken = [_fix_call_name(call) | {"id": next(ids)} for call in message.invalid_tool_calls]
    return message.model_copy(update={"tool_calls": made, "invalid_tool_calls": broken})


def assign_call_ids(message: AIMessage, scope: RunScope, *, round_: int) -> AIMessage:
    """The message with a new id for each call, for calls that will not run."""
    ids = make_unique_ids(message, scope, task=scope.path, round_=round_)
    return set_call_ids(message, [{"call_id": id_} for id_ in ids])


def fix_call_names(message: AnyMessage) -> AnyMessage:
    """The message with names of calls that providers take; mostly it is the message itself."""
    made = calls_in(message)
    known = not made or all(is_name(call["name"] or "") for call in made)
    if known or not isinstance(message, AIMessage):
        return message
    names = {
        "tool_calls": [_fix_call_name(call) for call in message.tool_calls],
        "invalid_tool_calls": [_fix_call_name(call) for call in message.invalid_tool_calls],
    }
    return message.model_copy(update=names)


def _fix_call_name(call: Any) -> dict[str, Any]:
    return {**call, "name": normalize_name(call["name"] or "unknown")}

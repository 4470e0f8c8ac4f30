"""From a model's message to calls that are checked, judged, and scheduled or asked about."""

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from langchain_core.messages import AIMessage

from ..state.calls import HOOK_STOP, call_id, find_stop_in_calls
from ..store.journal.port import Verdict
from ..text.canonical import make_storable_json, shorten_text
from ..text.secrets import MASK, Secrets, is_masked
from ..text.sentences import say
from ..tools.arguments import check_arguments
from ..tools.catalog import Catalog, CatalogTool
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
from .guard import Guard
from .journal import CallJournal, find_doubt
from .message_calls import make_unique_ids, read_calls
from .policy import GRANTED, NOT_INTERACTIVE, Decision, Policy, is_granted
from .toolbox import Toolbox, explain_unknown_tool

REFRESH: Final = "refresh"
RETRY_REASON: Final = "retry_reason"
_SHOWN_DESCRIPTION: Final = 300
_ASKED: Final = "a hook wants a human to decide"


@dataclass(frozen=True)
class Gate:
    """What stands between a call and its run; the same for every call of a message.

    Attributes:
        catalog: What can be called.
        policy: What may be called.
        scope: The run that wants the calls.
        grants: What a human has allowed for the thread.
        secrets: What no call may carry.
        guard: The tables of the policy, if it has some.
    """

    catalog: Catalog
    policy: Policy
    scope: RunScope
    grants: Collection[Mapping[str, Any]] = ()
    secrets: Secrets = field(default_factory=Secrets)
    guard: Guard | None = None

    @classmethod
    async def for_run(cls, toolbox: Toolbox, scope: RunScope) -> "Gate":
        """What judges the calls of a run."""
        catalog = await toolbox.catalog(scope.user)
        table = toolbox.policy.table
        # A task's toolbox may lack the tools that read facts.
        guard = None if table is None else Guard(table, scope, toolbox.whole)
        return cls(catalog, toolbox.policy, scope, secrets=toolbox.secrets, guard=guard)

    def find_tool(self, call: PendingCall) -> CatalogTool | None:
        """The tool of a call, if it is still there."""
        return self.catalog.find(call["name"], call["server"])

    def judge(self, tool: CatalogTool, args: object) -> tuple[dict[str, Any], Action, str]:
        """Check the arguments of a call and ask the policy about it.

        Returns:
            The arguments to run with, what happens to the call, and why.
        """
        fitted, problem = check_arguments(tool.schema, self.secrets.mask_json(args))
        if is_masked(fitted) and tool.tool is not BUILT_IN:
            problem = say("arguments_masked", mask=MASK)
        if problem:
            return fitted, "error", say("not_run", why=problem)
        fitted = {name: value for name, value in fitted.items() if name not in tool.hidden}
        decision = self.decide(tool, fitted)
        return fitted, decision.action, decision.reason

    def decide(self, tool: CatalogTool, args: Mapping[str, Any]) -> Decision:
        """What the policy says of a call with checked arguments."""
        scope = self.scope
        return self.policy.decide(
            tool, args, context=scope.context, can_ask=scope.can_ask, agent=scope.agent,
            grants=self.grants,
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
) -> list[PendingCall]:
    """Check and judge the calls of a message, let hooks change them, and schedule or ask.

    What the human has allowed for the thread is not asked again. Every step is told as an event,
    and `Notification` hooks hear of each call that begins to wait.

    Args:
        scope: The run; its path begins the ids of the calls.
        toolbox: What can be called, and by which policy.
        message: The model's message.
        round_: The model turn, next in the ids of its calls.
        complete: False where the message was cut, so that no call in it can be trusted.
        names: Begins the calls' names in the journal where these are made again after a crash;
            without it they have new ones, and must be saved before they are run.
        before: Names under which earlier plans may have made the call.
    """
    gate = await Gate.for_run(toolbox, scope)
    planned = plan_calls(message, task=scope.path, round_=round_, gate=gate, complete=complete)
    if "BeforeTool" in scope.hooks.events:
        planned = await run_before_tool_hooks(planned, gate)
    for call in planned:
        call["intent"] = f"{names}.{call['id']}" if names else call["intent"]
        call["before"] = list(before)
    planned = await _check_journal(gate, planned)
    if gate.guard is not None:
        planned = await gate.guard.judge_planned(
            planned, [gate.find_tool(call) for call in planned]
        )
    asked = any(_wants_approval(call) for call in planned)
    grants = await scope.journal.grants(scope.thread) if asked else []
    return [await _announce_call(gate, apply_grants(call, gate, grants)) for call in planned]


async def _announce_call(gate: Gate, call: PendingCall) -> PendingCall:
    """Tell where a call stands, and begin to wait for a human where it must."""
    on_its_way = Call.from_pending(call, gate.scope.emit, status="validating")
    on_its_way.emit_status()
    if call["action"] == "allow":
        on_its_way.change_status("scheduled")
    elif call["action"] == "ask":
        call["expires_at"] = None if call.get("doubt") else _compute_expiry(call, gate)
        await emit_waiting(gate.scope, on_its_way)
    return update_call(call, status=on_its_way.status)


async def _check_journal(gate: Gate, calls: Sequence[PendingCall]) -> list[PendingCall]:
    """The calls, those without an approval of their own of which the journal knows something.

    What was made asks nobody. What may have been made is one question, for the approval as well;
    the first call that it concerns asks it, and settles it for those behind it.
    """
    asked = [call for call in calls if gate.guard or _wants_approval(call)]
    writes = [call for call in asked if not (call["read_only"] or call.get("own"))]
    if not writes:
        return list(calls)
    book = CallJournal(gate.scope)
    emit = gate.scope.emit
    intents = [
        book.build_intent(Call.from_pending(call, emit, gate.find_tool(call))) for call in writes
    ]
    verdicts: dict[str, Verdict] = {}
    doubted: set[str] = set()
    for call, verdict in zip(writes, await book.look_up(intents), strict=True):
        if verdict.say in ("doubt", "other"):
            if verdict.row.key in doubted:
                continue
            doubted.add(verdict.row.key)
        verdicts[call["id"]] = verdict
    return [_apply_verdict(gate, call, verdicts.get(call["id"])) for call in calls]


def _apply_verdict(gate: Gate, call: PendingCall, verdict: Verdict | None) -> PendingCall:
    if verdict is None or verdict.say == "send":
        return call
    if verdict.say == "known":
        return update_call(call, action="allow", reason="it was made before", known=True)
    doubt = find_doubt(verdict)
    if doubt is None or not gate.scope.can_ask:
        return call
    return mark_waiting(
        call, doubt.arguments(call["args"]), doubt.reason, doubt=doubt.to_in_doubt()
    )


def apply_grants(
    call: PendingCall, gate: Gate, grants: Collection[Mapping[str, Any]]
) -> PendingCall:
    """The call, without its question if the human has allowed calls like it for the thread."""
    tool = gate.find_tool(call)
    if tool is None or not _wants_approval(call) or call.get("doubt") or gate.guard:
        return call  # by a table each yes is given to one call
    if not any(is_granted(one, tool, call["args"]) for one in grants):
        return call
    return update_call(call, action="allow", reason=GRANTED)


def _wants_approval(call: PendingCall) -> bool:
    """Whether a question stands before the call, or would if somebody could be asked."""
    if call["action"] == "ask":
        return True
    return call["action"] == "deny" and call["reason"] == NOT_INTERACTIVE


def _compute_expiry(call: PendingCall, gate: Gate) -> str | None:
    """When the question about a call ends, as ISO 8601; None where it never does."""
    tool = gate.find_tool(call)
    if tool is None:
        return None
    # A hook may ask about a call that policy allows.
    expires_in = gate.decide(tool, call["args"]).expires_in
    seconds = expires_in or gate.scope.context.question_expires_in
    if seconds is None:
        return None
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat(timespec="milliseconds")


def plan_calls(
    message: AIMessage,
    *,
    task: str,
    round_: int,
    gate: Gate,
    complete: bool = True,
) -> list[PendingCall]:
    """Plan the calls of one message, invalid ones last: each of them needs an answer.

    Missing and repeated call ids are made unique; `settle_ids` does the same to the message.
    """
    planned: list[PendingCall] = []
    ids = make_unique_ids(message, gate.scope, task=task, round_=round_)
    for index, (call, problem) in enumerate(read_calls(message)):
        name = call_id(task, round_, index)
        problem = problem or ("" if complete else say("call_cut_off"))
        planned.append(
            _plan_call(gate, call, problem)
            | {"id": name, "task": task, "call_id": ids[index]}
            | {"intent": uuid.uuid4().hex}
        )
    return planned


def _plan_call(gate: Gate, call: Mapping[str, Any], problem: str) -> Any:
    """A planned call without its ids."""
    name = str(call.get("name") or "")
    tool = gate.catalog.find(name)
    given = gate.secrets.mask_json(call.get("args"))
    args, again = split_refresh(tool.schema if tool else {}, given)
    base = {
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
    if tool is not None and tool.own is not None and not tool.read_only:
        base["own"] = True
    if tool is None:
        return base | {"reason": explain_unknown_tool(name, gate.catalog)}
    if problem:
        return base | {"args": {}}
    fitted, action, reason = gate.judge(tool, args)
    return base | {"args": fitted, "action": action, "reason": reason}


def split_refresh(schema: Mapping[str, Any], args: object) -> tuple[Any, bool]:
    """Take out of the arguments what asks for a fresh result, unless the tool has such arguments.

    Args:
        schema: The tool's own parameters.
        args: What the model sent; anything but an object is handed back as it is.

    Returns:
        The tool's own arguments, and whether `"refresh": true` or a `"retry_reason"` was there.
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

    A call is denied where a hook blocks, asked about where one asks, and judged anew where one
    changed its arguments. If a hook ended the run, no call of the message may run, and each says
    why under `HOOK_STOP`.
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
    if not verdict.asks_human:
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

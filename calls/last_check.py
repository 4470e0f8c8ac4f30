"""Whether a planned call runs: the human's answer, and catalog and policy as they are by now."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..state.calls import GAVE_UP, ToolStatus
from ..state.told import say
from ..tools.catalog import CatalogTool
from ..turn.scope import RunScope
from .dedupe import asked_again
from .gate import Gate, PendingCall, unknown_tool
from .policy import NOT_INTERACTIVE
from .question import EXPIRED, reply_to
from .tool_hooks import check_edit


@dataclass(frozen=True)
class Ready:
    """A call that may run, with its final arguments; `reply` is for a server that asked in it."""

    tool: CatalogTool
    args: dict[str, Any]
    again: bool = False
    reply: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Settled:
    """A call that is answered without running; `args` are those of an edit that may not run."""

    status: ToolStatus
    text: str
    reason: str = ""
    args: dict[str, Any] | None = None


Step = Ready | Settled


@dataclass(frozen=True, kw_only=True)
class Settling:
    """Settles the calls of one message."""

    scope: RunScope
    gate: Gate

    async def settle(self, call: PendingCall, decision: Mapping[str, Any] | None) -> Step:
        """Say whether a call runs. Catalog and policy may have changed since it was planned.

        Args:
            call: The planned call.
            decision: The human's answer, if there is one.
        """
        if call["action"] == "error":
            return Settled("error", call["reason"])
        if call["action"] == "deny":
            return denied(call["reason"])
        asked = call["action"] == "ask" and not call.get("form")
        answered = _answered(call, decision or {}) if asked else None
        if answered is not None:
            return answered
        tool = self.gate.catalog.find(call["name"], call["server"])
        if tool is None:
            return Settled("error", unknown_tool(call["name"], self.gate.catalog))
        if call["action"] == "ask":
            return await self._approved(call, tool, decision or {})
        step = self._judged(self.gate, call, tool, call["args"])
        return step if isinstance(step, Ready) else await self._granted(call, tool, step)

    async def settle_tail(self, call: PendingCall) -> Step:
        """Say whether a call runs that one hook asks for: all the others may still block it."""
        step = await self.settle(call, None)
        if isinstance(step, Settled):
            return step
        blocked = await check_edit(step.tool, step.args, self.scope.hooks, emit=self.scope.emit)
        return denied(blocked) if blocked else step

    async def _granted(self, call: PendingCall, tool: CatalogTool, step: Settled) -> Step:
        """A call that went without a question because the human had allowed it for the thread."""
        if step not in (denied(say("unapproved")), denied(NOT_INTERACTIVE)):
            return step
        gate = replace(self.gate, grants=await self.scope.journal.grants(self.scope.thread))
        return self._judged(gate, call, tool, call["args"])

    async def _approved(
        self, call: PendingCall, tool: CatalogTool, decision: Mapping[str, Any]
    ) -> Step:
        if decision.get("type") == "edit" and not call.get("form"):
            return await self._edited(call, tool, decision)
        step = self._judged(self.gate, call, tool, call["args"], asked=True)
        if isinstance(step, Ready):
            step = replace(step, reply=reply_to(call, decision))
        return step

    async def _edited(
        self, call: PendingCall, tool: CatalogTool, decision: Mapping[str, Any]
    ) -> Step:
        if decision.get("name") not in (None, "", call["name"]):
            return denied(say("edit_of_the_tool"))
        args, again = asked_again(tool.schema, decision.get("args"))
        step = self._judged(self.gate, call, tool, args, asked=True)
        if isinstance(step, Settled):
            return replace(step, args=args)
        blocked = await check_edit(tool, step.args, self.scope.hooks, emit=self.scope.emit)
        return replace(denied(blocked), args=step.args) if blocked else replace(step, again=again)

    def _judged(
        self,
        gate: Gate,
        call: PendingCall,
        tool: CatalogTool,
        args: object,
        *,
        asked: bool = False,
    ) -> Step:
        """A call with its final arguments; the policy may be stricter by now than when planned."""
        fitted, action, reason = gate.judge(tool, args)
        if action == "error":
            return Settled("error", reason)
        if action == "ask" and not asked:
            return denied(say("unapproved"))
        if action == "deny" and not (asked and reason == NOT_INTERACTIVE):  # somebody has answered
            return denied(reason)
        return Ready(tool, fitted, bool(call.get("again")))


def _answered(call: PendingCall, decision: Mapping[str, Any]) -> Settled | None:
    """What a human's word alone makes of a call, whatever became of its tool; None if it runs."""
    words = str(decision.get("message") or "").strip()
    match decision.get("type"):
        case "approve":
            return None
        case "edit" if not call.get("uncertain"):
            return None
        case "respond":
            return Settled("success", words or say("no_output"), "answered by the user")
        case "reject" if call.get("uncertain"):
            said = "user_gave_up_saying" if words else "user_gave_up"
            told = say(said, words=words, advice=say("report_doubt"))
            return Settled("cancelled", told, GAVE_UP)
        case "reject":
            said = "user_rejected_saying" if words else "user_rejected"
            told = say(said, words=words, advice=say("do_without"))
            return Settled("cancelled", told, "rejected")
        case kind:
            late = Settled("cancelled", say("expired", advice=say("send_anew")), EXPIRED)
            return late if kind == EXPIRED else denied(say("unapproved"))


def denied(why: str) -> Settled:
    """The answer to a call that policy, a hook or the lack of a human forbids."""
    code = NOT_INTERACTIVE if why == NOT_INTERACTIVE else "denied"
    if why == NOT_INTERACTIVE:
        why = say("nobody_to_approve", code=NOT_INTERACTIVE)
    text = say("refused_call", why=why.rstrip("."), advice=say("report_it"))
    return Settled("cancelled", text, code)

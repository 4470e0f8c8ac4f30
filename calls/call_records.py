"""One call: as it waits in the state, on its way along the path, and as it ended.

`Call` is the record. A `PendingCall` is what the state keeps of it until it is answered, `evidence`
what the state keeps of an answered one.
"""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal, NotRequired, cast

from langchain_core.messages import ToolMessage
from typing_extensions import TypedDict

from ..policy.origin_words import ValueOrigins
from ..policy.origins import ForeignValue
from ..state.agent import hide_end
from ..state.calls import UNCERTAIN, Evidence, ToolStatus, advance
from ..state.context import Emit
from ..state.messages import STORED
from ..state.questions import By
from ..store.journal.port import Row
from ..stream.events import make_component_events
from ..stream.meters import DOUBTS, KIND, TOOL, measure
from ..text.sentences import say
from ..tools.catalog import CatalogTool
from ..turn.scope import RunScope
from .policy import NOT_INTERACTIVE
from .results import SHOWN, ToolResult

if TYPE_CHECKING:
    from .subjects import Subject

Action = Literal["allow", "ask", "deny", "error"]
"""What happens to a call; policy decides between the first three."""

Reason = Literal[
    "", "denied", "rejected", "not_interactive", "expired", "gave_up", "uncertain",
    "answered by the user", "repeated", "loop_detected",
]  # fmt: skip
"""Why a call ended as it did; "" where its status says it all."""

_EVENT_TEXT: Final = 2_000


class InDoubt(TypedDict):
    """Which row of the journal a human is asked about: its key, how often it was sent, and why.

    `other`: a different call is in doubt and blocks this one, which has not run.
    """

    why: str
    key: str
    sends: int
    other: bool


class PendingCall(TypedDict):
    """One call between planning and running; JSON only, so it can wait in the state.

    `id` is the evidence id `<task>.<round>.<index>`, `call_id` the provider's. `about` is what the
    tool says of itself, for whoever has to approve the call. `reason` says why the call is asked
    about or denied; for an `error` it is the answer for the model. `again` is set where the model
    asks for a fresh result. `form` is what its server asks before it goes on. A question is
    answered too late after `expires_at` (UTC); `doubts` counts those put while the call ran.
    `intent` names the call in the journal, `before` are names under which earlier plans may have
    made it. One that is `known` was made before; one with a `doubt` may have been.
    `tail_of` names the tool whose call a hook made this one follow. A plan may allow a call fewer
    seconds than its tool has: `deadline`. `tries` counts the calls before it that failed and that
    it repeats. One that is `alone` asks a question of its tool's own: no other shares its pass.
    One that is the package's `own` changes state alone, so it is evidence of a failure at
    most. Of one that is `unknown` there is no tool. A sub-agent in the
    background is saved under the name `place` beside the graph that delegated, with the `wishes` of
    whoever did. A policy's table
    gives a change its `ruling`; `agreed` says who has agreed to it, `answered_by` who may: `guard`.
    One that is asked about has the digest of its tool's `definition`, and what is `foreign` in it;
    `origins` are those of its values where the policy asks for them. What is `kept` of it for other
    threads may be `foreign` or `confidential`.
    """

    id: str
    task: str
    call_id: str
    name: str
    server: str | None
    about: str
    args: dict[str, Any]
    action: Action
    reason: str
    read_only: bool
    status: NotRequired[ToolStatus]
    again: NotRequired[bool]
    expires_at: NotRequired[str | None]
    intent: NotRequired[str]
    before: NotRequired[list[str]]
    known: NotRequired[bool]
    doubt: NotRequired[InDoubt | None]
    doubts: NotRequired[int]
    form: NotRequired[dict[str, Any] | None]
    tail_of: NotRequired[str]
    deadline: NotRequired[float]
    tries: NotRequired[int]
    alone: NotRequired[bool]
    own: NotRequired[bool]
    unknown: NotRequired[bool]
    undeclared: NotRequired[bool]
    place: NotRequired[str]
    wishes: NotRequired[list[dict[str, str]]]
    ruling: NotRequired[dict[str, Any]]
    agreed: NotRequired[dict[str, str]]
    answered_by: NotRequired[By]
    definition: NotRequired[str]
    foreign: NotRequired[list[ForeignValue]]
    origins: NotRequired[ValueOrigins]
    kept: NotRequired[dict[str, bool]]


def update_call(call: PendingCall, **changes: object) -> PendingCall:
    """The call with some of its keys changed."""
    return cast("PendingCall", {**call, **changes})


def mark_waiting(
    call: PendingCall, args: Mapping[str, Any], reason: str, **why: object
) -> PendingCall:
    """A call as it is left to a human once more; each question has a key of its own."""
    return update_call(
        call, args=dict(args), reason=reason, action="ask", doubts=call.get("doubts", 0) + 1,
        expires_at=None, status="awaiting_approval", **{"doubt": None, "form": None, **why},
    )  # fmt: skip


@dataclass(frozen=True)
class Doubt:
    """Why a call may have taken effect already, and what a human's word on it is about."""

    why: str
    row: Row
    other: bool = False
    """Another write of the tool is in doubt and blocks this call, which has not run."""

    def to_in_doubt(self) -> InDoubt:
        """What a pending call says of it, which a human is asked about."""
        self.count_doubt()
        return InDoubt(why=self.why, key=self.row.key, sends=self.row.sends, other=self.other)

    def count_doubt(self) -> None:
        """Tell the meter of a call that a crash cut off; the others were counted as they ended."""
        if not (self.other or self.row.result):
            measure(DOUBTS, 1, {TOOL: self.row.tool, KIND: "cut_off"})

    @property
    def reason(self) -> str:
        """Why the call is asked about."""
        whose = "another call" if self.other else "it"
        return f"{whose} may have run already"

    def arguments(self, planned: dict[str, Any]) -> dict[str, Any]:
        """The arguments to show: as they were sent, but for a call that another one holds up."""
        return planned if self.other else dict(self.row.arguments)


@dataclass(kw_only=True, eq=False)
class Call:
    """One call on its way along the path; each change of its status is checked and told.

    Attributes:
        pending: The call as it waits in the state.
        emit: Takes its events.
        tool: What is called; None where it is gone.
        status: Where the call stands.
        args: The arguments it runs with.
        again: The model asks for a fresh result.
        reply: What its server is told, if that asked a question.
        key: The idempotency key, once it is known.
        result: What the model is shown; None as long as nothing answers the call.
        returned: What the tool itself gave in this pass, before hooks, masks and the size cap.
        message: Answers the call in the conversation, once it has ended.
        end_status: How it ended; None leaves that to the result.
        reason: Why it ended so; "" where its status says it all.
        stored: Id of the whole result in the store, where `result` is only a part of it.
        ran: The tool was called in this pass.
        counts: This turn pays for the call.
        seconds: How long it ran.
        reused_from: Evidence id of the call whose result this is.
        same_as: Evidence id of the call that this one repeats, by the loop guard.
        doubt: Why it may have run already; then a human decides, and `result` is None.
        subject: What it changes, and no other call meanwhile.
    """

    pending: PendingCall
    emit: Emit
    tool: CatalogTool | None = None
    status: ToolStatus = "validating"
    args: dict[str, Any] = field(default_factory=dict)
    again: bool = False
    reply: Mapping[str, Any] | None = None
    key: str = ""
    result: ToolResult | None = None
    returned: ToolResult | None = None
    message: ToolMessage = field(default_factory=lambda: ToolMessage("", tool_call_id=""))
    end_status: ToolStatus | None = None
    reason: Reason = ""
    stored: str = ""
    ran: bool = False
    counts: bool = False
    seconds: float = 0.0
    reused_from: str = ""
    same_as: str = ""
    doubt: Doubt | None = None
    subject: "Subject | None" = None
    was_asked: bool = False
    """A human was asked about it."""
    shown_args: dict[str, Any] = field(default_factory=dict)
    """The arguments its events show: those it was planned with, until it runs."""

    @classmethod
    def from_pending(
        cls,
        pending: PendingCall,
        emit: Emit,
        tool: CatalogTool | None = None,
        status: ToolStatus | None = None,
    ) -> "Call":
        """Go on with a call from where it stands, or from the status given."""
        now = status or pending.get("status", "validating")
        args = pending["args"]
        return cls(pending=pending, emit=emit, tool=tool, status=now, args=args, shown_args=args)

    @property
    def id(self) -> str:
        """Its evidence id."""
        return self.pending["id"]

    @property
    def known_tool(self) -> CatalogTool:
        """Its tool, of a call that may run."""
        return cast("CatalogTool", self.tool)

    @property
    def outcome(self) -> ToolResult:
        """Its result, of a call that was answered."""
        return cast("ToolResult", self.result)

    @property
    def update(self) -> dict[str, Any]:
        """What its tool wants changed in the graph's state; a result is applied once."""
        return {} if self.reused_from else self.outcome.update

    @property
    def evidence(self) -> Evidence:
        """The call that was answered, as the state keeps it."""
        pending, components = self.pending, self.outcome.artifact.get(SHOWN)
        evidence = Evidence(
            id=self.id, task=pending["task"], call_id=pending["call_id"], tool=pending["name"],
            arguments=self.args, status=self.final_status, reason=self.reason,
            result=self.outcome.text, seconds=round(self.seconds, 3),
        )  # fmt: skip
        server = pending["server"] if self.reason == UNCERTAIN else None
        more = {"server": server, "read_only": pending["read_only"], "components": components}
        more |= {name: pending.get(name) for name in ("own", "unknown", "undeclared")}
        more |= {"reused_from": self.reused_from, "same_as": self.same_as}
        more |= {"unsent": self.outcome.is_own and self.final_status == "error"}
        return evidence | cast("Evidence", {key: value for key, value in more.items() if value})

    @property
    def final_status(self) -> ToolStatus:
        """The status it ends in."""
        return self.end_status or ("error" if self.outcome.is_error else "success")

    def answer(
        self, text: str, status: ToolStatus, reason: Reason = "", *, to_model: str = ""
    ) -> None:
        """Answer a call that does not run."""
        self.result = ToolResult(text, is_error=status != "success", to_model=to_model, is_own=True)
        self.end_status, self.reason = status, reason

    def deny(self, why: str) -> None:
        """Answer a call that policy, a hook or the lack of a human forbids."""
        nobody = why == NOT_INTERACTIVE
        why = say("nobody_to_approve") if nobody else why.rstrip(".")
        if nobody and (found := self.pending.get("foreign")):
            why += f" ({name_foreign(found)})"
        told = say("refused_call", why=why, advice=say("report_it"))
        reason: Reason = "not_interactive" if nobody else "denied"
        self.answer(say("call_ended_so", why=why), "cancelled", reason, to_model=told)

    def emit_status(self, **more: object) -> None:
        """Tell where the call stands."""
        event: dict[str, object] = {
            "type": "tool_call",
            "id": self.id,
            "task": self.pending["task"],
        }
        event |= {"tool": self.pending["name"], "arguments": self.shown_args}
        asked = {"asked": True} if self.was_asked else {}
        self.emit({**event, **asked, "status": self.status, **more})

    def change_status(self, status: ToolStatus, **more: object) -> None:
        """Go to another status, and tell it.

        Raises:
            ValueError: No call may go there from where it is.
        """
        self.was_asked |= "awaiting_approval" in (self.status, status)
        self.status = advance(self.status, status)
        self.emit_status(**more)

    def begin(self) -> None:
        """Begin to execute, with the arguments that are final now."""
        self.shown_args = dict(self.args)
        self.change_status("executing")


@dataclass(frozen=True)
class PassResult:
    """What one pass over the calls of a message came to.

    Attributes:
        answered: The calls that are answered, in the order of the message.
        waiting: The others, in the same order: they, or what stands before them, need a human.
    """

    answered: list[Call]
    waiting: list[PendingCall]


async def emit_waiting(scope: RunScope, call: Call) -> None:
    """Tell that a call waits for a human, by its event and to `Notification` hooks."""
    pending = call.pending
    doubt, reason, asked = pending.get("doubt"), "", "needs an approval"
    if doubt:
        reason = "waiting" if doubt["other"] else UNCERTAIN
        asked = "waits" if doubt["other"] else "may have run already"
    elif pending.get("form"):
        reason = pending["reason"]
    call.change_status("awaiting_approval", **({"reason": reason} if reason else {}))
    await scope.fire(
        "Notification", thread=scope.thread, notification_type="ToolPermission",
        message=f"The call of {pending['name']} {asked}: {pending['reason']}",
        details={"id": pending["id"], "tool_name": pending["name"], "tool_input": pending["args"]},
    )  # fmt: skip


def name_foreign(found: Sequence[ForeignValue]) -> str:
    """Which values of a call are a stranger's, or, of none by name, that one decided on it."""
    names = ", ".join(dict.fromkeys(one["path"] for one in found if one["path"]))
    return say("foreign_values", names=names) if names else say("foreign_turn")


def tell_end(call: Call) -> None:
    """Tell how a call ended, and make the message that answers it."""
    links = {"reused_from": call.reused_from, "same_as": call.same_as, "reason": call.reason}
    more = {name: value for name, value in links.items() if value}
    refused = call.pending.get("own") and call.outcome.to_model
    text = say("own_call_failed") if refused else call.outcome.text[:_EVENT_TEXT]
    seconds = round(call.seconds, 3)
    call.change_status(call.final_status, result=text, seconds=seconds, **more)
    if components := call.outcome.artifact.get(SHOWN, []):
        for event in make_component_events(call.id, components):
            call.emit(event)
    call.message = _build_message(call)


def _build_message(call: Call) -> ToolMessage:
    """The answer to a call as the model and the state get it."""
    pending, result = call.pending, call.outcome
    about = {"evidence": call.id, "timestamp": datetime.now(UTC).isoformat(timespec="seconds")}
    if call.stored:
        about[STORED] = call.stored
    artifact = {key: value for key, value in result.artifact.items() if key != SHOWN}
    artifact |= {} if result.data is None else {"data": result.data}
    return ToolMessage(
        content=result.to_model or result.text or say("no_output"),
        id=hide_end(str(uuid.uuid4()), [pending]),
        name=pending["name"],
        tool_call_id=pending["call_id"],
        status="success" if call.final_status == "success" else "error",
        artifact=artifact or None,
        additional_kwargs=about,
    )


def build_hook_fields(tool: CatalogTool, args: Mapping[str, Any]) -> dict[str, Any]:
    """What hooks are told of a call."""
    about: dict[str, Any] = {"tool_name": tool.name, "tool_input": dict(args)}
    if tool.server is not None:
        about["mcp_context"] = {"server_name": tool.server, "tool_name": tool.original}
    return about

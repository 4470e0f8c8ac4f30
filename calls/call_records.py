"""What is known of a call: before it runs, while it runs, and at its end."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal, NotRequired, cast

from langchain_core.messages import ToolMessage
from typing_extensions import TypedDict

from ..state.calls import UNCERTAIN, Evidence, ToolStatus, advance
from ..state.context import Emit
from ..state.questions import By
from ..stream.events import components_shown
from ..text.told import say
from ..tools.catalog import CatalogTool
from ..turn.scope import RunScope
from .items import SHOWN
from .results import ToolResult

Action = Literal["allow", "ask", "deny", "error"]
"""What happens to a call; policy decides between the first three."""

Reason = Literal[
    "", "denied", "rejected", "not_interactive", "expired", "gave_up", "uncertain",
    "answered by the user", "repeated", "loop_detected",
]  # fmt: skip
"""Why a call ended as it did; "" where its status says it all."""

_EVENT_TEXT: Final = 2_000
_NOT_KEPT: Final = frozenset({"message", "ran", "counts", "server", "update", "own"})


class InDoubt(TypedDict):
    """Which row of the journal a human is asked about: its key, how often it was sent, and why.

    Where it is `other` than this call's own, it stands in the way of this one, which did not run.
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
    One that is the package's `own` changes state alone, so it is no evidence. A sub-agent in the
    background is saved under the name `place` beside the graph that delegated. A policy's table
    gives a change its `ruling`; `agreed` says who has agreed to it, `answered_by` who may: `guard`.
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
    place: NotRequired[str]
    ruling: NotRequired[dict[str, Any]]
    agreed: NotRequired[dict[str, str]]
    answered_by: NotRequired[By]


def changed(call: PendingCall, **changes: object) -> PendingCall:
    """The call with some of its keys changed."""
    return cast("PendingCall", {**call, **changes})


def waiting(call: PendingCall, args: Mapping[str, Any], reason: str, **why: object) -> PendingCall:
    """A call as it is left to a human once more; each question has a key of its own."""
    return changed(
        call, args=dict(args), reason=reason, action="ask", doubts=call.get("doubts", 0) + 1,
        expires_at=None, status="awaiting_approval", **{"doubt": None, "form": None, **why},
    )  # fmt: skip


@dataclass(frozen=True)
class Answered:
    """How a call ended, before it is written down.

    `status` None means that the tool was called, or its answer is recorded: the result decides.
    `args` are those that were sent, where they are not the call's. One `sent_again` may have been
    begun anew with the answer to a question of its tool.
    """

    result: ToolResult
    status: ToolStatus | None = None
    reason: Reason = ""
    stored: str = ""
    ran: bool = False
    counts: bool = False
    seconds: float = 0.0
    reused_from: str = ""
    same_as: str = ""
    args: dict[str, Any] | None = None
    sent_again: bool = False

    @property
    def end(self) -> ToolStatus:
        """The state the call ends in."""
        return self.status or ("error" if self.result.is_error else "success")


def unrun(text: str, status: ToolStatus, reason: Reason = "") -> Answered:
    """The answer to a call that does not run."""
    return Answered(ToolResult(text, is_error=status != "success"), status, reason)


class CallRecord(TypedDict):
    """One call as it ended. `result` is the text the model is shown, `message` carries it.

    `reason` says why a call was cancelled; an `error` that may have taken effect is `uncertain`.
    `ran` is whether the tool was called now, `counts` whether this turn pays for it: a call that
    a crash cut off from its count does not run again, but is paid for. `update` is what its tool
    wants changed in the graph's state.
    """

    id: str
    task: str
    call_id: str
    tool: str
    server: str | None
    arguments: dict[str, Any]
    status: ToolStatus
    reason: Reason
    result: str
    seconds: float
    ran: bool
    counts: bool
    reused_from: NotRequired[str]
    same_as: NotRequired[str]
    components: NotRequired[list[dict[str, Any]]]
    read_only: NotRequired[bool]
    own: NotRequired[bool]
    message: ToolMessage
    update: NotRequired[dict[str, Any]]


@dataclass(frozen=True)
class Pass:
    """What one pass over the calls of a message came to.

    Attributes:
        records: The calls that are answered, in the order of the message.
        waiting: The others, in the same order: they, or what stands before them, need a human.
    """

    records: list[CallRecord]
    waiting: list[PendingCall]


class CallStatus:
    """The states one call goes through; each step is checked and told as an event.

    `returned` once the tool has given its result, which hooks may still look at.
    """

    def __init__(self, call: PendingCall, emit: Emit, status: ToolStatus = "validating") -> None:
        """Go on from a state that was told before."""
        self.status = status
        self.returned = False
        self._emit = emit
        self._about: dict[str, Any] = {
            "type": "tool_call",
            "id": call["id"],
            "task": call["task"],
            "tool": call["name"],
            "arguments": call["args"],
        }
        if status == "awaiting_approval":  # a human has decided on it
            self._about["asked"] = True

    def tell(self, **more: object) -> None:
        """Tell where the call stands."""
        if self.status == "awaiting_approval":
            self._about["asked"] = True
        self._emit({**self._about, "status": self.status, **more})

    def to(self, status: ToolStatus, **more: object) -> None:
        """Go to another state, and tell it.

        Raises:
            ValueError: No call may go there from where it is.
        """
        self.status = advance(self.status, status)
        self.tell(**more)

    def shows(self, components: Sequence[Mapping[str, Any]]) -> None:
        """Tell the components of its result."""
        for event in components_shown(self._about["id"], components):
            self._emit(event)

    def run(self, args: Mapping[str, Any]) -> None:
        """Begin to execute, with the arguments that are final now."""
        self._about["arguments"] = dict(args)
        self.to("executing")


async def left_waiting(scope: RunScope, call: PendingCall, status: CallStatus) -> None:
    """Tell that a call waits for a human, by its event and to `Notification` hooks."""
    doubt, reason, asked = call.get("doubt"), "", "needs an approval"
    if doubt:
        reason = "waiting" if doubt["other"] else UNCERTAIN
        asked = "waits" if doubt["other"] else "may have run already"
    elif call.get("form"):
        reason = call["reason"]
    status.to("awaiting_approval", **({"reason": reason} if reason else {}))
    await scope.fire(
        "Notification", thread=scope.thread, notification_type="ToolPermission",
        message=f"The call of {call['name']} {asked}: {call['reason']}",
        details={"id": call["id"], "tool_name": call["name"], "tool_input": call["args"]},
    )  # fmt: skip


def ended(
    call: PendingCall, args: dict[str, Any], answer: Answered, status: CallStatus
) -> CallRecord:
    """Write down and tell how a call ended."""
    seconds = round(answer.seconds, 3)
    links = {"reused_from": answer.reused_from, "same_as": answer.same_as}
    links = {name: value for name, value in links.items() if value}
    why = {"reason": answer.reason} if answer.reason else {}
    shown = answer.result.text[:_EVENT_TEXT]
    components = answer.result.artifact.get(SHOWN, [])
    status.to(answer.end, result=shown, seconds=seconds, **why, **links)
    status.shows(components)
    record = CallRecord(
        id=call["id"],
        task=call["task"],
        call_id=call["call_id"],
        tool=call["name"],
        server=call["server"],
        arguments=args if answer.args is None else answer.args,
        status=answer.end,
        reason=answer.reason,
        result=answer.result.text,
        seconds=seconds,
        ran=answer.ran,
        counts=answer.counts,
        message=_message(call, answer),
    )
    if call["read_only"]:
        record["read_only"] = True
    if call.get("own"):
        record["own"] = True
    record.update(links)  # type: ignore[typeddict-item]  # its own keys
    if components:
        record["components"] = components
    if answer.result.update and not answer.reused_from:
        record["update"] = answer.result.update
    return record


def _message(call: PendingCall, answer: Answered) -> ToolMessage:
    """The answer to a call as the model and the state get it."""
    result = answer.result
    about = {"evidence": call["id"], "timestamp": datetime.now(UTC).isoformat(timespec="seconds")}
    if answer.stored:
        about["stored"] = answer.stored
    artifact = {key: value for key, value in result.artifact.items() if key != SHOWN}
    artifact |= {} if result.data is None else {"data": result.data}
    return ToolMessage(
        content=result.text or say("no_output"),
        id=str(uuid.uuid4()),
        name=call["name"],
        tool_call_id=call["call_id"],
        status="success" if answer.end == "success" else "error",
        artifact=artifact or None,
        additional_kwargs=about,
    )


def as_evidence(record: CallRecord) -> Evidence:
    """A call that was answered, as the state keeps it."""
    kept: dict[str, Any] = {k: v for k, v in record.items() if k not in _NOT_KEPT}
    if record["reason"] == UNCERTAIN and record["server"]:
        kept["server"] = record["server"]
    return cast("Evidence", kept)


def told_hooks(tool: CatalogTool, args: Mapping[str, Any]) -> dict[str, Any]:
    """What hooks are told of a call."""
    about: dict[str, Any] = {"tool_name": tool.name, "tool_input": dict(args)}
    if tool.server is not None:
        about["mcp_context"] = {"server_name": tool.server, "tool_name": tool.original}
    return about

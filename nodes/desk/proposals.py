"""Changes need a yes: they are put to the customer in full, and made as they were agreed to."""

from collections.abc import Sequence

from langchain_core.messages import AIMessage

from ...calls.call_records import PendingCall, changed
from ...state.canonical import hash_of
from ...state.desk import DeskState, Proposal
from ...state.told import say


def held_for_consent(
    state: DeskState, calls: Sequence[PendingCall]
) -> tuple[list[PendingCall], Proposal | None]:
    """The calls, those that change something answered instead of run; and what is to be put.

    What the customer has said yes to, exactly as it was put, may run.
    """
    yes = state.proposal["digest"] if state.consent == "yes" and state.proposal else ""
    proposed: Proposal | None = None
    held: list[PendingCall] = []
    for call in calls:
        if (
            call["read_only"]
            or call.get("own")
            or call["action"] in ("error", "deny")
            or digest_of(call) == yes
        ):
            held.append(call)
        elif proposed is None:
            proposed = _proposal(state, call)
            held.append(changed(call, action="error", reason=say("desk_needs_yes")))
        else:
            held.append(changed(call, action="error", reason=say("desk_one_change")))
    return held, proposed


def digest_of(call: PendingCall) -> str:
    """What a yes is given to: the tool and all of its arguments."""
    return hash_of([call["name"], call["server"], call["args"]])


def _proposal(state: DeskState, call: PendingCall) -> Proposal:
    details = "\n".join(f"- {name}: {value}" for name, value in call["args"].items())
    words = say("desk_proposal", what=call["name"], details=details)
    return Proposal(
        name=call["name"], server=call["server"], args=call["args"], digest=digest_of(call),
        words=words, turn=state.turn,
    )  # fmt: skip


def agreed(proposal: Proposal) -> AIMessage:
    """The call that was agreed to, as a message; no model writes it anew."""
    call = {"name": proposal["name"], "args": proposal["args"], "id": "", "type": "tool_call"}
    return AIMessage("", tool_calls=[call])

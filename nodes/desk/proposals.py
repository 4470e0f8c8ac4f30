"""Changes need a yes: they are put to the customer in full, and made as they were agreed to."""

from collections.abc import Sequence

from langchain_core.messages import AIMessage

from ...calls.call_records import PendingCall, update_call
from ...calls.guard import build_agreement
from ...state.desk import DeskState, Proposal
from ...state.questions import By
from ...text.canonical import hash_of
from ...text.display import show_value
from ...text.sentences import say, say_to


def hold_for_consent(
    state: DeskState, calls: Sequence[PendingCall]
) -> tuple[list[PendingCall], Proposal | None]:
    """The calls, of which changes without consent are answered, not run; and the new proposal.

    A change runs if exactly it was agreed to, or if the policy's table needs no yes. What the table
    leaves to a colleague is proposed to them.
    """
    proposed: Proposal | None = None
    held: list[PendingCall] = []
    for call in calls:
        needs = _find_approver(call)
        if needs is None:
            held.append(call)
        elif by := _find_consent(state, call, needs):
            held.append(_release_call(call, by))
        elif proposed is None:
            proposed = _build_proposal(state, call, needs)
            name = "desk_needs_yes" if needs == "customer" else "desk_needs_colleague"
            held.append(update_call(call, action="error", reason=say(name)))
        else:
            held.append(update_call(call, action="error", reason=say("desk_one_change")))
    return held, proposed


def _find_approver(call: PendingCall) -> By | None:
    """Whose yes a call needs before it runs; None where it runs, or is refused, without one."""
    ruling = call.get("ruling")
    if call["read_only"] or call.get("own") or call["action"] == "error":
        return None
    if ruling is None:
        return None if call["action"] == "deny" else "customer"
    if ruling["verdict"] == "asks":
        return "operator"
    return "customer" if ruling["consent"] else None


def _find_consent(state: DeskState, call: PendingCall, needs: By) -> By | None:
    """Who has said yes to exactly this call, if their yes is enough."""
    put = state.proposal
    if put is None or put["digest"] != digest_of(call):
        return None
    if put.get("approved"):
        return "operator"
    return "customer" if needs == "customer" and state.consent == "yes" else None


def _release_call(call: PendingCall, by: By) -> PendingCall:
    """The call with the yes it has; where the policy asks as well, a customer's is not enough."""
    asks = call["action"] == "ask" and call.get("ruling") is None
    return update_call(call, action="ask" if asks else "allow", agreed=build_agreement(call, by))


def digest_of(call: PendingCall) -> str:
    """What a yes is given to: the tool and all of its arguments."""
    return hash_of([call["name"], call["server"], call["args"]])


def _build_proposal(state: DeskState, call: PendingCall, needs: By) -> Proposal:
    details = "\n".join(f"- {name}: {show_value(value)}" for name, value in call["args"].items())
    words = say_to(state.language, "desk_proposal", what=call["name"], details=details)
    proposal = Proposal(
        name=call["name"], server=call["server"], args=call["args"], digest=digest_of(call),
        words=words, turn=state.turn,
    )  # fmt: skip
    if needs == "operator":
        proposal["why"] = str((call.get("ruling") or {}).get("words", ""))
    return proposal


def build_agreed_call(proposal: Proposal) -> AIMessage:
    """The call that was agreed to, as a message; no model writes it anew."""
    call = {"name": proposal["name"], "args": proposal["args"], "id": "", "type": "tool_call"}
    return AIMessage("", tool_calls=[call])

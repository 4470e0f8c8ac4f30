"""Changes need a yes: they are put to the customer in full, and made as they were agreed to."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from langchain_core.messages import AIMessage

from ...calls.call_records import PendingCall, update_call
from ...calls.foreign import describe_foreign
from ...calls.guard import build_agreement
from ...calls.policy import Policy
from ...policy.values import is_word
from ...state.desk import DeskState, DeskUpdate, Proposal, ProposedCall, names_change
from ...state.messages import ANSWER
from ...state.questions import By
from ...text.canonical import hash_of
from ...text.sentences import say, say_to
from ...turn.end import build_answer_id
from ...turn.scope import RunScope
from .desk import Desk
from .turn import describe_change


def hold_for_consent(
    state: DeskState, calls: Sequence[PendingCall], desk: Desk
) -> tuple[list[PendingCall], DeskUpdate]:
    """The calls, of which changes without consent are answered, not run; and what is put.

    A change runs if exactly it was agreed to, or if the policy's table needs no yes. All that need
    the customer's are one proposal; what the table leaves to a colleague is put to them, alone. A
    change that was put before and got no plain answer goes to a human.
    """
    policy = desk.parts.toolbox.policy
    calls = [c if _may_vouch(c, policy) else update_call(c, answered_by="operator") for c in calls]
    needs = [None if _find_consent(state, c) else _find_approver(c) for c in calls]
    whose: By | None = next((by for by in ("customer", "operator") if by in needs), None)
    wanted = [call for call, by in zip(calls, needs, strict=True) if by and by == whose]
    once = {digest_of(call): call for call in reversed(wanted)}
    chosen = [*reversed(once.values())][: 1 if whose == "operator" else None]
    again = whose == "customer" and any(digest_of(call) in state.put for call in chosen)
    held: list[PendingCall] = []
    for call, by in zip(calls, needs, strict=True):
        if by is None:
            agreed = _find_consent(state, call)
            held.append(_release_call(call, agreed) if agreed else call)
        else:
            held.append(update_call(call, action="error", reason=_explain(call, chosen, by, again)))
    if again:
        return held, DeskUpdate(strategy="hand_off", why=say("desk_no_clear_yes"))
    if not chosen or whose is None:
        return held, DeskUpdate()
    put = list(dict.fromkeys([*state.put, *map(digest_of, chosen)]))
    return held, DeskUpdate(proposal=_build_proposal(state, chosen, whose, desk), put=put)


def _explain(call: PendingCall, chosen: Sequence[PendingCall], by: By, again: bool) -> str:
    if call not in chosen:
        return say("desk_one_change")
    if again:
        return say("desk_put_twice")
    return say("desk_needs_yes" if by == "customer" else "desk_needs_colleague")


def _find_approver(call: PendingCall) -> By | None:
    """Whose yes a call needs before it runs; None where it runs, or is refused, without one."""
    ruling = call.get("ruling")
    if call["read_only"] or call.get("own") or call["action"] == "error":
        return None
    if (foreign := bool(call.get("foreign"))) and call.get("answered_by") == "operator":
        return "operator" if call["action"] == "ask" else None
    if ruling is None:
        return None if call["action"] == "deny" else "customer"
    if ruling["verdict"] == "asks":
        return "operator"
    return "customer" if ruling["consent"] or foreign else None


def _may_vouch(call: PendingCall, policy: Policy) -> bool:
    """Whether the foreign values of a call are the customer's to agree to, who is shown them.

    Words that stand in no text that was read are, such as a reason, if a table rules the change.
    """
    found, ruled = call.get("foreign") or (), call.get("ruling") is not None
    unwritten = all(not one["tool"] and is_word(one["value"]) for one in found)
    return not found or (unwritten and ruled and policy.foreign != "strict")


def _find_consent(state: DeskState, call: PendingCall) -> By | None:
    """Who has said yes to exactly this call, if their yes is enough."""
    needs = _find_approver(call)
    put = state.proposal
    if needs is None or put is None or not names_change(put, digest_of(call)):
        return None
    if put.get("approved"):
        return "operator"
    return "customer" if needs == "customer" and state.consent == "yes" else None


def _release_call(call: PendingCall, by: By) -> PendingCall:
    """The call with the yes it has; where the policy asks as well, a customer's is not enough."""
    asks = by == "customer" and call["action"] == "ask" and call.get("ruling") is None
    return update_call(call, action="ask" if asks else "allow", agreed=build_agreement(call, by))


def digest_of(call: PendingCall) -> str:
    """What a yes is given to: the tool and all of its arguments."""
    return hash_of([call["name"], call["server"], call["args"]])


def _build_proposal(
    state: DeskState, calls: Sequence[PendingCall], needs: By, desk: Desk
) -> Proposal:
    table = desk.parts.toolbox.policy.table
    proposed = [
        ProposedCall(
            name=call["name"], server=call["server"], args=call["args"], digest=digest_of(call),
            line=describe_change(table, call, state.language),
            quoted=bool((call.get("ruling") or {}).get("quoted")),
        )
        for call in calls
    ]  # fmt: skip
    name = f"q{hash_of([state.turn_id, [one['digest'] for one in proposed]])[:6]}"
    details = "\n".join(f"- {one['line']}" for one in proposed)
    words = say_to(state.language, "desk_proposal", details=details, id=name)
    at = datetime.now(UTC).isoformat(timespec="seconds")
    proposal = Proposal(id=name, calls=proposed, words=words, turn=state.turn, at=at, asks=1)
    if needs == "operator":
        words = str((calls[0].get("ruling") or {}).get("words", ""))
        foreign = describe_foreign(calls[0].get("foreign") or ())
        proposal["why"] = "\n".join(filter(None, [words, *foreign]))
    return proposal


def has_expired(proposal: Proposal, desk: Desk, now: datetime) -> bool:
    """Whether the question has stood too long to be answered."""
    return now - datetime.fromisoformat(proposal["at"]) > timedelta(
        minutes=desk.company.proposal_minutes
    )


def put_again(state: DeskState, proposal: Proposal, *, beside: bool = False) -> Proposal:
    """The same question, once more, in this turn; `beside` words of a model, which may ask, too."""
    return {**proposal, "turn": state.turn, "asks": proposal["asks"] + 1, "beside": beside}


def build_agreed_calls(proposal: Proposal) -> AIMessage:
    """The calls that were agreed to, as a message; no model writes them again."""
    calls = [
        {"name": one["name"], "args": one["args"], "id": "", "type": "tool_call"}
        for one in proposal["calls"]
    ]
    return AIMessage("", tool_calls=calls)


def emit_proposal(
    scope: RunScope, state: DeskState, proposal: Proposal, answered: str = ""
) -> None:
    """Show the question with its buttons; where it stood once more when it is answered."""
    put = f"{ANSWER}{proposal['turn']}-"
    stood = (str(m.id) for m in reversed(state.messages) if str(m.id).startswith(put))
    scope.emit({
        "type": "proposal", "id": proposal["id"], "answered": answered,
        "lines": [call["line"] for call in proposal["calls"]],
        "message_id": next(stood, build_answer_id(state)),
    })  # fmt: skip

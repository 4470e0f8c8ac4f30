"""hand_off: gives the thread to a human, with all they need."""

from typing import Any

from langchain_core.messages import AIMessage
from langgraph.runtime import Runtime

from ....state.context import Context
from ....state.desk import DeskState, DeskUpdate
from ....state.messages import signature
from ....state.told import say
from ....turn.scope import scope_of
from ..desk import Desk


async def hand_off(state: DeskState, runtime: Runtime[Context], *, desk: Desk) -> DeskUpdate:
    """Tell the customer, and write the packet; from here on no model is asked."""
    scope = await scope_of(state, runtime, desk.parts)
    scope.emit({"type": "hand_off", "why": state.why})
    words = AIMessage(
        say("desk_handed_off"), id=f"{state.turn_id}.hand_off",
        additional_kwargs=signature("package"),
    )  # fmt: skip
    return DeskUpdate(owner="human", packet=packet_of(state), messages=[words])


def packet_of(state: DeskState) -> dict[str, Any]:
    """What a human needs to go on."""
    tried = [
        {"tool": r["tool"], "status": r["status"], "result": r["result"][:300]}
        for r in state.evidence
    ]
    return {
        "why": state.why, "intent": state.intent, "mood": state.mood, "known": state.slots,
        "identity": state.identity, "tried": tried, "promises": state.promises,
        "tickets": state.tickets, "proposal": state.proposal,
    }  # fmt: skip

"""hand_off: gives the thread to a human, with all they need; with_human: waits for their word."""

from typing import Any

from langchain_core.messages import AIMessage
from langgraph.runtime import Runtime
from langgraph.types import interrupt

from ...state.context import Context
from ...state.desk import DeskState, DeskUpdate
from ...state.messages import signature
from ...state.told import say
from ...turn.scope import hear, scope_of
from .desk import Desk


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


async def with_human(state: DeskState, runtime: Runtime[Context], *, desk: Desk) -> DeskUpdate:
    """Wait until the human answers or gives the thread back; a message of the customer waits too.

    One interrupt, nothing done before it.
    """
    hear(state)
    said = interrupt({"type": "hand_off", "packet": state.packet})
    words, returns = str(said.get("text", "")), said.get("type") == "return"
    await scope_of(state, runtime, desk.parts)
    told = AIMessage(words, additional_kwargs=signature("operator")) if words else None
    update = DeskUpdate(messages=[told] if told else [])
    return update | (DeskUpdate(owner="bot", packet={}, answer=words) if returns else {})

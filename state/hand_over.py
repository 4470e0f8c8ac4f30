"""A conversation that a human takes over: who said what, and what the human is told of it."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from langchain_core.messages import AnyMessage, ToolMessage

from ..text.canonical import beginning_of
from ..text.display import show_json, show_value
from ..text.sentences import say
from .desk import OPERATOR, DeskState
from .messages import ROLE, calls_in

HAND_OVER: Final = "hand_over"
"""Signs the calls by which a thread is handed over."""


def role_of(message: AnyMessage) -> str:
    """The signer of a message; "" without one."""
    return str(message.additional_kwargs.get(ROLE, ""))


def find_speaker(message: AnyMessage) -> str:
    """`customer`, `assistant` or `colleague`; "" for what nobody said to the other."""
    if message.type == "human":
        return "customer"
    if message.type != "ai" or calls_in(message):
        return ""
    return "colleague" if role_of(message) == OPERATOR else "assistant"


def has_open_message(state: DeskState) -> bool:
    """Whether the customer has written since the hand-over, and no colleague after that."""
    for message in reversed(state.messages):
        if message.id == state.packet.get("request"):
            return False
        if who := find_speaker(message):
            return who == "customer"
    return False


_CALLS, _LINES, _SHOWN = 20, 12, 300
_ACCOUNTS: Final = frozenset({"order", "refund", "account"})


def build_packet(state: DeskState) -> dict[str, Any]:
    """All that a human who has the thread is told, by the thread as it stands now.

    What the hand-over has settled stands in the state's packet: `id`, `why`, `since`, `holder`, …
    """
    tried = list_tried_calls(state)
    return {
        **state.packet,
        "next_step": suggest_next_step(state, tried),
        "intent": state.intent,
        "language": state.language,
        "mood": state.mood,
        "known": state.slots,
        "identity": state.identity,
        "tried": tried,
        "promises": state.promises,
        "tickets": state.tickets,
        "proposal": state.proposal,
        "is_new": has_open_message(state),
        "objection": state.objections.get(str(state.packet.get("id")), ""),
        "talk": [*iter_talk(state)][-_LINES:],
    }


def list_tried_calls(state: DeskState) -> list[dict[str, Any]]:
    """The newest calls of the conversation with what came of them, by their evidence ids."""
    made = {
        call["id"]: call
        for message in state.messages
        if role_of(message) != HAND_OVER
        for call in calls_in(message)
    }
    return [
        {
            "evidence": message.additional_kwargs.get("evidence", ""), "tool": message.name,
            "arguments": made[message.tool_call_id].get("args"), "status": message.status,
            "result": beginning_of(message.text, _SHOWN),
        }
        for message in state.messages
        if isinstance(message, ToolMessage) and message.tool_call_id in made
    ][-_CALLS:]  # fmt: skip


def iter_talk(state: DeskState) -> Iterator[dict[str, str]]:
    """What was said, and by whom."""
    for message in state.messages:
        if (who := find_speaker(message)) and message.text.strip():
            yield {"who": who, "text": beginning_of(message.text, _SHOWN)}


def suggest_next_step(state: DeskState, tried: list[dict[str, Any]]) -> str:
    """What the human had best do first, by rule."""
    put = state.proposal
    if put is not None and put.get("why"):
        return say("desk_next_decide", call="; ".join(one["line"] for one in put["calls"]))
    if state.intent == "sensitive":
        return say("desk_next_sensitive")
    if tried and tried[-1]["status"] == "error":
        return say("desk_next_failed", call=render_call(tried[-1]["tool"], tried[-1]["arguments"]))
    if put is not None:
        return say("desk_next_unanswered", call="; ".join(one["line"] for one in put["calls"]))
    if state.intent in _ACCOUNTS and not state.identity:
        return say("desk_next_verify")
    angry = bool(state.mood) and state.mood[-1]["mood"] in ("angry", "upset")
    return say("desk_next_angry" if angry else "desk_next_answer")


def summarize_packet(packet: Mapping[str, Any]) -> str:
    """The packet in a few lines, for the queue of the humans and for tickets."""
    known = ", ".join(f"{name} {show_value(value)}" for name, value in packet["known"].items())
    moods = " → ".join(dict.fromkeys(one["mood"] for one in packet["mood"]))
    tried = "; ".join(
        f"{render_call(one['tool'], one['arguments'])}: {one['status']}" for one in packet["tried"]
    )
    lines = {
        "why": packet["why"], "intent": packet["intent"], "mood": moods, "known": known,
        "identity": packet["identity"].get("customer_id", ""), "tried": tried,
        "promises": "; ".join(packet["promises"]), "next": packet["next_step"],
    }  # fmt: skip
    about = [f"{name}: {text}" for name, text in lines.items() if text]
    return "\n".join([*about, *(f"{one['who']}> {one['text']}" for one in packet["talk"])])


def render_call(tool: str, arguments: Any) -> str:
    """A call in one line."""
    return f"{tool}({beginning_of(show_json(arguments), _SHOWN)})"

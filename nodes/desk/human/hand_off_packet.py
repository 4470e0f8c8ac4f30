"""What a human who takes a thread over is given: made by code, of what the thread itself knows."""

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from langchain_core.messages import ToolMessage

from ....state.desk import DeskState
from ....state.messages import calls_in
from ....text.canonical import beginning_of
from ....text.sentences import say
from ..shared.speakers import find_speaker

_CALLS, _LINES, _SHOWN = 20, 12, 300
_ACCOUNTS: Final = frozenset({"order", "refund", "account"})


def build_packet(state: DeskState, why: str) -> dict[str, Any]:
    """All that is known; `id` names the hand-over for as long as the human has the thread."""
    tried = list_tried_calls(state)
    return {
        "id": f"hand-over-{state.turn_id}",
        "turn": state.turn_id,
        "request": state.request_message,
        "since": datetime.now(UTC).isoformat(timespec="seconds"),
        "why": why,
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
        "talk": [*iter_talk(state)][-_LINES:],
    }


def list_tried_calls(state: DeskState) -> list[dict[str, Any]]:
    """The newest calls of the conversation with what came of them, by their evidence ids."""
    made = {call["id"]: call for message in state.messages for call in calls_in(message)}
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
        return say("desk_next_decide", call=render_call(put["name"], put["args"]))
    if state.intent == "sensitive":
        return say("desk_next_sensitive")
    if tried and tried[-1]["status"] == "error":
        return say("desk_next_failed", call=render_call(tried[-1]["tool"], tried[-1]["arguments"]))
    if put is not None:
        return say("desk_next_unanswered", call=render_call(put["name"], put["args"]))
    if state.intent in _ACCOUNTS and not state.identity:
        return say("desk_next_verify")
    angry = bool(state.mood) and state.mood[-1]["mood"] in ("angry", "upset")
    return say("desk_next_angry" if angry else "desk_next_answer")


def summarize_packet(packet: Mapping[str, Any]) -> str:
    """The packet in a few lines, for the queue of the humans and for tickets."""
    known = ", ".join(f"{name} {value}" for name, value in packet["known"].items())
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
    return f"{tool}({beginning_of(json.dumps(arguments, ensure_ascii=False), _SHOWN)})"

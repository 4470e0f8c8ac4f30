"""How earlier turns and tasks are shown to a role: words, not the whole transcript."""

from datetime import UTC, datetime
from typing import Any

from ..state.loop import LoopState
from ..state.messages import request_place
from ..state.plan import Task

# What a role sees of earlier turns: enough to follow the talk, small enough to send each time.
TURNS_SHOWN = 20
TEXT_CAP = 4_000


def signature(role: str) -> dict[str, str]:
    """What a message carries beside its words: who wrote it, and when (UTC, ISO 8601)."""
    return {"agent_type": role, "timestamp": datetime.now(UTC).isoformat(timespec="seconds")}


def answer_id(state: LoopState) -> str:
    """The id of this turn's final message."""
    return f"answer-{state.turn}-{state.request_id}"


def conversation_of(state: LoopState) -> list[dict[str, str]]:
    """The talk before the current request as {role, text}; tool traffic is left out."""
    talk = [
        {"role": "user" if m.type == "human" else "assistant", "text": m.text[:TEXT_CAP]}
        for m in state.messages[: max(0, request_place(state.messages, state.request_message))]
        if m.type in {"human", "ai"} and m.text.strip()
    ]
    return talk[-TURNS_SHOWN:]


def task_view(task: Task, *keys: str) -> dict[str, Any]:
    """These fields of a task, in this order, as a role sees it; empty ones are left out."""
    return {key: value for key in keys if (value := task.get(key))}

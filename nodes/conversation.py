"""How earlier turns and tasks are shown to a role: words, not the whole transcript."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from langchain_core.messages import AnyMessage

from ..state.loop import LoopState
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


def conversation_of(messages: Sequence[AnyMessage]) -> list[dict[str, str]]:
    """The talk before the current request as {role, text}; tool traffic is left out."""
    talk = [
        {"role": "user" if m.type == "human" else "assistant", "text": m.text[:TEXT_CAP]}
        for m in messages
        if m.type in {"human", "ai"} and m.text.strip()
    ]
    last_user = max((i for i, turn in enumerate(talk) if turn["role"] == "user"), default=0)
    return talk[:last_user][-TURNS_SHOWN:]


def task_view(task: Task, *keys: str) -> dict[str, Any]:
    """These fields of a task, in this order, as a role sees it; empty ones are left out."""
    return {key: value for key in keys if (value := task.get(key))}

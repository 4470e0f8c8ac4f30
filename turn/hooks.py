"""The hooks at the two ends of a user turn, and what they add to its prompts."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from langchain_core.messages import RemoveMessage
from langgraph.types import Overwrite

from ..hooks.contract import NOTHING, Verdict
from ..hooks.registry import Hooks
from ..state.events import Emit
from ..state.loop import LoopState, LoopUpdate
from .begin import DROPPED, newest_prompt, request_name
from .scope import session

ANSWER_REJECTED: Final = "The answer was rejected by a hook: {reason}"


@dataclass(frozen=True)
class Beginning:
    """What the hooks say of a turn that begins."""

    context: list[str] = field(default_factory=list)
    """Texts for every prompt of the turn."""
    warnings: list[str] = field(default_factory=list)
    """Hooks that failed."""
    refused: str = ""
    """Why the turn must end before it begins."""
    dropped: bool = False
    """The prompt must not be kept either."""


async def begin_turn(prompt: str, hooks: Hooks, emit: Emit) -> Beginning:
    """Ask the BeforeAgent hooks about a prompt, and take along what SessionStart hooks said."""
    opened = session()
    verdict = NOTHING
    if hooks.listens("BeforeAgent"):
        verdict = await hooks.fire("BeforeAgent", emit=emit, prompt=prompt)
    refused = verdict.reason if verdict.blocked else verdict.stop
    return Beginning(
        context=[text for text in (opened.context, verdict.context) if text],
        warnings=[*opened.warnings, *verdict.warnings],
        refused=refused or "",
        dropped=verdict.blocked,
    )


def begun(beginning: Beginning, state: LoopState) -> LoopUpdate:
    """What hooks make of a turn, in whatever graph: texts for its prompts, or its end.

    Args:
        beginning: What they said of it.
        state: Before the turn; a prompt that must not be kept is removed from its messages.
    """
    update = LoopUpdate(hook_context=beginning.context, warnings=Overwrite(beginning.warnings))
    if beginning.refused:
        update["halt"] = "DENIED"
    if beginning.refused and beginning.dropped:
        newest = newest_prompt(state.messages, state.request_message)
        kept = [message for message in state.messages if message is not newest]
        before = newest_prompt(kept, state.request_message)
        update["messages"] = [RemoveMessage(id=str(newest.id))] if newest else []
        update["request_id"] = f"{DROPPED}{request_name(kept, state.request_message)}"
        update["request_message"] = str(before.id) if before else ""
    return update


async def end_turn(prompt: str, answer: str, hooks: Hooks, emit: Emit, *, again: bool) -> Verdict:
    """Ask the AfterAgent hooks about the answer of a turn.

    Args:
        prompt: The user's words.
        answer: What the turn came to.
        hooks: The graph's hooks.
        emit: Takes their events.
        again: They rejected an answer of this turn before.
    """
    if not hooks.listens("AfterAgent"):
        return NOTHING
    return await hooks.fire(
        "AfterAgent", emit=emit, prompt=prompt, prompt_response=answer, stop_hook_active=again
    )


async def notify(
    hooks: Hooks, emit: Emit, kind: str, message: str, details: dict[str, Any]
) -> list[str]:
    """Tell the Notification hooks that a question is about to be put; their failures come back.

    Args:
        hooks: The graph's hooks.
        emit: Takes their events.
        kind: ToolPermission, UserQuestion or PlanReview.
        message: The question in words.
        details: It as data.
    """
    if not hooks.listens("Notification"):
        return []
    told = await hooks.fire(
        "Notification", emit=emit, notification_type=kind, message=message, details=details
    )
    return told.warnings


def hook_notes(context: Sequence[str]) -> str:
    """What hooks add to each prompt: the turn's own, and what the start of this run brought.

    A run that resumes a turn has a SessionStart of its own.
    """
    return "\n\n".join(dict.fromkeys(filter(None, [*context, session().context])))

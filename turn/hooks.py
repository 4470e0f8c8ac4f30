"""The hooks at the two ends of a user turn, and what they add to its prompts."""

from dataclasses import dataclass, field
from typing import Any, Final

from langchain_core.messages import RemoveMessage
from langgraph.types import Overwrite

from ..hooks.contract import NOTHING, Verdict
from ..state.loop import LoopState, LoopUpdate
from .begin import DROPPED, newest_prompt, request_name
from .scope import RunScope

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


async def begin_turn(scope: RunScope, prompt: str) -> Beginning:
    """Ask the BeforeAgent hooks about a prompt, and take along what SessionStart hooks said."""
    opened, verdict = scope.session, NOTHING
    if "BeforeAgent" in scope.hooks.events:
        verdict = await scope.hooks.fire("BeforeAgent", emit=scope.emit, prompt=prompt)
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


async def end_turn(scope: RunScope, prompt: str, answer: str, *, again: bool) -> Verdict:
    """Ask the AfterAgent hooks about the answer of a turn.

    Args:
        scope: The run.
        prompt: The user's words.
        answer: What the turn came to.
        again: They rejected an answer of this turn before.
    """
    if "AfterAgent" not in scope.hooks.events:
        return NOTHING
    fields: dict[str, Any] = {
        "prompt": prompt,
        "prompt_response": answer,
        "stop_hook_active": again,
    }
    return await scope.hooks.fire("AfterAgent", emit=scope.emit, **fields)


async def notify(scope: RunScope, kind: str, message: str, details: dict[str, Any]) -> None:
    """Tell the Notification hooks that a question is about to be put.

    Args:
        scope: The run.
        kind: UserQuestion or PlanReview.
        message: The question in words.
        details: It as data.
    """
    if "Notification" in scope.hooks.events:
        fields: dict[str, Any] = {"notification_type": kind, "message": message, "details": details}
        await scope.hooks.fire("Notification", emit=scope.emit, **fields)

"""How a turn of prompt_flow ended, from what its state holds. Pure."""

from collections.abc import Sequence
from typing import Any, Final

from ...flow.order import in_plan_order
from ...state.evidence import uncertain_calls
from ...state.flow import FlowState, FlowStep
from ...state.outcome import (
    Outcome,
    OutcomeStatus,
    Reason,
    denial,
    judge,
    spend_outcome,
    task_outcomes,
)
from ...state.shortened import beginning_of

_ALL_SHOWN: Final = 32_000
_LEAST_SHOWN: Final = 2_000
_NAMED: Final = 10
# What models write into a list of which they were told to leave it empty.
_NOTHING: Final = frozenset({"", "none", "nothing", "n/a", "null"})
_WHY: Final[dict[str, str]] = {
    "BUDGET": "The allowance was used up before the plan was done.",
    "TIMEOUT": "The time allowed was used up before the plan was done.",
}


def outcome_of(state: FlowState, resume: dict[str, Any] | None, *, answer: str = "") -> Outcome:
    """Build the outcome of a turn.

    Args:
        state: As the last phase left it.
        resume: What a turn that is not complete says about going on.
        answer: The words a model wrote as the answer; '' where none did.
    """
    reason = reason_of(state)
    status = _status(reason, state)
    unmet = [] if status == "complete" else unmet_of_flow(state)
    answer = answer or known_answer(state.todos, unmet)
    return Outcome(
        status=status,
        reason=reason,
        answer=answer or f"Nothing could be done ({reason}).",
        tasks=task_outcomes(in_plan_order(state.todos)),
        unmet=unmet,
        uncertain_calls=uncertain_calls(state.evidence),
        spend=spend_outcome(state.spend, state.allowance),
        models=state.spend.get("models", {}),
        resume=None if status == "complete" else resume,
    )


def reason_of(state: FlowState) -> Reason:
    """Why the turn ended: what halted it, else that all that had to be done is done."""
    if state.halt is None and not all_required_done(state.todos):
        return denial(state.todos) or "ERROR"
    return state.halt or "GOAL"


def all_required_done(steps: Sequence[FlowStep]) -> bool:
    """Whether nothing is left to do that the goal needs; where nothing at all was done, no.

    A step is skipped only where it would need the result of an optional one.
    """
    done = {"completed", "skipped"}
    something = any(s["status"] == "completed" for s in steps)
    return something and all(s["status"] in done or s.get("optional") for s in steps)


def _status(reason: Reason, state: FlowState) -> OutcomeStatus:
    """The status that goes with a reason; what the plan or a run left out counts as not done."""
    if reason == "GOAL":
        return "complete" if everything_done(state) else "partial"
    return judge(reason, state.todos)


def everything_done(state: FlowState) -> bool:
    """Whether all steps completed, optional ones too, and the plan left nothing of the goal out."""
    all_steps = all(step["status"] == "completed" for step in state.todos)
    return all_steps and not _left_out(state)


def _left_out(state: FlowState) -> list[str]:
    parts = state.plan.get("left_out", [])
    return [f"Not planned: {part}" for part in parts if _bare(part) not in _NOTHING]


def _bare(text: str) -> str:
    return text.strip(" .-–—").casefold()  # noqa: RUF001 - dashes on purpose


def unmet_of_flow(state: FlowState) -> list[str]:
    """What was not done: what the phases said, the steps that failed, those that never ran."""
    steps = [s for s in in_plan_order(state.todos) if s["status"] != "completed"]
    ended = [told(s) for s in steps if not _never_ran(s)]
    waiting = [called(s) for s in steps if _never_ran(s)]
    why = [_WHY[reason] for reason in [reason_of(state)] if reason in _WHY]
    fresh = [line for line in ended if not _said(line, state.unmet)]
    lines = [*state.unmet, *fresh, *_not_run(waiting), *_left_out(state), *why]
    return list(dict.fromkeys(lines))


def _said(line: str, before: Sequence[str]) -> bool:
    """Whether a phase has told this already, perhaps with words before it."""
    return any(text.endswith(line) for text in before)


def _never_ran(step: FlowStep) -> bool:
    return step["status"] not in {"failed", "skipped", "cancelled"} and not step.get("feedback")


def _not_run(names: Sequence[str]) -> list[str]:
    """One line for all of them: behind one failure there may be thousands."""
    more = [f"{len(names) - _NAMED} more"] if len(names) > _NAMED else []
    return [f"Not run: {', '.join([*names[:_NAMED], *more])}."] if names else []


def called(step: FlowStep) -> str:
    """A step by its id and what it is for."""
    return f"{step['id']} ({step.get('description') or step.get('tool') or 'step'})"


def told(step: FlowStep) -> str:
    """A step that did not complete, with the reason in its own words."""
    verb = {"failed": "failed", "skipped": "was skipped", "cancelled": "was cancelled"}
    why = step.get("feedback")
    return f"{called(step)} {verb.get(step['status'], 'is not done')}{f': {why}' if why else ''}"


def known_answer(steps: Sequence[FlowStep], unmet: Sequence[str]) -> str:
    """The answer where no model gave one: the last results, cited, and plainly what is missing.

    Args:
        steps: The whole plan; of the completed steps those are shown that no completed one needed.
        unmet: What was not done.
    """
    done = [s for s in in_plan_order(steps) if s["status"] == "completed"]
    last = last_of(done)
    share = max(_LEAST_SHOWN, _ALL_SHOWN // max(1, len(last)))
    parts = [
        f"**{_title(s)}** [{s['id']}]\n\n{beginning_of(s.get('result', ''), share)}" for s in last
    ]
    if unmet:
        parts.append("Not done:\n" + "\n".join(f"- {text}" for text in unmet))
    return "\n\n".join(part.strip() for part in parts)


def last_of(steps: Sequence[FlowStep]) -> list[FlowStep]:
    """Those of the steps that none of them waited for."""
    used = {name for step in steps for name in step.get("depends_on") or []}
    return [step for step in steps if step["id"] not in used]


def _title(step: FlowStep) -> str:
    return step.get("description") or step.get("tool") or step["id"]

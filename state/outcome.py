"""How a run ended: one honest record, the same keys always."""

from collections.abc import Sequence
from typing import Any, Literal

from typing_extensions import TypedDict

from .plan import Task, requested
from .repetition import LOOP_DETECTED
from .spend import Spend

OutcomeStatus = Literal[
    "complete", "partial", "blocked", "exhausted", "stuck", "cancelled", "failed"
]
Reason = Literal[
    "GOAL", "MAX_TURNS", "MAX_ROUNDS", "TIMEOUT", "BUDGET", "MISSING_INFORMATION", "DENIED",
    "NOT_INTERACTIVE", "LOOP_DETECTED", "SAME_PLAN", "SAME_BLOCKERS", "ABORTED", "ERROR",
    "ERROR_NO_COMPLETE_TASK_CALL",
]  # fmt: skip

# Statuses a thread can be taken up from again; a complete one has nothing left to do.
RESUMABLE: frozenset[str] = frozenset(
    {"partial", "blocked", "exhausted", "stuck", "cancelled", "failed"}
)
_BLOCKING = frozenset({"MISSING_INFORMATION", "DENIED", "NOT_INTERACTIVE"})
_NOBODY_TO_ASK = frozenset({"not_interactive", "uncertain"})
_NO_PROGRESS = frozenset({"LOOP_DETECTED", "SAME_PLAN", "SAME_BLOCKERS"})


class TaskOutcome(TypedDict):
    """One task as the outcome lists it."""

    id: str
    description: str
    status: str
    result: str
    evidence: list[str]
    attempts: int
    seconds: float


class Outcome(TypedDict):
    """The end of a run. `resume` says how to go on, None where nothing is left to do."""

    status: OutcomeStatus
    reason: Reason
    answer: str
    tasks: list[TaskOutcome]
    unmet: list[str]
    uncertain_calls: list[dict[str, Any]]
    spend: Spend
    models: dict[str, str]
    resume: dict[str, Any] | None


def judge(reason: Reason, tasks: Sequence[Task]) -> OutcomeStatus:
    """The status that goes with a reason and what was done."""
    if reason == "GOAL":
        asked = requested(tasks)
        done = bool(asked) and all(t["status"] == "completed" for t in asked)
        return "complete" if done else "partial"
    if reason in _BLOCKING:
        return "blocked"
    if reason in _NO_PROGRESS:
        return "stuck"
    if reason == "ABORTED":
        return "cancelled"
    if reason in {"ERROR", "ERROR_NO_COMPLETE_TASK_CALL"}:
        return "failed"
    return "partial" if any(t["status"] == "completed" for t in tasks) else "exhausted"


def denial(tasks: Sequence[Task]) -> Reason | None:
    """Why another plan could not help an unfinished task; None where one might.

    A refused call is NOT_INTERACTIVE or DENIED, one that may have run and that nobody could be
    asked about is NOT_INTERACTIVE, and calls that went round in circles are LOOP_DETECTED.
    """
    reasons = {t.get("denied") for t in requested(tasks) if t["status"] != "completed"} - {None, ""}
    if not reasons:
        return None
    if reasons & _NOBODY_TO_ASK:
        return "NOT_INTERACTIVE"
    return "LOOP_DETECTED" if reasons == {LOOP_DETECTED} else "DENIED"


def task_outcomes(tasks: Sequence[Task]) -> list[TaskOutcome]:
    """The tasks with the keys the outcome promises."""
    return [
        TaskOutcome(
            id=t["id"],
            description=t["description"],
            status=t["status"],
            result=t.get("result", ""),
            evidence=list(t.get("evidence", [])),
            attempts=t.get("attempts", 0),
            seconds=round(t.get("seconds", 0.0), 3),
        )
        for t in tasks
    ]


def unmet_of(tasks: Sequence[Task], improvements: Sequence[str]) -> list[str]:
    """What is missing: unfinished tasks with the reason, then what the verifier asked for."""
    unfinished = [
        f"{t['description']} ({t['status']}{': ' + t['feedback'] if t.get('feedback') else ''})"
        for t in requested(tasks)
        if t["status"] != "completed"
    ]
    return list(dict.fromkeys([*unfinished, *improvements]))


def partial_answer(tasks: Sequence[Task], missing: Sequence[str]) -> str:
    """The answer where no verdict was believed: what is there, and plainly what is not."""
    done = [t for t in tasks if t["status"] == "completed" and t.get("result")]
    parts = [f"**{t['description']}**\n\n{t['result']}" for t in done]
    if missing:
        parts.append("Not done:\n" + "\n".join(f"- {text}" for text in missing))
    return "\n\n".join(parts)


def spend_outcome(spend: Spend, allowance: int) -> Spend:
    """The counters of this turn with all the keys the outcome promises."""
    empty = Spend(
        model_calls=0,
        tool_calls=0,
        input_tokens=0,
        output_tokens=0,
        seconds=0.0,
        by_role={},
        by_model={},
        allowance=allowance,
    )
    counted = {key: value for key, value in spend.items() if key in empty}
    return Spend(**{**empty, **counted})  # type: ignore[typeddict-item]  # its own keys

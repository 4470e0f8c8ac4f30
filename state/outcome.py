"""How a run ended: one honest record, the same keys always."""

from typing import Any, Literal

from typing_extensions import TypedDict

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

"""How a turn ended: status and reason, decided once for every graph, from plain facts. Pure."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ..state.calls import Evidence
from ..state.outcome import Outcome, OutcomeStatus, Reason, Spend, TaskOutcome
from ..state.plan import Task, requested
from ..state.repetition import LOOP_DETECTED

_STATUS: Final[dict[Reason, OutcomeStatus]] = {
    "MISSING_INFORMATION": "blocked",
    "DENIED": "blocked",
    "NOT_INTERACTIVE": "blocked",
    "LOOP_DETECTED": "stuck",
    "SAME_PLAN": "stuck",
    "SAME_BLOCKERS": "stuck",
    "ABORTED": "cancelled",
    "ERROR": "failed",
    "ERROR_NO_COMPLETE_TASK_CALL": "failed",
}
"""Of the reasons that leave no choice; the others are the goal and the limits."""

_LIMITS: Final[dict[str, str]] = {
    "MAX_TURNS": "The limit of iterations was reached before the request was done.",
    "BUDGET": "The allowance was used up before the request was done.",
    "TIMEOUT": "The time allowed was used up before the request was done.",
}
_SHOWN: Final = 500
_NOBODY_TO_ASK: Final = frozenset({"not_interactive", "uncertain"})


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What a graph knows of a turn that ends.

    Attributes:
        halt: What ended it before its goal.
        done: Whoever judges the work holds all of it for done and proven.
        refused: Why calls were not run that somebody had to allow, if there are any.
        unmet: What was not done although it was asked for.
        tasks: The tasks or steps, in the order in which they are listed.
        evidence: The calls, and the reports of tasks without calls.
        uncertain: Calls of which nobody knows whether they took effect.
        doubts: Those of them that nobody has judged.
        answer: The words that a model wrote as the answer; "" where none did.
        results: What there is to show where there is no such answer.
        message: Id of the final message.
        kept: What a resume does not do again, in words.
    """

    halt: Reason | None = None
    done: bool = False
    refused: Reason | None = None
    unmet: Sequence[str] = ()
    tasks: Sequence[Task] = ()
    evidence: Sequence[Evidence] = ()
    uncertain: Sequence[dict[str, Any]] = ()
    doubts: Sequence[dict[str, Any]] = ()
    answer: str = ""
    results: Sequence[str] = ()
    message: str = ""
    kept: str = ""

    @property
    def succeeded(self) -> bool:
        """Whether at least one call or task succeeded; a task's own report is no call."""
        called = any(r["tool"] is not None and r["status"] == "success" for r in self.evidence)
        return called or any(task["status"] == "completed" for task in self.tasks)

    @property
    def end(self) -> tuple[OutcomeStatus, Reason]:
        """Status and reason."""
        complete = self.done and not (self.unmet or self.doubts)
        return decide(
            self.halt, complete=complete, succeeded=self.succeeded, refused=self.refused,
            uncertain=bool(self.uncertain or self.doubts),
        )  # fmt: skip


def decide(
    halt: Reason | None,
    *,
    complete: bool,
    succeeded: bool,
    refused: Reason | None = None,
    uncertain: bool = False,
) -> tuple[OutcomeStatus, Reason]:
    """The status and the reason of a turn.

    | status | when |
    |---|---|
    | complete | nothing halted it, all is done and proven, and no call is in doubt |
    | partial | it ended by itself or by a limit, and at least one call or task succeeded |
    | exhausted | a limit ended it, and none succeeded |
    | blocked, stuck, cancelled, failed | as the reason says |

    Args:
        halt: What ended it before its goal; a turn without ended by itself.
        complete: Whether all that was asked is done and proven.
        succeeded: Whether at least one call or task succeeded.
        refused: Why calls were not run that somebody had to allow, if there are any.
        uncertain: Whether it is not known of a call if it took effect.
    """
    if halt is None and complete:
        return "complete", "GOAL"
    itself: Reason = refused or ("MISSING_INFORMATION" if uncertain else "SAME_BLOCKERS")
    reason = halt or ("GOAL" if succeeded else itself)
    limited: OutcomeStatus = "partial" if succeeded else "exhausted"
    return _STATUS.get(reason, limited), reason


def refusal(reasons: set[str]) -> Reason | None:
    """The reason of a turn whose calls were refused with these; None where there are none."""
    if not reasons:
        return None
    return "NOT_INTERACTIVE" if reasons & _NOBODY_TO_ASK else "DENIED"


def denial(tasks: Sequence[Task]) -> Reason | None:
    """Why another plan could not help an unfinished task; None where one might.

    A refused call is NOT_INTERACTIVE or DENIED, one that may have run and that nobody could be
    asked about is NOT_INTERACTIVE, and calls that went round in circles are LOOP_DETECTED.
    """
    said = {str(t.get("denied") or "") for t in requested(tasks) if t["status"] != "completed"}
    return "LOOP_DETECTED" if said - {""} == {LOOP_DETECTED} else refusal(said - {""})


def outcome_of(
    facts: Facts, *, spend: Spend, allowance: int, resume: dict[str, Any] | None
) -> Outcome:
    """The outcome of a turn.

    Args:
        facts: What the graph knows of it.
        spend: What it used.
        allowance: How often its request was given its limits.
        resume: What a turn that is not complete says about going on.
    """
    status, reason = facts.end
    complete, unmet = status == "complete", unmet_of(facts)
    answer = facts.answer or known_answer(facts.results, unmet)
    return Outcome(
        status=status,
        reason=reason,
        answer=answer or f"Nothing could be done ({reason}).",
        tasks=[_listed(task) for task in facts.tasks],
        unmet=unmet,
        uncertain_calls=list(facts.uncertain),
        spend=_counted(spend, allowance),
        models=spend.get("models", {}),
        resume=None if complete else resume,
    )


def unmet_of(facts: Facts) -> list[str]:
    """What a turn did not do, what is not known, and the limit that kept it from more."""
    doubts = [f"It is not known whether {called(call)} took effect." for call in facts.doubts]
    why = _LIMITS.get(facts.halt or "")
    return list(dict.fromkeys([*facts.unmet, *doubts, *([why] if why else [])]))


def called(record: Mapping[str, Any]) -> str:
    """A call in words."""
    arguments = json.dumps(record["arguments"], ensure_ascii=False)
    return f"{record['tool']}({arguments[:_SHOWN]})"


def known_answer(results: Sequence[str], unmet: Sequence[str]) -> str:
    """The answer where no model gave one: what is there, and plainly what is not."""
    missing = ["Not done:\n" + "\n".join(f"- {text}" for text in unmet)] if unmet else []
    return "\n\n".join(text.strip() for text in [*results, *missing])


def _listed(task: Task) -> TaskOutcome:
    return TaskOutcome(
        id=task["id"],
        description=task["description"],
        status=task["status"],
        result=task.get("result", ""),
        evidence=list(task.get("evidence", [])),
        attempts=task.get("attempts", 0),
        seconds=round(task.get("seconds", 0.0), 3),
    )


def _counted(spend: Spend, allowance: int) -> Spend:
    """The counters of a turn, with all the keys that an outcome promises."""
    empty = Spend(
        model_calls=0, tool_calls=0, input_tokens=0, output_tokens=0, seconds=0.0, by_role={},
        by_model={}, allowance=allowance,
    )  # fmt: skip
    counted = {key: value for key, value in spend.items() if key in empty}
    return Spend(**{**empty, **counted})  # type: ignore[typeddict-item]  # its own keys

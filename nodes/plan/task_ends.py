"""How a task's attempt ended, as JSON that survives a crash, and what the ends add up to. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from typing_extensions import TypedDict

from ...state.calls import Evidence, report_of
from ...state.contracts import TaskStatus
from ...state.loop import PlanUpdate
from ...state.outcome import Spend
from ...state.plan import Task, apply_wishes


class TaskEnd(TypedDict):
    """The end of one attempt at a task. `rounds`, `attempts` and `seconds` count all attempts."""

    id: str
    description: str
    status: TaskStatus
    result: str
    feedback: str
    denied: str
    rounds: int
    rounds_this_turn: int
    attempts: int
    seconds: float
    evidence: list[Evidence]
    wishes: dict[str, str]
    spend: Spend
    warnings: list[str]


def end_of(task: Task, final: Mapping[str, Any], seconds: float = 0.0) -> TaskEnd:
    """Read the end of an attempt from the executor graph's final state."""
    rounds = final.get("round", 0)
    status = final["status"]
    return TaskEnd(
        id=task["id"],
        description=task["description"],
        status=status,
        result=final.get("result", ""),
        feedback=final.get("feedback", ""),
        denied="" if status == "completed" else final.get("denied", ""),
        rounds=task.get("rounds", 0) + rounds,
        rounds_this_turn=task.get("rounds_this_turn", 0) + rounds,
        attempts=task.get("attempts", 0) + (1 if rounds else 0),
        seconds=task.get("seconds", 0.0) + seconds,
        evidence=final.get("evidence", []),
        wishes=final.get("wishes", {}),
        spend=final.get("spend", {}),
        warnings=final.get("warnings", []),
    )


def carried(task: Task) -> TaskEnd:
    """The end of a task that was done before this pass."""
    return end_of(task, {"status": task["status"], "result": task.get("result", "")})


def results_for(task: Task, ends: Sequence[TaskEnd]) -> list[dict[str, str]]:
    """The results a task builds on: its dependencies', or all earlier ones in a sequential plan."""
    wanted = task.get("depends_on")
    return [
        {"id": end["id"], "description": end["description"], "result": end["result"]}
        for end in ends
        if end["status"] == "completed" and (wanted is None or end["id"] in wanted)
    ]


def missing_for(task: Task, ends: Sequence[TaskEnd]) -> list[str]:
    """The dependencies of a task that did not come to an end it can build on."""
    status = {end["id"]: end["status"] for end in ends}
    return [
        i for i in task.get("depends_on") or [] if status.get(i) not in {"completed", "skipped"}
    ]


def gathered(tasks: Sequence[Task], ends: Sequence[TaskEnd]) -> PlanUpdate:
    """What the ends of a pass change in the run: tasks, evidence and warnings."""
    ended = {end["id"] for end in ends}
    wishes = {i: status for end in ends for i, status in end["wishes"].items()}
    return PlanUpdate(
        todos=[
            *(_as_task(end) for end in ends),
            *apply_wishes([t for t in tasks if t["id"] not in ended], wishes),
        ],
        evidence=[record for end in ends for record in _evidence(end)],
        warnings=[text for end in ends for text in end["warnings"]],
    )


def _as_task(end: TaskEnd) -> Task:
    return Task(
        id=end["id"],
        status=end["status"],
        result=end["result"],
        feedback=end["feedback"],
        denied=end["denied"],
        rounds=end["rounds"],
        rounds_this_turn=end["rounds_this_turn"],
        attempts=end["attempts"],
        seconds=end["seconds"],
        evidence=[record["id"] for record in _evidence(end) if record["status"] == "success"],
    )


def _evidence(end: TaskEnd) -> list[Evidence]:
    """A task's calls; one that made none has its report, if it made one."""
    if end["evidence"] or not end["result"]:
        return end["evidence"]
    return [report_of(end["id"], end["result"], completed=end["status"] == "completed")]

"""What the live view shows, kept up to date event by event. Pure: no terminal here."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ..state.statuses import TRANSITIONS
from .text import call_text, clean, short

FINISHED: Final = frozenset({"completed", "skipped"})
ENDED: Final = FINISHED | {"failed", "blocked", "cancelled"}
CALL_ENDED: Final = frozenset(status for status, after in TRANSITIONS.items() if not after)
CALL_SHOWN: Final = CALL_ENDED | {"executing", "awaiting_approval"}
"""The states of a call that a reader is told; the others pass at once."""
_ROLE_WORDS: Final = {
    "planner": "planning",
    "executor": "working",
    "verifier": "checking the results",
    "thought": "thinking",
    "action": "choosing the next step",
    "observation": "looking at the results",
    "flow_planner": "planning",
    "recovery": "looking for another way",
    "answerer": "writing the answer",
}
_SPENT: Final = ("model_calls", "tool_calls", "input_tokens", "output_tokens")


@dataclass
class TaskLine:
    """One task, or one step of a plan of tool calls, as shown.

    Attributes:
        description: What it is for.
        status: Its status in the plan.
        note: Why it failed.
        tool: What a step calls; "" in a task.
        after: Ids of what a step must wait for.
        attempts: How many calls a step has made, the running one included.
        seconds: How long they took.
        asks: A human must allow its call first.
    """

    description: str = ""
    status: str = "pending"
    note: str = ""
    tool: str = ""
    after: tuple[str, ...] = ()
    attempts: int = 0
    seconds: float = 0.0
    asks: bool = False


@dataclass
class StepLine:
    """One call of a graph without tasks, or (`status` "") what was observed after some."""

    text: str
    status: str = ""


@dataclass
class Board:
    """The state of the view."""

    tasks: dict[str, TaskLine] = field(default_factory=dict)
    calls: dict[str, StepLine] = field(default_factory=dict)
    steps: list[StepLine] = field(default_factory=list)
    phase: str = "starting"
    spend: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_SPENT, 0))
    warnings: list[str] = field(default_factory=list)
    stopping: bool = False

    @property
    def percent(self) -> int:
        """How much of the plan is finished, in percent; failed tasks are not."""
        done = sum(task.status in FINISHED for task in self.tasks.values())
        return 100 * done // len(self.tasks) if self.tasks else 0

    @property
    def noun(self) -> str:
        """What the parts of the plan are called."""
        return "step" if any(task.tool for task in self.tasks.values()) else "task"

    @property
    def working(self) -> bool:
        """Whether a step is running: others that could begin then wait for it, or for a slot."""
        return any(task.status == "in_progress" for task in self.tasks.values())

    def waits_for(self, task: TaskLine) -> list[str]:
        """What a step that has not begun must still wait for."""
        known = {name: self.tasks[name] for name in task.after if name in self.tasks}
        return [name for name, other in known.items() if other.status not in FINISHED]

    def begin(self, values: Mapping[str, Any]) -> None:
        """Take over what a saved thread has already done; what was cut off is open again."""
        if values.get("outcome"):
            return
        self.put_tasks(values.get("todos") or ())
        if not self.tasks:
            self.steps = [
                StepLine(call_text(r["tool"], r.get("arguments")), str(r.get("status")))
                for r in values.get("evidence") or ()
            ]
        for key in _SPENT:
            self.spend[key] += int((values.get("spend") or {}).get(key, 0))

    def put_tasks(self, todos: Iterable[Any]) -> None:
        """Update tasks by id with whichever fields are given; unknown ids are new tasks."""
        for todo in todos:
            if not isinstance(todo, Mapping) or "id" not in todo:
                continue
            task = self.tasks.setdefault(str(todo["id"]), TaskLine())
            task.description = str(todo.get("description", task.description))
            task.status = str(todo.get("status", task.status))
            task.note = "" if task.status == "completed" else str(todo.get("feedback", task.note))
            if "tool" in todo:
                task.tool = str(todo["tool"])
                task.after = tuple(map(str, todo.get("depends_on") or ()))
            task.attempts = int(todo.get("attempts", task.attempts))
            task.seconds = float(todo.get("seconds", task.seconds))

    def apply(self, event: Mapping[str, Any]) -> None:
        """Take in one progress event; unknown ones change nothing."""
        act = getattr(self, f"_on_{event.get('type')}", None)
        if act is not None:
            act(event)

    def _on_phase(self, event: Mapping[str, Any]) -> None:
        role = str(event.get("role", ""))
        self.phase = _ROLE_WORDS.get(role, role)
        if event.get("iteration"):
            self.phase += f", iteration {event['iteration']}"

    def _on_plan(self, event: Mapping[str, Any]) -> None:
        self.tasks = {}
        self.put_tasks(event.get("todos") or ())

    def _on_task(self, event: Mapping[str, Any]) -> None:
        self.put_tasks([event])

    def _on_prompt_flow_step_start(self, event: Mapping[str, Any]) -> None:
        self.phase = "working"
        begun = {"id": event.get("step_id"), "status": "in_progress"}
        self.put_tasks([begun | {"attempts": event.get("attempt", 1)}])

    def _on_prompt_flow_step_result(self, event: Mapping[str, Any]) -> None:
        self.put_tasks([{**event, "id": event.get("step_id"), "feedback": event.get("output", "")}])

    def _on_flaws(self, event: Mapping[str, Any]) -> None:
        self._warn(f"the plan could not run and is mended: {flaws_text(event)}")

    def _on_recovery(self, event: Mapping[str, Any]) -> None:
        self._warn(recovery_text(event))

    def _on_tool_call(self, event: Mapping[str, Any]) -> None:
        call, status = str(event.get("id")), str(event.get("status"))
        step = StepLine(call_text(event.get("tool"), event.get("arguments")), status)
        if (task := self.tasks.get(str(event.get("task")))) is not None:
            task.asks = status == "awaiting_approval"
        if status not in CALL_ENDED:
            self.calls[call] = step
            return
        before = self.calls.pop(call, None)
        self.spend["tool_calls"] += before is not None and before.status == "executing"
        if not self.tasks:
            self.steps.append(step)

    def _on_observation(self, event: Mapping[str, Any]) -> None:
        self.steps.append(StepLine(short(event.get("text", ""), 300)))

    def _on_model(self, event: Mapping[str, Any]) -> None:
        self.spend["model_calls"] += int(event.get("asks", 1))
        for key in ("input_tokens", "output_tokens"):
            self.spend[key] += int(event.get(key, 0))

    def _on_warning(self, event: Mapping[str, Any]) -> None:
        self._warn(event.get("text"))

    def _on_retry(self, event: Mapping[str, Any]) -> None:
        self._warn(retry_text(event))

    def _on_fallback(self, event: Mapping[str, Any]) -> None:
        self._warn(fallback_text(event))

    def _on_budget(self, event: Mapping[str, Any]) -> None:
        self._warn(budget_text(event))

    def _on_outcome(self, event: Mapping[str, Any]) -> None:
        self.phase = str(event.get("status"))
        self.calls = {}

    def _warn(self, text: object) -> None:
        sentence = short(text, 300)
        if sentence not in self.warnings:
            self.warnings.append(sentence)


def flaws_text(event: Mapping[str, Any]) -> str:
    """What is wrong with a plan, in a line."""
    return "; ".join(map(str, event.get("findings") or ()))


def recovery_text(event: Mapping[str, Any]) -> str:
    """One line on what is done about steps that failed."""
    named = ", ".join(map(str, event.get("steps") or ()))
    return f"{named} failed, {event.get('strategy')}: {event.get('reason')}"


def retry_text(event: Mapping[str, Any]) -> str:
    """One line on a model call that is tried again."""
    return (
        f"{event.get('model')} ({event.get('role')}) failed, retry {event.get('attempt')} in"
        f" {float(event.get('delay', 0)):.1f} s: {clean(event.get('error', ''))}"
    )


def fallback_text(event: Mapping[str, Any]) -> str:
    """One line on a model that answers in another's place."""
    failed = f"{event.get('model')} ({event.get('role')}) failed: {clean(event.get('error', ''))}"
    return f"{failed}; asking {event.get('to')} instead"


def budget_text(event: Mapping[str, Any]) -> str:
    """One line on an allowance that runs out."""
    used, limit = float(event.get("used", 0)), float(event.get("of", 0))
    return f"{used:,.0f} of {limit:,.0f} {event.get('limit')} are used"

"""What the events of a run say: a line each, and the board that a live view draws. No terminal."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ..state.roles import ROLES
from ..state.statuses import TRANSITIONS
from .output import call_text, clean, plural, short

FINISHED: Final = frozenset({"completed", "skipped"})
ENDED: Final = FINISHED | {"failed", "blocked", "cancelled"}
_CALL_ENDED: Final = frozenset(status for status, after in TRANSITIONS.items() if not after)
_CALL_SHOWN: Final = _CALL_ENDED | {"executing", "awaiting_approval"}
"""The states of a call that a reader is told; the others pass at once."""
_SPENT: Final = ("model_calls", "tool_calls", "input_tokens", "output_tokens")
_WIDTH: Final = 160
_WARNING_WIDTH: Final = 500
"""Warnings end with what to do: that must not be cut off."""

Event = Mapping[str, Any]


def line_of(event: Event) -> str | None:
    """The line for an event; None for those that say nothing to a reader."""
    kind = str(event.get("type"))
    if kind in _WARNINGS:
        return short(f"warning: {_WARNINGS[kind](event)}", _WARNING_WIDTH)
    line = _LINES[kind](event) if kind in _LINES else ""
    return short(line, _WIDTH) if line else None


def spend_text(spend: Mapping[str, Any]) -> str:
    """What a run has used, in words."""
    tokens = spend.get("input_tokens", 0) + spend.get("output_tokens", 0)
    calls = [plural(spend.get(f"{kind}_calls", 0), f"{kind} call") for kind in ("model", "tool")]
    return " · ".join([*calls, plural(tokens, "token")])


def _retry(event: Event) -> str:
    return (
        f"{event.get('model')} ({event.get('role')}) failed, retry {event.get('attempt')} in"
        f" {float(event.get('delay', 0)):.1f} s: {clean(event.get('error', ''))}"
    )


def _fallback(event: Event) -> str:
    failed = f"{event.get('model')} ({event.get('role')}) failed: {clean(event.get('error', ''))}"
    return f"{failed}; asking {event.get('to')} instead"


def _budget(event: Event) -> str:
    used, limit = float(event.get("used", 0)), float(event.get("of", 0))
    return f"{used:,.0f} of {limit:,.0f} {event.get('limit')} are used"


def _flaws(event: Event) -> str:
    return "; ".join(map(str, event.get("findings") or ()))


def _recovery(event: Event) -> str:
    named = ", ".join(map(str, event.get("steps") or ()))
    return f"{named} failed, {event.get('strategy')}: {event.get('reason')}"


def _phase(event: Event) -> str:
    if event.get("iteration"):
        return f"{event.get('role')}: iteration {event['iteration']}"
    place = f"task {event['task']}, " if event.get("task") else ""
    return f"{event.get('role')}: {place}round {event.get('round')}"


def _plan(event: Event) -> str:
    todos = event.get("todos") or []
    noun = "step" if any("tool" in todo for todo in todos) else "task"
    return f"plan: {plural(len(todos), noun)}: {'; '.join(map(_planned, todos))}"


def _planned(todo: Mapping[str, Any]) -> str:
    """A task by its words; a step also by what it waits for, which is what makes the plan."""
    named = f"{todo.get('id')} {todo.get('description') or todo.get('tool')}"
    after = ", ".join(map(str, todo.get("depends_on") or ())) if "tool" in todo else ""
    return f"{named} (after {after})" if after else named


def _step_start(event: Event) -> str:
    attempt = int(event.get("attempt") or 1)
    again = f", attempt {attempt}" if attempt > 1 else ""
    return f"step {event.get('step_id')} begins{again}: {event.get('description')}"


def _step_result(event: Event) -> str:
    """How a step ended; what it gave stands in the line of its call."""
    seconds = float(event.get("seconds") or 0)
    spent = f"{plural(int(event.get('attempts') or 0), 'attempt')}, {seconds:.1f} s"
    why = "" if event.get("success") else f": {clean(event.get('output', ''))}"
    return f"step {event.get('step_id')} {event.get('status')} ({spent}){why}"


def _call(event: Event) -> str:
    status = str(event.get("status"))
    if status not in _CALL_SHOWN:
        return ""
    if status not in _CALL_ENDED:
        waits = "" if status == "executing" else "awaiting approval: "
        return f"call {event.get('id')} {waits}{_called(event, 90)}"
    how = ", ".join(str(event[key]) for key in ("status", "reason") if event.get(key))
    if event.get("reused_from"):
        how = f"{status}, reused from {event['reused_from']}"
    seconds = float(event.get("seconds") or 0)
    return f"call {event.get('id')} {how} ({seconds:.1f} s): {clean(event.get('result', ''))}"


def _called(event: Event, limit: int = 100) -> str:
    return call_text(event.get("tool"), event.get("arguments"), limit)


def _model(event: Event) -> str:
    tokens = f"{event.get('input_tokens', 0)} tokens in, {event.get('output_tokens', 0)} out"
    return f"{event.get('role')} asked {event.get('model')}: {tokens}"


def _verdict(event: Event) -> str:
    improvements = "; ".join(map(str, event.get("improvements") or ()))
    return "verdict: passed" if event.get("passed") else f"verdict: not yet: {improvements}"


_WARNINGS: Final[Mapping[str, Callable[[Event], str]]] = {
    "warning": lambda event: str(event.get("text")),
    "retry": _retry,
    "fallback": _fallback,
    "budget": _budget,
}
_LINES: Final[Mapping[str, Callable[[Event], str]]] = {
    "phase": _phase,
    "plan": _plan,
    "task": lambda e: f"task {e.get('id')} {e.get('status')}: {e.get('description')}",
    "prompt_flow_step_start": _step_start,
    "prompt_flow_step_result": _step_result,
    "flaws": lambda event: f"flaws: round {event.get('round')}: {_flaws(event)}",
    "recovery": lambda event: f"recovery: {_recovery(event)}",
    "tool_call": _call,
    "observation": lambda event: f"observation: {event.get('text')}",
    "model": _model,
    "verdict": _verdict,
    "outcome": lambda event: f"outcome: {event.get('status')} ({event.get('reason')})",
}


@dataclass
class Task:
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

    def put(self, todo: Mapping[str, Any]) -> None:
        """Take over whichever fields are given."""
        self.description = str(todo.get("description", self.description))
        self.status = str(todo.get("status", self.status))
        self.note = "" if self.status == "completed" else str(todo.get("feedback", self.note))
        self.tool = str(todo.get("tool", self.tool))
        if "tool" in todo:
            self.after = tuple(map(str, todo.get("depends_on") or ()))
        self.attempts = int(todo.get("attempts", self.attempts))
        self.seconds = float(todo.get("seconds", self.seconds))


@dataclass
class Step:
    """One call of a graph without tasks, or (`status` "") what was observed after some."""

    text: str
    status: str = ""


@dataclass
class Board:
    """What a live view shows, kept up to date event by event."""

    tasks: dict[str, Task] = field(default_factory=dict)
    calls: dict[str, Step] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    phase: str = "starting"
    spend: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_SPENT, 0))
    warnings: list[str] = field(default_factory=list)
    stopping: bool = False

    def begin(self, values: Mapping[str, Any]) -> None:
        """Take over what a saved thread has already done; what was cut off is open again."""
        if values.get("outcome"):
            return
        self._put(values.get("todos") or ())
        if not self.tasks:
            made = values.get("evidence") or ()
            self.steps = [Step(_called(record), str(record.get("status"))) for record in made]
        for key in _SPENT:
            self.spend[key] += int((values.get("spend") or {}).get(key, 0))

    def apply(self, event: Event) -> None:
        """Take in one event; unknown ones change nothing."""
        kind = str(event.get("type"))
        act = getattr(self, f"_on_{kind}", None)
        if act is not None:
            act(event)
        elif kind in _WARNINGS:
            self._warn(_WARNINGS[kind](event))

    def _put(self, todos: Iterable[Any]) -> None:
        """Update tasks by id; unknown ids are new tasks."""
        for todo in todos:
            if isinstance(todo, Mapping) and "id" in todo:
                self.tasks.setdefault(str(todo["id"]), Task()).put(todo)

    def _warn(self, text: str) -> None:
        sentence = short(text, 300)
        if sentence not in self.warnings:
            self.warnings.append(sentence)

    def _on_phase(self, event: Event) -> None:
        role = str(event.get("role", ""))
        self.phase = ROLES[role].label if role in ROLES else role
        if event.get("iteration"):
            self.phase += f", iteration {event['iteration']}"

    def _on_plan(self, event: Event) -> None:
        self.tasks = {}
        self._put(event.get("todos") or ())

    def _on_tasks(self, event: Event) -> None:
        """Tasks as the state now has them."""
        self._put(event.get("todos") or ())

    def _on_task(self, event: Event) -> None:
        self._put([event])

    def _on_prompt_flow_step_start(self, event: Event) -> None:
        self.phase = "working"
        begun = {"id": event.get("step_id"), "status": "in_progress"}
        self._put([begun | {"attempts": event.get("attempt", 1)}])

    def _on_prompt_flow_step_result(self, event: Event) -> None:
        self._put([{**event, "id": event.get("step_id"), "feedback": event.get("output", "")}])

    def _on_flaws(self, event: Event) -> None:
        self._warn(f"the plan could not run and is mended: {_flaws(event)}")

    def _on_recovery(self, event: Event) -> None:
        self._warn(_recovery(event))

    def _on_tool_call(self, event: Event) -> None:
        call, status = str(event.get("id")), str(event.get("status"))
        if (task := self.tasks.get(str(event.get("task")))) is not None:
            task.asks = status == "awaiting_approval"
        step = Step(_called(event), status)
        if status not in _CALL_ENDED:
            self.calls[call] = step
            return
        before = self.calls.pop(call, None)
        self.spend["tool_calls"] += before is not None and before.status == "executing"
        if not self.tasks:
            self.steps.append(step)

    def _on_observation(self, event: Event) -> None:
        self.steps.append(Step(short(event.get("text", ""), 300)))

    def _on_model(self, event: Event) -> None:
        self.spend["model_calls"] += int(event.get("asks", 1))
        for key in ("input_tokens", "output_tokens"):
            self.spend[key] += int(event.get(key, 0))

    def _on_outcome(self, event: Event) -> None:
        self.phase = str(event.get("status"))
        self.calls = {}

"""What the events of a run say: a line each, and the board that a live view draws. No terminal."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from ..state.calls import TRANSITIONS, step_of
from ..state.roles import ROLES
from ..stream.views import told_of_part
from ..text.units import plural
from .terminal import call_text, short

UNFINISHED: Final = frozenset({"pending", "in_progress"})
_CALL_ENDED: Final = frozenset(status for status, after in TRANSITIONS.items() if not after)
_CALL_SHOWN: Final = _CALL_ENDED | {"executing", "awaiting_approval"}
"""The states of a call that a reader is told; the others pass at once."""
_SPENT: Final = ("model_calls", "tool_calls", "input_tokens", "output_tokens", "usd")
_WIDTH: Final = 160
_WARNING_WIDTH: Final = 500
"""Warnings end with what to do: that must not be cut off."""

Event = Mapping[str, Any]


def line_of(event: Event) -> str | None:
    """The line for an event; None for those that say nothing to a reader."""
    kind = str(event.get("type"))
    if kind in _WARNINGS:
        return short(f"warning: {_WARNINGS[kind](event)}", _WARNING_WIDTH)
    if kind in _NOTES:
        return short(f"{kind}: {_NOTES[kind](event)}", _WIDTH)
    line = _LINES[kind](event) if kind in _LINES else ""
    return short(line, _WIDTH) if line else None


def spend_text(spend: Mapping[str, Any]) -> str:
    """What a run has used, in words."""
    tokens = spend.get("input_tokens", 0) + spend.get("output_tokens", 0)
    calls = [plural(spend.get(f"{kind}_calls", 0), f"{kind} call") for kind in ("model", "tool")]
    return " · ".join([*calls, plural(tokens, "token"), *filter(None, [dollars(spend.get("usd"))])])


def dollars(usd: float | None) -> str:
    """An amount of money; nothing where none is spent, or nobody knows."""
    return f"${usd:,.4f}" if usd else ""


def _says(template: str) -> Callable[[Event], str]:
    """A sentence about an event; a field that is missing is 0, which fits a word and a number."""
    return lambda event: template.format_map(defaultdict(int, event))


def _listed(parts: Iterable[Any] | None, between: str = "; ") -> str:
    return between.join(map(str, parts or ()))


def _flaws(event: Event) -> str:
    return f"the plan could not run and is mended: {_listed(event.get('findings'))}"


def _recovery(event: Event) -> str:
    named = _listed(event.get("steps"), ", ")
    return f"{named} failed, {event.get('strategy')}: {event.get('reason')}"


def _phase(event: Event) -> str:
    if event.get("iteration"):
        return f"{event.get('role')}: iteration {event['iteration']}"
    place = f"task {event['task']}, " if event.get("task") else ""
    return f"{event.get('role')}: {place}round {event.get('round')}"


def _plan(event: Event) -> str:
    todos = event.get("todos") or []
    noun = "step" if any("tool" in todo for todo in todos) else "task"
    return f"plan: {plural(len(todos), noun)}: {_listed(map(_planned, todos))}"


def _todos(event: Event) -> str:
    now = [todo for todo in event.get("todos") or [] if todo.get("status") == "in_progress"]
    told = f": {now[0].get('description')}" if now else ""
    return f"to-dos: {event.get('done')} of {event.get('total')} done{told}"


def _planned(todo: Mapping[str, Any]) -> str:
    """A task by its words; a step also by what it waits for, which is what makes the plan."""
    named = f"{todo.get('id')} {todo.get('description') or todo.get('tool')}"
    after = _listed(todo.get("depends_on"), ", ") if "tool" in todo else ""
    return f"{named} (after {after})" if after else named


def _step_start(event: Event) -> str:
    attempt = int(event.get("attempt") or 1)
    again = f", attempt {attempt}" if attempt > 1 else ""
    return f"step {event.get('step_id')} begins{again}: {event.get('description')}"


def _step_item(event: Event) -> str:
    how = "done" if event.get("success") else "failed"
    return f"step {event.get('step_id')} item {event.get('item')} {how} ({items_text(event)})"


def items_text(task: Mapping[str, Any]) -> str:
    """How many of a step's items are done, as "3/20"; '' where it has none.

    An event counts them; a saved step has them themselves.
    """
    items = task.get("items")
    if not isinstance(items, list):
        return f"{task.get('done', 0)}/{items}" if items else ""
    done = sum(item.get("status") == "completed" for item in items)
    return f"{done}/{len(items)}" if items else ""


def _step_result(event: Event) -> str:
    """How a step ended; what it gave stands in the line of its call."""
    spent = f"{plural(int(event.get('attempts') or 0), 'attempt')}, {_seconds(event)}"
    why = "" if event.get("success") else f": {event.get('output', '')}"
    return f"step {event.get('step_id')} {event.get('status')} ({spent}){why}"


def _seconds(event: Event) -> str:
    return f"{float(event.get('seconds') or 0):.1f} s"


def _call(event: Event) -> str:
    status = str(event.get("status"))
    if status not in _CALL_SHOWN:
        return ""
    if status not in _CALL_ENDED:
        waits = "" if status == "executing" else "awaiting approval: "
        return f"call {event.get('id')} {waits}{_called(event, 90)}"
    how = _listed((event[key] for key in ("status", "reason") if event.get(key)), ", ")
    if event.get("reused_from"):
        how = f"{status}, reused from {event['reused_from']}"
    return f"call {event.get('id')} {how} ({_seconds(event)}): {event.get('result', '')}"


def _called(event: Event, limit: int = 100) -> str:
    return call_text(event.get("tool"), event.get("arguments"), limit)


def _verdict(event: Event) -> str:
    told = "passed" if event.get("passed") else f"not yet: {_listed(event.get('improvements'))}"
    return f"verdict: {told}"


_WARNINGS: Final = {
    "warning": _says("{text}"),
    "retry": _says("{model} ({role}) failed, retry {attempt} in {delay:.1f} s: {error}"),
    "fallback": _says("{model} ({role}) failed: {error}; asking {to} instead"),
    "budget": _says("{used:,.10g} of {of:,.10g} {limit} are used"),
}
_NOTES: Final = {
    "flaws": _flaws,
    "recovery": _recovery,
    "route": _says("{graph} has the request: {why}"),
    "not_enough": _says("not enough for an answer, more is planned: {missing}"),
}
"""What a plain view has under the name of the event, and a live one among the warnings."""
_LINES: Final = {
    "task": _says("task {id} {status}: {description}"),
    "observation": _says("observation: {text}"),
    "model": _says("{role} asked {model}: {input_tokens} tokens in, {output_tokens} out"),
    "outcome": _says("outcome: {status} ({reason})"),
    "phase": _phase,
    "plan": _plan,
    "todos": _todos,
    "prompt_flow_step_start": _step_start,
    "prompt_flow_step_item": _step_item,
    "prompt_flow_step_result": _step_result,
    "tool_call": _call,
    "verdict": _verdict,
}


class Step(NamedTuple):
    """One call, or (without a status) something observed, in words."""

    text: str
    status: str = ""

    @property
    def runs(self) -> bool:
        """Whether it is a call that has not ended."""
        return bool(self.status) and self.status not in _CALL_ENDED


@dataclass
class Board:
    """What a live view shows, kept up to date event by event.

    Attributes:
        tasks: Tasks, or steps of a plan of tool calls, by id: the fields of the latest events, and
            `asks` while a human must allow a call.
        steps: Calls, and what was observed, by id; the latest stands last.
    """

    tasks: dict[str, dict[str, Any]] = field(default_factory=dict)
    steps: dict[str, Step] = field(default_factory=dict)
    phase: str = "starting"
    spend: dict[str, float] = field(default_factory=lambda: dict.fromkeys(_SPENT, 0))
    warnings: list[str] = field(default_factory=list)
    stopping: bool = False

    def begin(self, values: Mapping[str, Any]) -> None:
        """Take over what a saved thread has already done; what was cut off is open again."""
        if values.get("outcome"):
            return
        self._put(values.get("todos") or ())
        for record in values.get("evidence") or ():
            self.steps[record["id"]] = Step(_called(record), str(record.get("status")))
        for key in _SPENT:
            self.spend[key] += (values.get("spend") or {}).get(key) or 0

    def apply(self, event: Event) -> None:
        """Take in one event; unknown ones change nothing."""
        kind = str(event.get("type"))
        part = told_of_part(event)
        self._put([part | {"feedback": part["result"]} if "result" in part else part])
        act = getattr(self, f"_on_{kind}", None)
        if act is not None:
            act(event)
        elif told := _WARNINGS.get(kind) or _NOTES.get(kind):
            sentence = short(told(event), 300)
            if sentence not in self.warnings:
                self.warnings.append(sentence)

    def _put(self, todos: Iterable[Any]) -> None:
        """Update tasks by id; unknown ids are new tasks."""
        for todo in todos:
            if isinstance(todo, Mapping) and "id" in todo:
                self.tasks.setdefault(str(todo["id"]), {"status": "pending"}).update(todo)

    def _on_phase(self, event: Event) -> None:
        role = str(event.get("role", ""))
        self.phase = ROLES[role].label if role in ROLES else role
        if event.get("iteration"):
            self.phase += f", iteration {event['iteration']}"

    def _on_plan(self, event: Event) -> None:
        self.tasks = {}
        self._on_tasks(event)

    _on_todos = _on_plan

    def _on_tasks(self, event: Event) -> None:
        self._put(event.get("todos") or ())

    def _on_prompt_flow_step_start(self, _: Event) -> None:
        self.phase = "working"

    def _on_tool_call(self, event: Event) -> None:
        call, status = str(event.get("id")), str(event.get("status"))
        if (task := self.tasks.get(step_of(str(event.get("task"))))) is not None:
            task["asks"] = status == "awaiting_approval"
        before = self.steps.pop(call, None)
        self.steps[call] = Step(_called(event), status)
        ran = before is not None and before.status == "executing"
        self.spend["tool_calls"] += ran and status in _CALL_ENDED

    def _on_observation(self, event: Event) -> None:
        self.steps[f"observation {len(self.steps)}"] = Step(short(event.get("text", ""), 300))

    def _on_model(self, event: Event) -> None:
        self.spend["model_calls"] += int(event.get("asks", 1))
        for key in ("input_tokens", "output_tokens", "usd"):
            self.spend[key] += event.get(key) or 0

    def _on_outcome(self, event: Event) -> None:
        self.phase = str(event.get("status"))

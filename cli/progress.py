"""The events of a run as lines, and the board that a live view draws. No terminal here."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from ..state.agent import COMPLETE_TASK
from ..state.calls import TRANSITIONS, step_of
from ..state.roles import ROLES
from ..stream.views import read_part_fields
from ..text.canonical import plural
from .terminal import render_call, shorten_line

UNFINISHED: Final = frozenset({"pending", "in_progress"})
_CALL_ENDED: Final = frozenset(status for status, after in TRANSITIONS.items() if not after)
_CALL_SHOWN: Final = _CALL_ENDED | {"executing", "awaiting_approval"}
"""The states of a call that are shown; the others pass at once."""
_SPENT: Final = ("model_calls", "tool_calls", "input_tokens", "output_tokens", "usd")
_WIDTH: Final = 160
_WARNING_WIDTH: Final = 500
"""Warnings end with what to do: that must not be cut off."""

Event = Mapping[str, Any]


def render_event(event: Event) -> str | None:
    """The line for an event; None if it has none."""
    kind = str(event.get("type"))
    if kind in _WARNINGS:
        return shorten_line(f"warning: {_WARNINGS[kind](event)}", _WARNING_WIDTH)
    if kind in _NOTES:
        return shorten_line(f"{kind}: {_NOTES[kind](event)}", _WIDTH)
    line = _LINES[kind](event) if kind in _LINES else ""
    return shorten_line(line, _WIDTH) if line else None


def render_spend(spend: Mapping[str, Any]) -> str:
    """What a run has used, in words."""
    tokens = spend.get("input_tokens", 0) + spend.get("output_tokens", 0)
    calls = [plural(spend.get(f"{kind}_calls", 0), f"{kind} call") for kind in ("model", "tool")]
    return " · ".join(
        [*calls, plural(tokens, "token"), *filter(None, [render_dollars(spend.get("usd"))])]
    )


def sum_spends(spends: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """What several turns have used together."""
    told = list(spends)
    return {key: sum(spend.get(key) or 0 for spend in told) for key in _SPENT}


def render_dollars(usd: float | None) -> str:
    """An amount of money; empty if it is zero or unknown."""
    return f"${usd:,.4f}" if usd else ""


def _make_renderer(template: str) -> Callable[[Event], str]:
    """A sentence about an event; a missing field is 0."""
    return lambda event: template.format_map(defaultdict(int, event))


def _join_parts(parts: Iterable[Any] | None, between: str = "; ") -> str:
    return between.join(map(str, parts or ()))


def _render_recovery(event: Event) -> str:
    named = _join_parts(event.get("steps"), ", ")
    return f"{named} failed, {event.get('strategy')}: {event.get('reason')}"


def _render_phase(event: Event) -> str:
    if event.get("iteration"):
        return f"{event.get('role')}: iteration {event['iteration']}"
    place = f"task {event['task']}, " if event.get("task") else ""
    return f"{event.get('role')}: {place}round {event.get('round')}"


def _render_plan(event: Event) -> str:
    todos = event.get("todos") or []
    noun = "step" if any("tool" in todo for todo in todos) else "task"
    return f"plan: {plural(len(todos), noun)}: {_join_parts(map(_render_task, todos))}"


def _render_todos(event: Event) -> str:
    now = [todo for todo in event.get("todos") or [] if todo.get("status") == "in_progress"]
    current = f": {now[0].get('description')}" if now else ""
    return f"to-dos: {event.get('done')} of {event.get('total')} done{current}"


def _render_task(todo: Mapping[str, Any]) -> str:
    """A task with its description; a step also with what it waits for, and with what it sends."""
    named = f"{todo.get('id')} {todo.get('description') or todo.get('tool')}"
    after = _join_parts(todo.get("depends_on"), ", ") if "tool" in todo else ""
    origins = (todo.get("origins") or {}).items()
    made_of = "".join(f" [`{name}` ← {words}]" for name, words in origins)
    return f"{named} (after {after}){made_of}" if after else f"{named}{made_of}"


def _render_step_start(event: Event) -> str:
    attempt = int(event.get("attempt") or 1)
    again = f", attempt {attempt}" if attempt > 1 else ""
    return f"step {event.get('step_id')} begins{again}: {event.get('description')}"


def _render_step_item(event: Event) -> str:
    how = "done" if event.get("success") else "failed"
    return (
        f"step {event.get('step_id')} item {event.get('item')} {how} ({render_item_count(event)})"
    )


def render_item_count(task: Mapping[str, Any]) -> str:
    """How many of a step's items are done, as "3/20"; an event counts them, a step lists them."""
    items = task.get("items")
    if not isinstance(items, list):
        return f"{task.get('done', 0)}/{items}" if items else ""
    done = sum(item.get("status") == "completed" for item in items)
    return f"{done}/{len(items)}" if items else ""


def _render_step_result(event: Event) -> str:
    """How a step ended; its result is in the line of its call."""
    spent = f"{plural(int(event.get('attempts') or 0), 'attempt')}, {_render_seconds(event)}"
    why = "" if event.get("success") else f": {event.get('output', '')}"
    return f"step {event.get('step_id')} {event.get('status')} ({spent}){why}"


def _render_seconds(event: Event) -> str:
    return f"{float(event.get('seconds') or 0):.1f} s"


def _render_call(event: Event) -> str:
    status = str(event.get("status"))
    if status not in _CALL_SHOWN:
        return ""
    if status not in _CALL_ENDED:
        waits = "" if status == "executing" else "awaiting approval: "
        return f"call {event.get('id')} {waits}{_render_call_text(event, 90)}"
    how = _join_parts((event[key] for key in ("status", "reason") if event.get(key)), ", ")
    if event.get("reused_from"):
        how = f"{status}, reused from {event['reused_from']}"
    return f"call {event.get('id')} {how} ({_render_seconds(event)}): {event.get('result', '')}"


def _render_call_text(event: Event, limit: int = 100) -> str:
    return render_call(event.get("tool"), event.get("arguments"), limit)


def _describe_end(event: Event) -> str:
    """How long a call took that succeeded, else why it did not."""
    if event.get("reused_from"):
        return f"reused from {event['reused_from']}"
    failed = event.get("status") != "success"
    return shorten_line(event.get("result") or "", 200) if failed else _render_seconds(event)


def _render_verdict(event: Event) -> str:
    result = (
        "passed" if event.get("passed") else f"not yet: {_join_parts(event.get('improvements'))}"
    )
    return f"verdict: {result}"


_WARNINGS: Final = {
    "warning": _make_renderer("{text}"),
    "retry": _make_renderer("{model} ({role}) failed, retry {attempt} in {delay:.1f} s: {error}"),
    "fallback": _make_renderer("{model} ({role}) failed: {error}; asking {to} instead"),
    "budget": _make_renderer("{used:,.10g} of {of:,.10g} {limit} are used"),
}
_NOTES: Final[Mapping[str, Callable[[Event], str]]] = {
    "flaws": lambda event: (
        f"the plan could not run and is mended: {_join_parts(event.get('findings'))}"
    ),
    "recovery": _render_recovery,
    "route": _make_renderer("{graph} has the request: {why}"),
    "not_enough": _make_renderer("not enough for an answer, more is planned: {missing}"),
}
"""A plain view shows these under the event's name, a live one among the warnings."""
_LINES: Final = {
    "task": _make_renderer("task {id} {status}: {description}"),
    "observation": _make_renderer("observation: {text}"),
    "model": _make_renderer("{role} asked {model}: {input_tokens} tokens in, {output_tokens} out"),
    "outcome": _make_renderer("outcome: {headline}"),
    "phase": _render_phase,
    "plan": _render_plan,
    "todos": _render_todos,
    "prompt_flow_step_start": _render_step_start,
    "prompt_flow_step_item": _render_step_item,
    "prompt_flow_step_result": _render_step_result,
    "tool_call": _render_call,
    "verdict": _render_verdict,
}


class Step(NamedTuple):
    """One call, or a `warning`, in words."""

    text: str
    status: str
    about: str = ""
    """How long a call took, or why it failed."""

    @property
    def is_running(self) -> bool:
        """Whether it is a call that has not ended."""
        return self.status not in {"warning", *_CALL_ENDED}


@dataclass
class Board:
    """What a live view shows, kept up to date event by event.

    Attributes:
        tasks: Tasks, or steps of a plan of tool calls, by id: the fields of the latest events, and
            `asks` while a human must allow a call.
        steps: Calls by id; the latest stands last.
        news: Calls that have ended, and warnings, that no view has shown yet.
    """

    tasks: dict[str, dict[str, Any]] = field(default_factory=dict)
    steps: dict[str, Step] = field(default_factory=dict)
    phase: str = "starting"
    spend: dict[str, float] = field(default_factory=lambda: dict.fromkeys(_SPENT, 0))
    news: list[Step] = field(default_factory=list)
    stopping: bool = False
    _warnings: set[str] = field(default_factory=set)

    def load_saved(self, values: Mapping[str, Any]) -> None:
        """Load what a saved thread has done; interrupted tasks are open again."""
        if values.get("outcome"):
            return
        self._update_todos(values.get("todos") or ())
        for record in values.get("evidence") or ():
            step = Step(_render_call_text(record), str(record.get("status")))
            self.steps[record["id"]] = step
            self.news += [] if self.tasks else [step]
        for key in _SPENT:
            self.spend[key] += (values.get("spend") or {}).get(key) or 0

    def apply(self, event: Event) -> None:
        """Apply one event; unknown ones change nothing."""
        kind = str(event.get("type"))
        part = read_part_fields(event)
        self._update_todos([part | {"feedback": part["result"]} if "result" in part else part])
        act = getattr(self, f"_on_{kind}", None)
        if act is not None:
            act(event)
        elif render := _WARNINGS.get(kind) or _NOTES.get(kind):
            sentence = shorten_line(render(event), 300)
            if sentence not in self._warnings:
                self._warnings.add(sentence)
                self.news.append(Step(sentence, "warning"))

    def _update_todos(self, todos: Iterable[Any]) -> None:
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
        self._update_todos(event.get("todos") or ())

    _on_todos = _on_plan

    def _on_prompt_flow_step_start(self, _: Event) -> None:
        self.phase = "working"

    def _on_tool_call(self, event: Event) -> None:
        call, status = str(event.get("id")), str(event.get("status"))
        if event.get("tool") == COMPLETE_TASK:  # the answer itself
            return
        if (task := self.tasks.get(step_of(str(event.get("task"))))) is not None:
            task["asks"] = status == "awaiting_approval"
        before = self.steps.pop(call, None)
        text, has_ended = _render_call_text(event), status in _CALL_ENDED
        # In a plan the row says whose call it is.
        text = text if task is None else f"{shorten_line(task['id'], 40)}  {text}"
        self.steps[call] = step = Step(text, status, _describe_end(event) if has_ended else "")
        if has_ended and (before is None or before.is_running):
            self.news.append(step)
        ran = before is not None and before.status == "executing"
        self.spend["tool_calls"] += ran and has_ended

    def _on_model(self, event: Event) -> None:
        self.spend["model_calls"] += int(event.get("asks", 1))
        for key in ("input_tokens", "output_tokens", "usd"):
            self.spend[key] += event.get(key) or 0

    def _on_outcome(self, event: Event) -> None:
        self.phase = str(event.get("status"))

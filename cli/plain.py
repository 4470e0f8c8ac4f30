"""Progress where there is no terminal: one short line an event."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from .board import (
    CALL_ENDED,
    CALL_SHOWN,
    budget_text,
    fallback_text,
    flaws_text,
    recovery_text,
    retry_text,
)
from .text import call_text, clean, plural, short

_WIDTH: Final = 160
_WARNING_WIDTH: Final = 500
"""Warnings end with what to do: that must not be cut off."""

Event = Mapping[str, Any]


def line_of(event: Event) -> str | None:
    """The line for an event; None for those that say nothing to a reader."""
    tell = _LINES.get(str(event.get("type")))
    if tell is None:
        return None
    line = tell(event)
    if line is None:
        return None
    return short(line, _WARNING_WIDTH if line.startswith("warning: ") else _WIDTH)


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


def _task(event: Event) -> str:
    return f"task {event.get('id')} {event.get('status')}: {event.get('description')}"


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


def _call(event: Event) -> str | None:
    status = str(event.get("status"))
    if status not in CALL_SHOWN:
        return None
    called = call_text(event.get("tool"), event.get("arguments"), 90)
    if status not in CALL_ENDED:
        waits = "" if status == "executing" else "awaiting approval: "
        return f"call {event.get('id')} {waits}{called}"
    seconds = float(event.get("seconds") or 0)
    result = clean(event.get("result", ""))
    return f"call {event.get('id')} {_how(event)} ({seconds:.1f} s): {result}"


def _how(event: Event) -> str:
    """The status of a call that has ended, and how it came to it if not by running."""
    if event.get("reused_from"):
        return f"{event.get('status')}, reused from {event['reused_from']}"
    return ", ".join(str(event[key]) for key in ("status", "reason") if event.get(key))


def _model(event: Event) -> str:
    tokens = f"{event.get('input_tokens', 0)} tokens in, {event.get('output_tokens', 0)} out"
    return f"{event.get('role')} asked {event.get('model')}: {tokens}"


def _verdict(event: Event) -> str:
    improvements = "; ".join(map(str, event.get("improvements") or ()))
    return "verdict: passed" if event.get("passed") else f"verdict: not yet: {improvements}"


def _outcome(event: Event) -> str:
    return f"outcome: {event.get('status')} ({event.get('reason')})"


_LINES: Final[dict[str, Callable[[Event], str | None]]] = {
    "phase": _phase,
    "plan": _plan,
    "task": _task,
    "prompt_flow_step_start": _step_start,
    "prompt_flow_step_result": _step_result,
    "flaws": lambda event: f"flaws: round {event.get('round')}: {flaws_text(event)}",
    "recovery": lambda event: f"recovery: {recovery_text(event)}",
    "tool_call": _call,
    "observation": lambda event: f"observation: {event.get('text')}",
    "model": _model,
    "warning": lambda event: f"warning: {event.get('text')}",
    "retry": lambda event: f"warning: {retry_text(event)}",
    "fallback": lambda event: f"warning: {fallback_text(event)}",
    "budget": lambda event: f"warning: {budget_text(event)}",
    "verdict": _verdict,
    "outcome": _outcome,
}

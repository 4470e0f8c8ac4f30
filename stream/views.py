"""Components as views of events: pure functions from the newest events to what is drawn."""

from collections.abc import Callable, Iterator, Mapping
from operator import itemgetter
from typing import Any, Final

from ..state.agent import COMPLETE_TASK
from ..state.calls import SERVER_ASKS, UNCERTAIN
from ..state.channels import Component
from ..state.plan import count_progress
from .components import (
    COMPONENTS,
    Action,
    Approval,
    Judged,
    SummaryResponse,
    ToolCall,
    VerifierResponse,
    make_component,
)
from .events import Event

Folded = Mapping[str, Event]
"""By subject: the newest event of the turn."""
_View = Callable[[Folded, Event], Iterator[Component]]

_PLANNERS: Final = frozenset({"planner", "flow_planner"})
_CALL: Final = ToolCall(id="", tool="").model_dump(mode="json")
_PASSING: Final = frozenset({"validating", "scheduled"})
"""States of a call that pass at once."""


def components_of(folded: Folded, event: Event) -> Iterator[Component]:
    """The components that an event changes; it is among the newest events in `folded`."""
    for view in _VIEWS.get(event["type"], ()):
        yield from view(folded, event)


def _view_draft(folded: Folded, event: Event) -> Iterator[Component]:
    """An answer that is still being written."""
    fields, role = event["fields"], event["role"]
    if role in _PLANNERS:
        drafts = _read_objects(fields.get("todos", fields.get("steps")))
        plan = {
            "summary": str(fields.get("summary") or fields.get("goal") or ""),
            # Counts and times come from a run, not from a model.
            "todos": [_make_step({**draft, **_NOT_BEGUN}) for draft in drafts],
            "missing_information": _read_texts(fields.get("missing_information")),
            "streaming": True,
        }
        yield make_component(event, "planner-response", "", plan)
    elif role == "verifier":
        verdict = VerifierResponse(
            feedback=str(fields.get("overall_feedback") or ""),
            tasks=_read_judged(fields.get("tasks")),
            improvements=_read_texts(fields.get("improvements")),
            streaming=True,
        )
        yield make_component(event, "verifier-response", _make_verdict_id(event), verdict)
    elif role == "executor" and (task := folded.get(f"task:{event['task']}")):
        report = _make_report(task, summary=str(fields.get("summary") or ""), streaming=True)
        key, under = _make_attempt_id(task), task["message_id"]
        yield make_component(event, "executor-response", key, report, under=under)


def _make_verdict_id(event: Event) -> str:
    """Not the message's id: a verdict stands under its draft's message only if it passes."""
    return f"{event['turn']}.{event['round']}"


def _view_plan(folded: Folded, event: Event) -> Iterator[Component]:
    """The plan as it was made, and its progress."""
    todos = [_make_step({**todo, "status": "pending"}) for todo in event["todos"]]
    plan = {"summary": "", "todos": todos, "missing_information": [], "streaming": False}
    yield make_component(event, "planner-response", "", plan)
    yield from _view_progress(folded, event)


def read_part_fields(event: Event) -> dict[str, Any]:
    """What an event says of a task or step of the plan, by its fields; {} for other events."""
    name = {"id": event.get("step_id")}
    counts = _pick_fields(event, "items", "done")
    match event.get("type"):
        case "task":
            return _pick_fields(event, "id", "description", "status", "result")
        case "prompt_flow_step_start":
            return {**name, "status": "in_progress", "attempts": event.get("attempt"), **counts}
        case "prompt_flow_step_item":
            return {**name, **counts}
        case "prompt_flow_step_result":
            ended = _pick_fields(event, "status", "attempts", "seconds")
            return {**name, **ended, "result": event.get("output"), **counts}
    return {}


def _pick_fields(event: Event, *names: str) -> dict[str, Any]:
    return {name: event[name] for name in names if name in event}


def _view_progress(folded: Folded, event: Event) -> Iterator[Component]:
    """How far the plan is: its tasks, or its steps."""
    plan = folded.get("plan") or folded.get("todos")
    if plan is None:
        return
    name, key = ("flow-graph", "steps") if _has_tool_steps(plan) else ("todo-list", "todos")
    parts, under = {key: _view_parts(folded, plan)}, plan.get("message_id", "")
    yield make_component(event, name, event["turn"], parts, under=under)


def _has_tool_steps(plan: Event) -> bool:
    return any("tool" in todo for todo in plan["todos"])


def _view_parts(folded: Folded, plan: Event) -> list[dict[str, Any]]:
    """The tasks or steps of a plan as they stand."""
    now = _view_step if _has_tool_steps(plan) else _view_todo
    return [now(folded, plan, todo) for todo in plan["todos"]]


def _find_newer(folded: Folded, plan: Event, subject: str) -> Event:
    """The newest event about a part of the plan; an older one was about another plan."""
    event = folded.get(subject, {})
    return event if event.get("seq", 0) > plan["seq"] else {}


def _view_todo(folded: Folded, plan: Event, todo: Mapping[str, Any]) -> dict[str, Any]:
    name = str(todo["id"])
    now, verdict = _find_newer(folded, plan, f"task:{name}"), _find_newer(folded, plan, "verdict")
    status = now.get("status", todo.get("status", "pending"))
    rejected = {task["id"] for task in verdict.get("tasks", ()) if not task["completed"]}
    if name in rejected and verdict["seq"] > now.get("seq", 0):
        status = "failed"
    return _make_todo({**todo, "status": status})


def _view_step(folded: Folded, plan: Event, step: Mapping[str, Any]) -> dict[str, Any]:
    name = str(step["id"])
    now, item = _find_newer(folded, plan, f"step:{name}"), _find_newer(folded, plan, f"item:{name}")
    for event in sorted(filter(None, (now, item)), key=itemgetter("seq")):
        step = {**step, **read_part_fields(event)}
    return _make_step(step)


def _view_task(_: Folded, event: Event) -> Iterator[Component]:
    """A task, under the message that reports it."""
    report = _make_report(event, summary=event.get("result", ""))
    yield make_component(event, "executor-response", _make_attempt_id(event), report)


def _make_attempt_id(task: Event) -> str:
    return f"{task['turn']}.{task['id']}.attempt.{task['attempt']}"


def _make_report(task: Event, *, summary: str, streaming: bool = False) -> dict[str, Any]:
    about = {key: task[key] for key in ("description", "status", "attempt")}
    return {"task": task["id"], **about, "summary": summary, "streaming": streaming}


def _view_verdict(folded: Folded, event: Event) -> Iterator[Component]:
    verdict = VerifierResponse(
        passed=event["passed"],
        improvements=_read_texts(event["improvements"]),
        tasks=_read_judged(event.get("tasks")),
        feedback=event.get("feedback", ""),
    )
    yield make_component(event, "verifier-response", _make_verdict_id(event), verdict)
    yield from _view_progress(folded, event)


def _view_call(_: Folded, event: Event) -> Iterator[Component]:
    """A call, and the question about it, once there was one; an agent's end is its answer."""
    if event["status"] in _PASSING or event["tool"] == COMPLETE_TASK:
        return
    key, call = f"{event['turn']}.{event['id']}", _CALL | _pick_fields(event, *_CALL)
    yield make_component(event, "tool-call", key, call)
    if event.get("asked"):
        about = Approval(
            id=event["id"],
            kind=_KINDS.get(event.get("reason", ""), "tool_approval"),
            action=Action(name=event["tool"], args=event["arguments"]),
            answered=_read_answer(event),
        )
        yield make_component(event, "approval", key, about)


_KINDS: Final = {UNCERTAIN: "uncertain_call", SERVER_ASKS: "elicitation"}


def _read_answer(event: Event) -> Any:
    """How a question about a call was answered, by what became of the call."""
    if event["status"] == "awaiting_approval":
        return ""
    reason = event.get("reason", "")
    known = {"rejected": "reject", "gave_up": "reject", "answered by the user": "respond"}
    same = ("expired", "superseded")
    return reason if reason in same else known.get(reason, "approve")


def _view_tool_component(_: Folded, event: Event) -> Iterator[Component]:
    key = f"{event['turn']}.{event['call']}.{event['place']}"
    yield make_component(event, event["name"], key, event["props"], text=event["text"])


def _view_question(_: Folded, event: Event) -> Iterator[Component]:
    about = {"id": event.get("message_id", ""), "description": event["text"]}
    question = Approval(**about, kind=event["kind"], answered=event["answered"])
    yield make_component(event, "approval", "", question)


def _view_props(name: str) -> _View:
    """The view of an event whose fields are a component's props."""

    def view(_: Folded, event: Event) -> Iterator[Component]:
        key = f"{event['message_id']}.{event.get('id', '')}"
        yield make_component(event, name, key, COMPONENTS[name].model_validate(event))

    return view


def _view_summary(folded: Folded, event: Event) -> Iterator[Component]:
    plan = folded.get("plan") or folded.get("todos")
    done, total = count_progress(_view_parts(folded, plan) if plan else [])
    summary = SummaryResponse(
        status=event["status"],
        reason="" if event["reason"] == "GOAL" else event["headline"],
        done=done,
        total=total,
        unmet=_read_texts(event.get("unmet")),
        warnings=_read_texts(event.get("warnings")),
    )
    yield make_component(event, "summary-response", "", summary)


def _make_todo(given: Mapping[str, Any]) -> dict[str, Any]:
    """A task as it is shown; not validated, because each change of a part draws the plan."""
    return {
        "id": str(given.get("id") or ""),
        "description": str(given.get("description") or ""),
        "status": str(given.get("status") or "pending"),
        "depends_on": _read_texts(given.get("depends_on", given.get("dependencies"))),
    }


def _make_step(given: Mapping[str, Any]) -> dict[str, Any]:
    """The same of a step."""
    counts = {key: n if isinstance(n := given.get(key), int) else 0 for key in _COUNTED}
    seconds = given.get("seconds")
    return {
        **_make_todo(given),
        "tool": str(given.get("tool") or ""),
        **counts,
        "seconds": float(seconds) if isinstance(seconds, int | float) else 0.0,
        "result": str(given.get("result") or ""),
    }


_COUNTED: Final = ("items", "done", "attempts")
_NOT_BEGUN: Final = dict.fromkeys(("seconds", *_COUNTED))


def _read_judged(tasks: object) -> list[Judged]:
    return [
        Judged(
            id=str(task.get("id")),
            completed=bool(task.get("completed")),
            feedback=str(task.get("feedback") or ""),
        )
        for task in _read_objects(tasks)
    ]


def _read_objects(given: object) -> list[Mapping[str, Any]]:
    return [one for one in given if isinstance(one, Mapping)] if isinstance(given, list) else []


def _read_texts(given: object) -> list[str]:
    return [str(item) for item in given] if isinstance(given, list) else []


_VIEWS: Final[Mapping[str, tuple[_View, ...]]] = {
    "draft": (_view_draft,),
    "plan": (_view_plan,),
    "todos": (_view_progress,),
    "task": (_view_progress, _view_task),
    "prompt_flow_step_start": (_view_progress,),
    "prompt_flow_step_item": (_view_progress,),
    "prompt_flow_step_result": (_view_progress,),
    "tool_call": (_view_call,),
    "component": (_view_tool_component,),
    "question": (_view_question,),
    "proposal": (_view_props("proposal"),),
    "receipt": (_view_props("receipt"),),
    "verdict": (_view_verdict,),
    "outcome": (_view_summary,),
}
"""Of each type of event: which components it changes."""

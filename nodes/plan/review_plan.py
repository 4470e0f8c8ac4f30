"""Show the plan to the user before work. One interrupt, nothing before it."""

import json
from typing import Any

from langgraph.runtime import Runtime
from langgraph.types import Overwrite, interrupt
from pydantic import ValidationError

from ...state.calls import rounds_named
from ...state.context import Context, context_of
from ...state.contracts import PlannerResponse
from ...state.loop import PlanState, PlanUpdate
from ...state.plan import Task, adopt_plan, find_problems, name_todos
from ...state.questions import Answer, question
from ...state.told import say
from ...turn.scope import speak
from ..parts import Parts


async def review_plan(state: PlanState, runtime: Runtime[Context], *, parts: Parts) -> PlanUpdate:
    """Approve runs it, an edit replaces it, words send it back to the planner."""
    answer = interrupt(
        question("review_plan", {"todos": [_shown(t) for t in state.todos]}, _as_text(state.todos)),
        response_schema=Answer,
    )
    if answer.type == "approve":
        return PlanUpdate(planning="ready")
    speak(runtime, parts)
    if answer.type == "edit":
        return _edited(state, answer, context_of(runtime))
    wish = say("user_says", words=answer.message.strip() or say("plan_rejected"))
    return PlanUpdate(planning="again", improvements=[*state.improvements, wish])


def _edited(state: PlanState, answer: Answer, context: Context) -> PlanUpdate:
    """Take an edited plan if it is sound; otherwise the planner mends it by the user's words."""
    try:
        todos = name_todos(PlannerResponse.model_validate(_read(answer.args or {})).todos)
        problems = find_problems(todos, context.max_tasks)
    except ValidationError as error:
        problems = [str(detail["msg"]) for detail in error.errors()]
    if problems:
        wish = say("unsound_edit", plan=answer.args, problems="; ".join(problems))
        return PlanUpdate(planning="again", improvements=[*state.improvements, wish])
    tasks = adopt_plan(todos, state.todos, rounds_named(state.evidence))
    return PlanUpdate(planning="ready", todos=Overwrite(tasks))


def _read(args: dict[str, Any]) -> dict[str, Any]:
    """The edited plan; front ends that edit in text fields send the list of tasks as JSON text."""
    try:
        return {**args, "todos": json.loads(args["todos"])}
    except (KeyError, TypeError, ValueError, RecursionError):
        return args


def _shown(task: Task) -> dict[str, object]:
    keys = ("id", "description", "priority", "acceptance_criteria", "inputs", "depends_on")
    return {key: task[key] for key in keys if task.get(key) is not None}  # type: ignore[literal-required]  # keys of Task


def _as_text(tasks: list[Task]) -> str:
    lines = [f"{t['id']}. {t['description']}" for t in tasks if t["status"] != "completed"]
    return "Run this plan?\n" + "\n".join(lines)

"""Planner: turns the request, and what the verifier found missing, into tasks."""

import time

from langgraph.runtime import Runtime
from langgraph.types import Overwrite

from ...models.ask import Answer, ask
from ...state.context import Context, context_of
from ...state.contracts import PlannerResponse, Todo
from ...state.events import Emit
from ...state.evidence import rounds_named
from ...state.loop import Planning, PlanState, PlanUpdate, changes
from ...state.plan import adopt_plan, fallback_plan, find_problems, name_todos
from ...turn.allowance import ledger_for, limit_reason, spent_since
from ...turn.begin import EMPTY_REQUEST
from ...turn.events import emitter
from ...turn.hooks import hook_notes, notify
from ...turn.scope import can_ask, user_id
from ..conversation import conversation_of, task_view
from ..parts import Parts

SHOWN = ("id", "description", "status", "result", "feedback")
NOT_ANSWERED = "Nobody can answer this; decide by yourself and say what you assumed."


async def planner(state: PlanState, runtime: Runtime[Context], *, parts: Parts) -> PlanUpdate:
    """Ask for a plan and decide what follows: plan again, ask the user, review, work or stop."""
    context, emit = context_of(runtime), emitter(runtime)
    began = time.monotonic()
    if not state.request.strip():
        return await _noticed(_nothing_asked(context), parts, emit)
    emit(
        {
            "type": "phase",
            "role": "planner",
            "action": "planning",
            "round": state.planning_rounds + 1,
        }
    )
    catalog = await parts.toolbox.catalog(user_id())
    data = {
        "request": state.request,
        "conversation": conversation_of(state),
        "tools": catalog.summaries(),
        "previous_plan": [task_view(t, *SHOWN) for t in state.todos],
        "improvements": state.improvements,
        "answers": state.answers,
        "limits": {"tasks": context.max_tasks},
        "additional_context": hook_notes(state.hook_context),
    }
    answer = await ask(
        parts.models, "planner", parts.opening("planner", context, data), context=context,
        ledger=await ledger_for(context, state, parts.journal), contract=PlannerResponse, emit=emit,
        hooks=parts.hooks,
        check=lambda plan: find_problems(name_todos(plan.todos), context.max_tasks),
    )  # fmt: skip
    update = _decide(state, answer, context)
    if isinstance(plan := update.get("todos"), Overwrite):
        emit({"type": "plan", "round": state.planning_rounds + 1, "todos": plan.value})
    update["spend"] = spent_since(began, answer.spend)
    update["warnings"] = [*catalog.warnings, *answer.notes, *_notes(answer)]
    return changes(state, await _noticed(update, parts, emit))


async def _noticed(update: PlanUpdate, parts: Parts, emit: Emit) -> PlanUpdate:
    """Let hooks know of a question to the user before it is put."""
    if not parts.hooks.listens("Notification"):
        return update
    missing, plan = update.get("missing", []), update.get("todos")
    if update.get("planning") == "ask":
        about = ("UserQuestion", " ".join(missing), {"questions": missing})
    elif update.get("planning") == "review" and isinstance(plan, Overwrite):
        about = ("PlanReview", "The plan waits for a review.", {"todos": plan.value})
    else:
        return update
    failed = await notify(parts.hooks, emit, *about)
    return update | PlanUpdate(warnings=[*update.get("warnings", []), *failed])  # type: ignore[misc]  # written as a list above


def _nothing_asked(context: Context) -> PlanUpdate:
    if can_ask(context):
        return PlanUpdate(planning="ask", missing=["What do you want done?"])
    return PlanUpdate(planning="blocked", halt="MISSING_INFORMATION", missing=[EMPTY_REQUEST])


def _decide(state: PlanState, answer: Answer[PlannerResponse], context: Context) -> PlanUpdate:
    update = PlanUpdate(
        planning_rounds=state.planning_rounds + 1,
        missing=[],
    )
    if answer.refused:
        return update | PlanUpdate(planning="blocked", halt=limit_reason(answer.refused))
    plan = answer.parsed
    if plan is None:
        return update | _ready(state, fallback_plan(state.request), context)
    if plan.needs_more_planning:
        return update | _more_planning(state, plan, context)
    return update | _ready(state, name_todos(plan.todos), context)


def _notes(answer: Answer[PlannerResponse]) -> list[str]:
    if answer.parsed is not None or answer.refused:
        return []
    return [f"The planner gave no sound plan ({'; '.join(answer.problems)}): one task instead."]


def _more_planning(state: PlanState, plan: PlannerResponse, context: Context) -> PlanUpdate:
    """Ask the user where somebody can answer, else plan again, else run what there is or stop."""
    last_round = state.planning_rounds + 1 >= context.max_planning_rounds
    questions = [text for text in plan.missing_information if text.strip()]
    if questions and can_ask(context) and not last_round:
        return PlanUpdate(planning="ask", missing=questions)
    if not last_round:
        unanswered = [{"question": q, "answer": NOT_ANSWERED} for q in questions]
        return PlanUpdate(planning="again", answers=[*state.answers, *unanswered])
    if plan.todos:
        return _ready(state, name_todos(plan.todos), context)
    return PlanUpdate(planning="blocked", halt="MISSING_INFORMATION", missing=questions)


def _ready(state: PlanState, todos: list[Todo], context: Context) -> PlanUpdate:
    """Take the plan; one that must be reviewed where nobody can review it does not run."""
    tasks = adopt_plan(todos, state.todos, rounds_named(state.evidence))
    planning: Planning = "review" if context.review_plan else "ready"
    update = PlanUpdate(planning=planning, planning_rounds=0, todos=Overwrite(tasks))
    if context.review_plan and not can_ask(context):
        return update | PlanUpdate(planning="blocked", halt="NOT_INTERACTIVE")
    return update

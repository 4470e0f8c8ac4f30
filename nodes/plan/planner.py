"""Planner: turns the request, and what the verifier found missing, into tasks."""

from langgraph.runtime import Runtime
from langgraph.types import Overwrite

from ...models.ask import Answer, ask
from ...models.drafts import make_field_listeners
from ...state.calls import collect_rounds
from ...state.context import Context
from ...state.contracts import PlannerResponse, Todo
from ...state.history import build_call_index
from ...state.loop import Planning, PlanState, PlanUpdate
from ...state.plan import (
    Task,
    adopt_plan,
    describe_changes,
    describe_plan,
    find_problems,
    make_fallback_plan,
    name_todos,
    task_view,
)
from ...stream.events import make_question_event
from ...stream.turn_messages import make_message_id, make_phase_message
from ...text.sentences import say
from ...turn.begin import EMPTY_REQUEST
from ...turn.budget import get_limit_reason
from ...turn.scope import RunScope, make_scope
from ..parts import Parts

SHOWN = ("id", "description", "status", "result", "feedback")


async def planner(state: PlanState, runtime: Runtime[Context], *, parts: Parts) -> PlanUpdate:
    """Ask for a plan and decide what follows: plan again, ask the user, review, work or stop."""
    scope = await make_scope(state, runtime, parts)
    if state.request.strip():
        update = await _ask_for_plan(scope, state, parts)
    elif scope.can_ask:
        update = PlanUpdate(planning="ask", missing=["What do you want done?"])
    else:
        update = PlanUpdate(planning="blocked", halt="MISSING_INFORMATION", missing=[EMPTY_REQUEST])
    missing, plan = update.get("missing", []), update.get("todos")
    if update.get("planning") == "ask":
        scope.emit(make_question_event("ask_user", " ".join(missing)))
        await scope.notify("UserQuestion", " ".join(missing), {"questions": missing})
    elif update.get("planning") == "review" and isinstance(plan, Overwrite):
        scope.emit(make_question_event("review_plan", describe_plan(plan.value)))
        await scope.notify("PlanReview", "The plan waits for a review.", {"todos": plan.value})
    text = "\n".join(missing)
    if isinstance(plan, Overwrite):
        text = "\n\n".join([describe_plan(plan.value), "\n".join(_changes(state, plan.value))])
    update["messages"] = make_phase_message(state, "planner", text)
    return update | PlanUpdate(warnings=scope.notes)


def _changes(state: PlanState, plan: list[Task]) -> list[str]:
    """What a message that steers the turn has changed in its plan."""
    return describe_changes(state.todos, plan) if state.is_steered and state.todos else []


async def _ask_for_plan(scope: RunScope, state: PlanState, parts: Parts) -> PlanUpdate:
    """Ask for a plan."""
    round_ = state.planning_rounds + 1
    scope.emit({"type": "phase", "role": "planner", "action": "planning", "round": round_})
    catalog = await parts.toolbox.catalog(scope.user)
    data = {
        "tools": catalog.summaries(state.request),
        "more_tools": catalog.deferred_tools.render_listing(),
        "limits": {"tasks": scope.context.max_tasks},
        "conversation": state.conversation,
        "earlier_evidence": build_call_index(state.earlier),
        "request": state.request,
        "additional_context": scope.join_hook_notes(state.hook_context),
        "previous_plan": [task_view(t, *SHOWN) for t in state.todos],
        "improvements": state.improvements,
        "answers": state.answers,
    }
    answer = await ask(
        scope,
        parts.models,
        "planner",
        scope.build_opening("planner", data, state.attachments),
        contract=PlannerResponse,
        check=lambda plan: find_problems(name_todos(plan.todos), scope.context.max_tasks),
        listeners=make_field_listeners(
            scope, "planner", PlannerResponse, text=make_message_id(state)
        ),
    )
    update = _decide(scope, state, answer)
    if isinstance(plan := update.get("todos"), Overwrite):
        changed = _changes(state, plan.value)
        about = {"changes": changed} if changed else {}
        scope.emit({"type": "plan", "round": round_, "todos": plan.value, **about})
    scope.notes.extend(catalog.warnings)
    if answer.parsed is None and not answer.refused:
        why = "; ".join(answer.problems)
        scope.notes.append(f"The planner gave no sound plan ({why}): one task instead.")
    return update | PlanUpdate(spend=scope.add_seconds(answer.spend))


def _decide(scope: RunScope, state: PlanState, answer: Answer[PlannerResponse]) -> PlanUpdate:
    update = PlanUpdate(planning_rounds=state.planning_rounds + 1, missing=[])
    if answer.refused == "model":  # what is done already may be part of what was asked
        return update | PlanUpdate(planning="blocked", missing=answer.problems, improvements=[])
    if answer.refused:
        why = answer.problems[-1:] if answer.refused == "length" else []
        halt = get_limit_reason(answer.refused)
        return update | PlanUpdate(planning="blocked", halt=halt, unmet=why)
    plan = answer.parsed
    if plan is None:
        return update | _take_plan(scope, state, make_fallback_plan(state.request))
    if plan.needs_more_planning:
        return update | _more_planning(scope, state, plan)
    return update | _take_plan(scope, state, name_todos(plan.todos))


def _more_planning(scope: RunScope, state: PlanState, plan: PlannerResponse) -> PlanUpdate:
    """Ask the user where somebody can answer, else plan again, else run what there is or stop."""
    last_round = state.planning_rounds + 1 >= scope.context.max_planning_rounds
    questions = [text for text in plan.missing_information if text.strip()]
    if questions and scope.can_ask and not last_round:
        return PlanUpdate(planning="ask", missing=questions)
    if not last_round:
        unanswered = [{"question": q, "answer": say("nobody_answered")} for q in questions]
        return PlanUpdate(planning="again", answers=[*state.answers, *unanswered])
    if plan.todos:
        return _take_plan(scope, state, name_todos(plan.todos))
    return PlanUpdate(planning="blocked", halt="MISSING_INFORMATION", missing=questions)


def _take_plan(scope: RunScope, state: PlanState, todos: list[Todo]) -> PlanUpdate:
    """Take the plan; if it must be reviewed and nobody can review it, it does not run."""
    tasks = adopt_plan(todos, state.todos, collect_rounds(state.evidence))
    reviewed = scope.context.review_plan and any(t["status"] != "completed" for t in tasks)
    planning: Planning = "review" if reviewed else "ready"
    update = PlanUpdate(planning=planning, planning_rounds=0, todos=Overwrite(tasks))
    if reviewed and not scope.can_ask:
        return update | PlanUpdate(planning="blocked", halt="NOT_INTERACTIVE")
    return update

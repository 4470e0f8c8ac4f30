"""Review flow: shows a plan before it runs, as one question, and nothing before it."""

from collections.abc import Sequence
from typing import Any, assert_never

from langgraph.runtime import Runtime
from langgraph.types import Overwrite, interrupt
from pydantic.alias_generators import to_snake

from ...flow.carry_over import describe_changes
from ...flow.execution_plan import ExecutionPlan, PlanStep
from ...models.reading import read_object
from ...state.context import Context
from ...state.flow import FlowState, FlowStep, FlowUpdate, select_finished, select_unfinished
from ...state.plan import task_view
from ...state.questions import Answer, describe_review, make_question
from ...stream.events import make_question_event
from ...stream.turn_messages import make_phase_message
from ...text.sentences import say
from ...turn.event_emitter import emit_answered
from ...turn.scope import make_scope, set_language
from ..parts import Parts
from .check_flow import adopt_plan, flaws_of, flow_in_words


async def review_flow(state: FlowState, runtime: Runtime[Context], *, parts: Parts) -> FlowUpdate:
    """Approve runs the plan, an edit replaces it, words send it back to the planner.

    An edit that cannot run is asked about again, with its problems.
    """
    changed = describe_changes(state.reviewed, state.todos) if state.reviewed else []
    shown, text = _question_fields(state, changed), _as_text(state, changed)
    answer = interrupt(make_question("review_flow", shown, text), response_schema=Answer)
    set_language(runtime, parts)
    emit_answered(answer.type)
    match answer.type:
        case "approve":
            update = _go_on_with(state.todos)
        case "reject" | "respond":
            wishes = [*state.improvements, answer.plan_feedback]
            update = _go_on_with(state.todos) | FlowUpdate(planning="again", improvements=wishes)
        case "edit":
            update = await _take_edit(answer.read_edited_plan("steps"), state, runtime, parts)
        case _:
            assert_never(answer.type)
    plan = update.get("todos")
    text = describe_review(answer, flow_in_words(plan.value) if isinstance(plan, Overwrite) else "")
    if update["planning"] != "review":
        update["messages"] = make_phase_message(state, "review_flow", text)
    return update


def _go_on_with(steps: Sequence[FlowStep]) -> FlowUpdate:
    """Go on with a plan that was shown; its results can be long, and are kept with its steps."""
    bare = FlowStep(result="", value=None, stored="", evidence=[])
    shown: list[FlowStep] = [{**step, **bare} for step in steps]
    return FlowUpdate(planning="ready", objection=[], reviewed=shown)


async def _take_edit(
    args: dict[str, Any], state: FlowState, runtime: Runtime[Context], parts: Parts
) -> FlowUpdate:
    """Take an edited plan if it is sound, else ask again; fields that it omits stay as they are."""
    scope = await make_scope(state, runtime, parts)
    catalog = await parts.toolbox.catalog(scope.user)
    before = ExecutionPlan.model_validate(state.plan).model_dump(by_alias=True)
    given = {to_snake(name) for name in args}  # in either spelling
    left = {name: value for name, value in before.items() if to_snake(name) not in given}
    plan, problems = read_object(
        left | args,
        ExecutionPlan,
        lambda plan: flaws_of(plan, state, catalog, scope.context, hides=False),
    )
    if plan is None:
        under = {"message_id": str(state.messages[-1].id)}  # no message stands for this answer
        scope.emit(make_question_event("review_flow", flow_in_words(state.todos)) | under)
        return FlowUpdate(planning="review", objection=problems)
    tainted = state.plan.get("tainted", False)
    steps, update = adopt_plan(plan, state, catalog, parts.toolbox.policy, tainted=tainted)
    scope.emit({"type": "plan", "round": len(update["prints"]), "todos": steps})
    return update | _go_on_with(steps)


def as_planned(steps: Sequence[FlowStep]) -> list[dict[str, Any]]:
    """Steps in the spelling of ExecutionPlan, so that they can be sent back changed."""
    planned = [PlanStep.model_validate(step) for step in steps]
    return [
        step.model_dump(by_alias=True, exclude_defaults=True, exclude=set(step.model_extra or ()))
        for step in planned
    ]


def _question_fields(state: FlowState, changed: Sequence[str]) -> dict[str, Any]:
    """The plan as fields of the question; what is done cannot be edited, so it stands apart."""
    shown = {
        "goal": state.plan.get("goal") or state.request,
        "steps": as_planned(select_unfinished(state.todos)),
        "globalVariables": state.plan.get("global_variables"),
        "leftOut": state.plan.get("left_out"),
        "finished": [
            task_view(s, "id", "description", "tool") for s in select_finished(state.todos)
        ],
        "changes": list(changed),
        "origins": {s["id"]: o for s in select_unfinished(state.todos) if (o := s.get("origins"))},
        "widened": state.plan.get("widened"),
        "problems": state.objection,
    }
    always = ("goal", "steps")
    return {key: value for key, value in shown.items() if value or key in always}


def _as_text(state: FlowState, changed: Sequence[str]) -> str:
    lists = {
        "The plan as you edited it cannot run, so the one below still stands:": state.objection,
        "Run this plan?": [flow_in_words(state.todos, state.plan.get("left_out", []))],
        say("plan_widened"): state.plan.get("widened", []),
        "Changed since you saw it:": changed,
    }
    return "\n\n".join("\n".join([head, *lines]) for head, lines in lists.items() if lines)

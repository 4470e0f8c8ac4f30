"""Show the plan to the user before it runs. One interrupt, nothing before it."""

import json
from collections.abc import Sequence
from typing import Any, Final

from langgraph.runtime import Runtime
from langgraph.types import interrupt
from pydantic.alias_generators import to_snake

from ...flow.carry import difference
from ...models.reading import read_object
from ...state.canonical import shortened
from ...state.context import Context
from ...state.flow import ExecutionPlan, FlowState, FlowStep, FlowUpdate, PlanStep
from ...state.loop import changes
from ...state.plan import task_view
from ...state.questions import Answer, question
from ...state.told import say
from ...turn.scope import scope_of, speak
from ..parts import Parts
from .plan_flow import adopted, finished, flaws_of, unfinished

NAME: Final = "review_flow"
_SHOWN: Final = 200


async def review_flow(state: FlowState, runtime: Runtime[Context], *, parts: Parts) -> FlowUpdate:
    """Approve runs the plan, an edit replaces it, words send it back to the planner.

    An edit that cannot run is asked about again, with all that is wrong with it.
    """
    changed = difference(state.reviewed, state.todos) if state.reviewed else []
    answer = interrupt(
        question(NAME, _shown(state, changed), _as_text(state, changed)), response_schema=Answer
    )
    speak(runtime, parts)
    if answer.type == "edit":
        return changes(state, await _edited(answer.args or {}, state, runtime, parts))
    update = _seen(state.todos)
    if answer.type != "approve":
        wish = say("user_says", words=answer.message.strip() or say("plan_rejected"))
        update |= FlowUpdate(planning="again", improvements=[*state.improvements, wish])
    return changes(state, update)


def _seen(steps: Sequence[FlowStep]) -> FlowUpdate:
    """Go on with a plan that was shown; its results can be long, and are kept with its steps."""
    bare = FlowStep(result="", value=None, stored="", evidence=[])
    shown: list[FlowStep] = [{**step, **bare} for step in steps]
    return FlowUpdate(planning="ready", objection=[], reviewed=shown)


async def _edited(
    args: dict[str, Any], state: FlowState, runtime: Runtime[Context], parts: Parts
) -> FlowUpdate:
    """Take an edited plan if it is sound; else put the question again.

    Variables and whatever else an edit leaves out stay as they are.
    """
    scope = await scope_of(state, runtime, parts)
    catalog = await parts.toolbox.catalog(scope.user)
    plan, problems = read_object(
        _left_as_it_is(state, args) | _read(args),
        ExecutionPlan,
        lambda plan: flaws_of(plan, state, catalog, scope.context),
    )
    if plan is None:
        return FlowUpdate(planning="review", objection=problems)
    steps, update = adopted(plan, state, catalog)
    scope.emit({"type": "plan", "round": len(update["prints"]), "todos": steps})
    return update | _seen(steps)


def _left_as_it_is(state: FlowState, args: dict[str, Any]) -> dict[str, Any]:
    """The plan without its steps, and without the fields that an edit gives in either spelling."""
    before = ExecutionPlan.model_validate(state.plan).model_dump(by_alias=True)
    given = {to_snake(name) for name in args}
    return {name: value for name, value in before.items() if to_snake(name) not in given}


def _read(args: dict[str, Any]) -> dict[str, Any]:
    """The edited plan; front ends that edit in text fields send the list of steps as JSON text."""
    try:
        return {**args, "steps": json.loads(args["steps"])}
    except (KeyError, TypeError, ValueError, RecursionError):
        return args


def as_planned(steps: Sequence[FlowStep]) -> list[dict[str, Any]]:
    """Steps in the spelling of ExecutionPlan, so that they can be sent back changed."""
    return [
        PlanStep.model_validate(step).model_dump(by_alias=True, exclude_defaults=True)
        for step in steps
    ]


def _shown(state: FlowState, changed: Sequence[str]) -> dict[str, Any]:
    """The plan as fields of the question; what is done cannot be edited, so it stands apart."""
    shown = {
        "goal": state.plan.get("goal") or state.request,
        "steps": as_planned(unfinished(state.todos)),
        "globalVariables": state.plan.get("global_variables"),
        "leftOut": state.plan.get("left_out"),
        "finished": [task_view(s, "id", "description", "tool") for s in finished(state.todos)],
        "changes": list(changed),
        "problems": state.objection,
    }
    always = ("goal", "steps")
    return {key: value for key, value in shown.items() if value or key in always}


def _as_text(state: FlowState, changed: Sequence[str]) -> str:
    lists = {
        "The plan as you edited it cannot run, so the one below still stands:": state.objection,
        "Run this plan?": [_line(step) for step in unfinished(state.todos)],
        "It leaves out:": state.plan.get("left_out", []),
        "Changed since you saw it:": changed,
    }
    return "\n\n".join("\n".join([head, *lines]) for head, lines in lists.items() if lines)


def _line(step: FlowStep) -> str:
    short = shortened(json.dumps(step["arguments"], ensure_ascii=False), _SHOWN)
    needs = ", ".join(step["depends_on"] or [])
    after = f" (after {needs})" if needs else ""
    return f"{step['id']}. {step['description']}: {step['tool']}({short}){after}"

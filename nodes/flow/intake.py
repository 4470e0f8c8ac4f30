"""Intake: begins a turn, with the steps that go on from the turn before, or a plan handed in."""

import json
from collections.abc import Mapping
from typing import Any, cast

from langgraph.runtime import Runtime
from langgraph.types import Overwrite

from ...flow.execution_plan import ExecutionPlan
from ...models.reading import read_object, read_text
from ...state.context import Context
from ...state.flow import Draft, FlowState, FlowStep, FlowUpdate, Given, reopen_items
from ...text.canonical import make_storable_json
from ...turn.begin import (
    TurnWork,
    answer_asked_calls,
    begin_turn,
    is_same_request,
    resume_work,
)
from ...turn.scope import RunScope, make_scope
from ..parts import Parts
from .shared.flow_pass import apply_tool_wishes, fold_ends, wishes_of


async def flow_intake(
    state: FlowState, runtime: Runtime[Context], *, parts: Parts, plan: dict[str, Any] | None = None
) -> FlowUpdate:
    """Begin the turn; `plan` is followed where none came with the input."""
    scope = await make_scope(state, runtime, parts)
    update: FlowUpdate = await begin_turn(scope, state, _adopt_steps, parts.find_missing)
    if not update.get("halt"):
        update |= _take_handed_in(state, plan)
        update["found"] = await parts.find_likely_tools(scope, state, update)
    return update


async def _adopt_steps(scope: RunScope, state: FlowState) -> FlowUpdate:
    """The steps, where the same request goes on or the last one was cut off at work."""
    done, again = TurnWork(state.todos, state.evidence), is_same_request(state)
    before = await resume_work(scope, state, done, fold_ends(state.cut_off, state.todos))
    evidence = state.evidence if before is None else before.evidence
    messages = answer_asked_calls(state, evidence)
    if before is None:
        return FlowUpdate(messages=messages)
    steps = [cast("FlowStep", task) for task in before.tasks]
    changed = apply_tool_wishes(state, wishes_of(state.cut_off))
    improvements = changed.get("improvements", state.improvements)
    # What the plan left out was a part of its own request.
    gone = () if again else ("left_out",)
    messages += changed.pop("messages", [])
    return changed | FlowUpdate(
        messages=messages,
        plan={key: value for key, value in state.plan.items() if key not in gone},
        todos=Overwrite([_reopen(step) for step in steps]),
        evidence=Overwrite(before.evidence),
        improvements=improvements if again else [],
    )


def _reopen(step: FlowStep) -> FlowStep:
    """A step that is not finished may be planned again; why it is not stays with it."""
    if step["status"] == "completed":
        return step
    items = reopen_items(step.get("items") or [])
    return {**step, "status": "pending", "denied": "", "failure": "", "items": items}


def _take_handed_in(state: FlowState, built_in: dict[str, Any] | None) -> FlowUpdate:
    """The plan to begin with, as a draft that is checked; nothing where a model is to plan.

    What came with a request holds as long as that goes on, also where it is resumed.
    """
    before = state.given if is_same_request(state) else Given()
    plan, problems = before.get("plan") or built_in, list[str]()
    if state.execution_plan is not None:
        plan, problems = read_given(state.execution_plan)
    variables = before.get("variables", {})
    if state.variables is not None:
        variables, flaw = _variables(state.variables)
        problems += flaw
    if plan is None and not (variables or problems):
        return FlowUpdate()
    if plan is None and not problems:
        problems = ["`variables` came without a plan that could read them; add `execution_plan`"]
    draft = Draft(text="", plan=None if problems else plan, findings=problems, given=True)
    return FlowUpdate(given=Given(plan=plan, variables=variables), drafts=[draft])


def read_given(given: object) -> tuple[dict[str, Any] | None, list[str]]:
    """A plan that a program hands in, by field name, or None with what is wrong with it.

    Args:
        given: An ExecutionPlan, an object of the same fields, or either spelling of it as text.
    """
    if isinstance(given, ExecutionPlan):
        given = given.model_dump()
    if not isinstance(given, str | Mapping):
        return None, [f"it is a {type(given).__name__}, but must be an object or a text"]
    try:
        if isinstance(given, str):
            plan, problems = read_text(given, ExecutionPlan)
        else:
            plan, problems = read_object(_as_json(given), ExecutionPlan)
    except (TypeError, ValueError) as error:
        return None, [f"it is no JSON ({error})"]
    return (None, problems) if plan is None else (make_storable_json(plan.model_dump()), [])


def _variables(given: object) -> tuple[dict[str, Any], list[str]]:
    if not isinstance(given, Mapping):
        return {}, [f"`variables` is a {type(given).__name__}, but must be an object"]
    try:
        return make_storable_json(_as_json(given)), []
    except (TypeError, ValueError) as error:
        return {}, [f"`variables` is no JSON ({error}): give texts, numbers, lists, objects"]


def _as_json(given: Mapping[str, Any]) -> dict[str, Any]:
    """A copy in JSON's types; a TypeError or ValueError says what has none."""
    return cast("dict[str, Any]", json.loads(json.dumps(dict(given), allow_nan=False)))

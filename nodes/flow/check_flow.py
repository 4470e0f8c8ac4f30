"""Check flow: a plan is taken if it is sound, else it goes back with all that is wrong in it."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from langgraph.runtime import Runtime
from langgraph.types import Overwrite

from ...calls.flow_values import is_tainted, list_constants
from ...calls.foreign import find_origin
from ...calls.policy import Policy
from ...flow.carry_over import adopt_steps, describe_changes
from ...flow.checks import find_missing_values, find_plan_flaws, find_unused_values
from ...flow.execution_plan import ExecutionPlan
from ...flow.order import build_steps, hash_plan
from ...flow.origins import PlanOrigins, describe_step_origins
from ...prompts.instructions import READ_SKILL, Instructions
from ...state.calls import collect_rounds
from ...state.context import Context
from ...state.flow import (
    Draft,
    FlowState,
    FlowStep,
    FlowUpdate,
    select_failed,
    select_finished,
    select_unfinished,
)
from ...stream.events import make_question_event
from ...stream.turn_messages import make_phase_message
from ...text.canonical import (
    beginning_of,
    canonical,
    hash_of,
    list_names,
    make_storable_json,
    shorten_text,
)
from ...text.display import show_json, show_value, show_words
from ...text.sentences import say
from ...tools.arguments import check_arguments
from ...tools.catalog import FIND_TOOLS, Catalog
from ...turn.scope import RunScope, make_scope
from ..parts import Parts
from .turn import describe_undone

MOST_DRAFTS: Final = 3
"""The first plan and two repairs of it."""
MOST_LOOKS: Final = 3
"""Plans that only look for tools and read skills, beside those."""

_MOST_TOLD: Final = 10
_UNSOUND: Final = (
    f"No plan that can run was made in {MOST_DRAFTS} attempts, and nothing of them was run; say "
    "the goal in other words, or check that there are tools for it. The last one was wrong in this:"
)
_GIVEN: Final = "The plan that was handed in cannot run, and nothing of it was run:"
_LACKING: Final = (
    "The plan that was handed in reads variables that have no value: {names}. Give them with the "
    "input, such as {example}; nothing was run."
)
_SAME_PLAN: Final = (
    "The planner came back to a plan that had failed or was rejected in this turn, so it was not "
    "run again; say what should be done differently."
)
_NOBODY: Final = (
    "The plan waits for a review, and nobody can be asked: run with a checkpointer and somebody "
    "who answers, or without review_plan."
)


async def check_flow(state: FlowState, runtime: Runtime[Context], *, parts: Parts) -> FlowUpdate:
    """Take a sound plan, send an unsound one back with its findings, end after three of them.

    The round of an event counts the drafts of one plan, or the plans taken in this turn, from 1.
    """
    scope = await make_scope(state, runtime, parts)
    catalog, draft = await parts.toolbox.catalog(scope.user), state.drafts[-1]
    plan, findings, missing = None, draft["findings"], list[str]()
    hides = not draft.get("given") and await is_tainted(scope, parts.toolbox, state)
    if (written := draft["plan"]) is not None:
        drafted, values = ExecutionPlan.model_validate(written), state.given.get("variables", {})
        # Values are put in as they are: braces in them are text, as in every result.
        variables = {"global_variables": {**drafted.global_variables, **values}}
        plan = drafted.model_copy(update=variables) if values else drafted
        findings = flaws_of(plan, state, catalog, scope.context, hides=hides)
        if not findings and FIND_TOOLS in catalog.own:
            findings = [say("searched_enough") for s in plan.steps if s.tool == FIND_TOOLS][:1]
        if draft.get("given"):
            missing = find_missing_values(plan)
            findings = [*findings, *find_unused_values(drafted, values)]
    looked = await _look_up(state, plan, catalog, parts.instructions)
    if missing:
        update = _end_without_values(missing)
    elif looked:
        update = looked
    elif plan is None or findings:
        scope.emit({"type": "flaws", "findings": findings, "round": len(state.drafts)})
        update = _send_back(state, findings, _list_unshown_tools(state, plan, catalog))
    else:
        update = await _take_plan(scope, plan, state, parts, tainted=hides)
    return update | FlowUpdate(warnings=[*catalog.warnings, *scope.notes])


async def _look_up(
    state: FlowState, plan: ExecutionPlan | None, catalog: Catalog, known: Instructions
) -> FlowUpdate | None:
    """The update for a plan that looks for tools or reads skills first; None for other plans."""
    steps = plan.steps if plan else []
    looks = [s for s in steps if s.tool in (FIND_TOOLS, READ_SKILL) and s.tool in catalog.own]
    fitted = [check_arguments(catalog.own[s.tool].schema, s.arguments) for s in looks]
    if any(problem for _, problem in fitted):
        return None  # what does not fit is a finding
    asked = [args for s, (args, _) in zip(looks, fitted, strict=True) if s.tool == FIND_TOOLS]
    read = [args for s, (args, _) in zip(looks, fitted, strict=True) if s.tool == READ_SKILL]
    before = sum(draft.get("looks", False) for draft in state.drafts)
    if before >= MOST_LOOKS or not (asked or (read and len(read) == len(steps))):
        return None
    found = [catalog.deferred_tools.look_up(arguments) for arguments in asked]
    names = [name for some, _ in found for name in some]
    told = [await asyncio.to_thread(_read_skill, known, arguments) for arguments in read]
    told += dict.fromkeys(vain for _, vain in found if vain)
    draft = state.drafts[-1] | Draft(findings=[], told=told, tools=names, looks=True)  # type: ignore[typeddict-item]  # the rest is there
    return FlowUpdate(planning="again", drafts=[*state.drafts[:-1], draft], found=names)


def _read_skill(known: Instructions, arguments: Mapping[str, Any]) -> str:
    try:
        return known.read_skill(str(arguments.get("name")), str(arguments.get("file") or ""))
    except ValueError as error:
        return str(error)


def _list_unshown_tools(
    state: FlowState, plan: ExecutionPlan | None, catalog: Catalog
) -> list[str]:
    """Of many tools those a plan calls that the planner was not shown."""
    named = [step.tool for step in plan.steps] if plan and catalog.deferred_tools.is_needed else []
    return [n for n in dict.fromkeys(named) if n in catalog.tools and n not in state.found]


def _send_back(state: FlowState, findings: Sequence[str], tools: Sequence[str]) -> FlowUpdate:
    """Send the plan back to its planner, unless the tries are used up."""
    checked: Draft = {**state.drafts[-1], "findings": list(findings)}
    if tools:
        checked["tools"] = list(tools)
    drafts, given = [*state.drafts[:-1], checked], checked.get("given", False)
    tried = sum(not draft.get("looks") for draft in drafts)
    if tried < MOST_DRAFTS and not given:
        return FlowUpdate(planning="again", drafts=drafts, found=list(tools))
    if _answers_anyway(state):
        return FlowUpdate(planning="ready", drafts=[], unmet=_still_missing(state))
    more = len(findings) - _MOST_TOLD
    told = [*findings[:_MOST_TOLD], *([f"and {more} more"] if more > 0 else [])]
    return FlowUpdate(drafts=drafts, halt="ERROR", unmet=[_GIVEN if given else _UNSOUND, *told])


def _end_without_values(names: Sequence[str]) -> FlowUpdate:
    """End the turn where a plan that was handed in lacks values of its variables."""
    example = json.dumps({"variables": dict.fromkeys(names[:1], "…")}, ensure_ascii=False)
    why = _LACKING.format(names=list_names(names), example=example)
    return FlowUpdate(halt="MISSING_INFORMATION", unmet=[why])


async def _take_plan(
    scope: RunScope, plan: ExecutionPlan, state: FlowState, parts: Parts, *, tainted: bool
) -> FlowUpdate:
    """Follow the plan, unless it was followed before; a human sees it first if one wants to.

    A human must see one that goes beyond the first, if it was made after foreign words were read.
    """
    catalog = await parts.toolbox.catalog(scope.user)
    steps, update = adopt_plan(plan, state, catalog, parts.toolbox.policy, tainted=tainted)
    if not select_unfinished(steps):  # the planner gave up what failed, without a word
        dropped = [describe_undone(step) for step in select_failed(state.todos)]
        update["plan"] |= {"left_out": [*plan.left_out, *dropped]}
    if _answers_anyway(state) and not select_unfinished(steps):
        update["unmet"] = _still_missing(state)
        return update | FlowUpdate(planning="ready")
    if repeats_a_plan(update):
        return FlowUpdate(drafts=[], halt="SAME_PLAN", unmet=[_SAME_PLAN])
    changed = _changes(state, steps)
    about = {"changes": changed} if changed else {}
    scope.emit({"type": "plan", "round": len(update["prints"]), "todos": steps, **about})
    words = "\n\n".join([flow_in_words(steps, plan.left_out), "\n".join(changed)])
    update["messages"] = make_phase_message(state, "flow_planner", words)
    widened = update["plan"]["widened"]
    if not ((scope.context.review_plan or widened) and select_unfinished(steps)):
        return update | FlowUpdate(planning="ready")
    if not scope.can_ask:
        why = say("plan_widened_unasked", what="; ".join(widened)) if widened else _NOBODY
        return update | FlowUpdate(halt="NOT_INTERACTIVE", unmet=[why])
    scope.emit(make_question_event("review_flow", flow_in_words(steps, plan.left_out)))
    await scope.notify("PlanReview", "The plan waits for a review.", {"todos": steps})
    return update | FlowUpdate(planning="review", objection=[])


def _changes(state: FlowState, steps: list[FlowStep]) -> list[str]:
    """What a message that steers the turn has changed in its plan."""
    if not (state.is_steered and state.todos):
        return []
    kept = [step for step in steps if step["status"] == "completed"]
    return [
        *(f"= {step['id']}: {step['tool']}" for step in kept),
        *describe_changes(state.todos, steps),
    ]


def _answers_anyway(state: FlowState) -> bool:
    """Whether there is an answer to be given from what is done, though more was wished for."""
    return bool(state.not_enough and select_finished(state.todos)) and not select_unfinished(
        state.todos
    )


def _still_missing(state: FlowState) -> list[str]:
    return [*state.unmet, say("still_missing", what=state.not_enough)]


_CALL_SHOWN: Final = 200


def flow_in_words(steps: Sequence[FlowStep], left_out: Sequence[str] = ()) -> str:
    """The steps that are still to be done, or all, a line each, and what the plan leaves out."""
    left = select_unfinished(steps) or steps
    lists = [[*map(_line, left)], ["It leaves out:", *left_out] if left_out else []]
    return "\n\n".join("\n".join(lines) for lines in lists if lines)


def _line(step: FlowStep) -> str:
    short = shorten_text(show_json(step["arguments"]), _CALL_SHOWN)
    needs = ", ".join(step["depends_on"] or [])
    after = f" (after {needs})" if needs else ""
    only = f" (only when {show_value(step.get('when'))})" if step.get("when") else ""
    each = shorten_text(show_value(step.get("for_each")), _CALL_SHOWN)
    times = f" (for each of {each})" if step.get("for_each") is not None else ""
    what, origins = show_words(step["description"]), step.get("origins") or {}
    made_of = "".join(f" [`{name}` ← {words}]" for name, words in origins.items())
    return f"{step['id']}. {what}: {step['tool']}({short}){times}{after}{only}{made_of}"


_MOST_FINDINGS: Final = 200
_LONGEST_FINDING: Final = 600


def flaws_of(
    plan: ExecutionPlan, state: FlowState, catalog: Catalog, context: Context, *, hides: bool
) -> list[str]:
    """What keeps a plan from running after what this turn has done, a sentence each.

    With `hides` they say nothing of what is in the results.
    """
    found = find_plan_flaws(
        plan, catalog, kept=select_finished(state.todos), limit=context.max_steps,
        given=state.given.get("variables", {}), hides=hides,
    )  # fmt: skip
    shown = [beginning_of(text, _LONGEST_FINDING) for text in found[:_MOST_FINDINGS]]
    more = len(found) - len(shown)
    return [*shown, say("and_more", count=more)] if more else shown


def adopt_plan(
    plan: ExecutionPlan, state: FlowState, catalog: Catalog, policy: Policy, *, tainted: bool
) -> tuple[list[FlowStep], FlowUpdate]:
    """The steps of a sound plan with what is done already, and the state that holds them.

    `tainted`: whoever wrote it had read foreign words. The policy says whose results are.
    """
    reads = {name for name, tool in catalog.tools.items() if tool.read_only}
    planned: list[FlowStep] = [{**s, "changes": s["tool"] not in reads} for s in build_steps(plan)]
    rounds = collect_rounds(state.evidence)
    steps: list[FlowStep] = [{**s, "rounds": rounds.get(s["id"], 0)} for s in planned]
    if state.todos:
        steps = adopt_steps(
            planned, state.todos, variables=plan.global_variables,
            old_variables=state.plan.get("global_variables", {}), rounds=rounds,
            reads=reads, revision=state.plan.get("revision", ""),
        )  # fmt: skip
    steps, origins = _trace_origins(steps, state, catalog, policy, tainted=tainted)
    # Names this plan and no other: calls of its steps have this in their names.
    revision = hash_of([state.turn_id, state.prints, plan.model_dump(mode="json")])[:16]
    kept = {**make_storable_json(plan.model_dump(exclude={"steps"})), "revision": revision}
    return steps, FlowUpdate(
        todos=Overwrite(steps),
        plan=kept | origins,
        prints=[*state.prints, _plan_print(steps, plan.global_variables)],
        drafts=[],
    )


def _trace_origins(
    steps: list[FlowStep], state: FlowState, catalog: Catalog, policy: Policy, *, tainted: bool
) -> tuple[list[FlowStep], dict[str, Any]]:
    """The steps, each with the origins of what it sends, and what is kept of them with the plan."""
    draft, before = [*state.drafts, Draft(text="", plan=None, findings=[])][-1], state.plan
    origins = PlanOrigins(
        steps={step["id"]: step for step in steps}, catalog=catalog,
        find_origin=partial(find_origin, policy=policy),
        constants="operator" if draft.get("given") else "model",
        given=state.given.get("variables", {}),
    )  # fmt: skip
    sinks, words = origins.list_sinks(), list[str]()
    if tainted:  # what the last plan said that was written before is as good as it was
        variables = before.get("global_variables", {})
        told = [] if before.get("tainted", True) else list_constants(state.todos, variables)
        words, sinks = [*before.get("words", ()), *told], before.get("sinks", sinks)
    found = origins.of_steps
    shown: list[FlowStep] = [{**s, "origins": describe_step_origins(found[s["id"]])} for s in steps]
    widened = origins.find_widened(sinks) if tainted else []
    return shown, {"tainted": tainted, "sinks": sinks, "words": words, "widened": widened}


def _plan_print(steps: list[FlowStep], variables: dict[str, object]) -> str:
    """A hash of a plan's calls and of how they may fail: more time makes it another plan."""
    keys = ("tool", "optional", "expect", "retries", "timeout", "when")
    given = (
        [*(step.get(k) for k in keys), step["for_each"] is not None and step["max_items"]]
        for step in steps
    )
    ways = sorted(map(canonical, given))
    return hash_of([hash_plan(steps, variables), ways])


def repeats_a_plan(update: FlowUpdate) -> bool:
    """Whether the plan taken last is one that this turn has followed before."""
    return update["prints"][-1] in update["prints"][:-1]

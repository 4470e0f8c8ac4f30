"""How a turn of prompt_flow begins and ends."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from langchain_core.messages import RemoveMessage
from langgraph.types import Overwrite

from ...flow.execution_plan import ExecutionPlan
from ...flow.order import sort_steps
from ...hooks.contract import Verdict
from ...models.reading import read_object, read_text
from ...state.contracts import FINISHED
from ...state.flow import Draft, FlowState, FlowStep, FlowUpdate, Given, is_spared, reopen_items
from ...text.canonical import beginning_of, make_storable_json
from ...text.sentences import say
from ...turn.begin import TurnWork, answer_asked_calls, is_same_request, resume_work
from ...turn.end import Facts, build_answer_id, find_answer, get_denial_reason
from ...turn.scope import RunScope
from ..turns import TurnEnd, remember_calls
from .flow_pass import apply_tool_wishes, fold_ends, wishes_of


def extend_intake(
    state: FlowState, update: dict[str, Any], *, plan: dict[str, Any] | None = None
) -> FlowUpdate:
    """The plan to start with, the input's or else the graph's own, and the calls that are past."""
    more = cast("FlowUpdate", remember_calls(state, update))
    return more if update.get("halt") else more | _take_handed_in(state, plan)


async def adopt_steps(scope: RunScope, state: FlowState) -> FlowUpdate:
    """The steps to keep, if the same request goes on or the last turn was cut off at work."""
    done, again = TurnWork(state.todos, state.evidence), is_same_request(state)
    before = await resume_work(scope, state, done, fold_ends(state.cut_off, state.todos))
    evidence = state.evidence if before is None else before.evidence
    messages = answer_asked_calls(state, evidence)
    if before is None:
        return FlowUpdate(messages=messages)
    steps = [cast("FlowStep", task) for task in before.tasks]
    changed = apply_tool_wishes(state, wishes_of(state.cut_off))
    improvements = changed.get("improvements", state.improvements)
    # What the plan left out, and what it may do, were a part of its own request.
    gone = () if again else ("left_out", "sinks")
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
    """The plan to begin with, as a draft that is checked; nothing if a model is to plan.

    What came with a request holds as long as the request goes on, also when it is resumed.
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
    """A plan that a program gives, as object or text, by field name; or None and the problems."""
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
    """A copy in JSON's types; TypeError or ValueError if a value has none."""
    return cast("dict[str, Any]", json.loads(json.dumps(dict(given), allow_nan=False)))


def retry(state: FlowState, _: Verdict) -> FlowUpdate:
    """Write another answer from the same results."""
    return FlowUpdate(messages=[RemoveMessage(id=build_answer_id(state))])


_MOST_TOLD: Final = 32_000
_LEAST_TOLD: Final = 2_000
_NAMED: Final = 10
# What models write into a list of which they were told to leave it empty.
_NOTHING: Final = frozenset({"", "none", "nothing", "n/a", "null"})
_ENDS: Final = {"failed": "step_failed", "skipped": "step_skipped", "cancelled": "step_cancelled"}
"""Status to the sentence that tells it; whoever writes the answer reads these as well."""


def facts_of(state: FlowState) -> Facts:
    """The facts; what the plan or a run left out counts as not done."""
    steps = sort_steps(state.todos)
    # A step is skipped where the plan wants it, or where it would need an optional one's result.
    left = [s for s in steps if s["status"] not in FINISHED and not s.get("optional")]
    done = [s for s in steps if s["status"] == "completed"]
    return Facts(
        halt=state.halt,
        done=bool(done or any(map(is_spared, steps))) and not left,
        refused=get_denial_reason(state.todos),
        unmet=_unmet(state, steps),
        answer=find_answer(state),
        results=_results(find_last_steps(done)),
        tasks=steps,
        evidence=state.evidence,
        message=build_answer_id(state),
        kept="finished steps are kept",
    )


def _unmet(state: FlowState, steps: Sequence[FlowStep]) -> list[str]:
    """The open work: messages of the phases, failed steps, and steps that never ran."""
    undone = [step for step in steps if step["status"] != "completed" and not is_spared(step)]
    ended = {s["id"]: s for s in undone if s["status"] in _ENDS or s.get("feedback")}
    # A phase may have told this already, perhaps with words before it.
    known = state.unmet
    fresh = [
        t for t in map(describe_undone, ended.values()) if not any(k.endswith(t) for k in known)
    ]
    # One line for all that never ran: behind one failure there may be thousands.
    names = [_name_step(step) for step in undone if step["id"] not in ended]
    more = [say("and_more", count=len(names) - _NAMED)] if len(names) > _NAMED else []
    not_run = [say("steps_not_run", steps=", ".join([*names[:_NAMED], *more]))] if names else []
    left_out = [
        part
        for part in state.plan.get("left_out", [])
        if part.strip(" .-–—").casefold() not in _NOTHING  # noqa: RUF001
    ]
    not_planned = [say("not_planned", part=part) for part in left_out]
    return [*known, *fresh, *not_run, *not_planned]


def describe_undone(step: FlowStep) -> str:
    """A step that did not complete, with the reason in its own words."""
    how = say(_ENDS.get(step["status"], "step_not_done"), step=_name_step(step))
    why = step.get("feedback")
    return say("problem_at", place=how, problem=why) if why else how


def _name_step(step: FlowStep) -> str:
    """A step by its id and what it is for."""
    about = step.get("description") or step.get("tool")
    return f"{step['id']} ({about})" if about else step["id"]


def _results(steps: Sequence[FlowStep]) -> list[str]:
    """The results of these steps, cited."""
    share = max(_LEAST_TOLD, _MOST_TOLD // max(1, len(steps)))
    return [
        f"**{step.get('description') or step.get('tool') or step['id']}** [{step['id']}]\n\n"
        f"{beginning_of(step.get('result', ''), share)}"
        for step in steps
    ]


def find_last_steps(steps: Sequence[FlowStep]) -> list[FlowStep]:
    """Those of the steps that none of them waited for."""
    used = {name for step in steps for name in step.get("depends_on") or []}
    return [step for step in steps if step["id"] not in used]


END: Final = TurnEnd("answerer", facts_of, retry)

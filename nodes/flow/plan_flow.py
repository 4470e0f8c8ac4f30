"""Plan flow: a plan of tool calls is asked for."""

import json
from collections.abc import Collection, Sequence
from typing import Any, Final

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.runtime import Runtime

from ...calls.flow_values import is_tainted
from ...flow.execution_plan import ExecutionPlan
from ...flow.items import describe_progress
from ...flow.outlines import hide_cause, outline_step
from ...flow.signatures import describe_tools
from ...models.ask import Answer, ask
from ...models.drafts import WholeAnswer
from ...prompts.instructions import READ_SKILL
from ...state.context import Context
from ...state.flow import Draft, FlowState, FlowStep, FlowUpdate, select_unfinished
from ...state.outcome import add_spend
from ...state.plan import task_view
from ...text.canonical import make_storable, make_storable_json, shorten_text
from ...text.sentences import say
from ...tools.catalog import Catalog
from ...turn.budget import get_limit_reason
from ...turn.scope import RunScope, make_scope
from ..parts import Parts
from .prefetch import Prefetcher

_LONGEST_QUOTE: Final = 40_000


async def plan_flow(state: FlowState, runtime: Runtime[Context], *, parts: Parts) -> FlowUpdate:
    """Ask once and keep the answer as a draft, which `check_flow` judges."""
    scope, round_ = await make_scope(state, runtime, parts), len(state.drafts) + 1
    scope.emit({"type": "phase", "role": "flow_planner", "action": "planning", "round": round_})
    catalog = await parts.toolbox.catalog(scope.user)
    variables = state.plan.get("global_variables") if state.todos else None
    steps, causes = state.todos, state.causes
    if state.prints and await is_tainted(scope, parts.toolbox, state):
        steps = [outline_step(s, catalog, repairs=not state.not_enough) for s in steps]
        causes = [hide_cause(cause, catalog) for cause in causes]
    # Drafts bring further tools, described after what was said by then.
    later = {name for draft in state.drafts for name in draft.get("tools", ())}
    skills = say("skills_for_plan") if READ_SKILL in catalog.own else ""
    listed = catalog.deferred_tools.render_listing("tools_listed_for_plan")
    data = {
        "tools": describe_tools(catalog, [name for name in state.found if name not in later]),
        "more_tools": "\n\n".join(filter(None, [skills, listed])),
        "limits": {"steps": scope.context.max_steps},
        "conversation": state.conversation,
        "request": state.request,
        "additional_context": scope.join_hook_notes(state.hook_context),
        "previous_plan": {"globalVariables": variables} if variables else {},
        "steps": steps_view(steps),
        "failures": causes,
        "improvements": state.improvements,
    }
    opening = scope.build_opening("flow_planner", data, state.attachments)
    messages = [*opening, *_render_repairs(state.drafts, catalog)]
    answer, early = await _ask_planner(scope, parts, catalog, state, messages)
    spend = add_spend(answer.spend, early.spend) if early else answer.spend
    update = early.update_of(state) if early else FlowUpdate()
    update |= FlowUpdate(spend=scope.add_seconds(spend), warnings=[*catalog.warnings, *scope.notes])
    if answer.refused:
        update |= FlowUpdate(halt=get_limit_reason(answer.refused), unmet=answer.problems[-1:])
    else:
        update["drafts"] = [*state.drafts, _draft(answer)]
    return update


async def _ask_planner(
    scope: RunScope, parts: Parts, catalog: Catalog, state: FlowState, messages: list[BaseMessage]
) -> tuple[Answer[ExecutionPlan], Prefetcher | None]:
    """The answer, and what was read while it was written, where somebody could listen."""
    early: Prefetcher | None = None

    def hear(text: str) -> None:
        nonlocal early
        early = early or Prefetcher(scope, parts, catalog, state)
        early.hear(text)

    answer: Answer[ExecutionPlan] | None = None
    try:
        answer = await ask(
            scope, parts.models, "flow_planner", messages,
            contract=ExecutionPlan, most_asks=1, listeners=[WholeAnswer(hear)],
        )  # fmt: skip
    finally:
        if early:
            await early.await_reads(cancelled=answer is None)
    return answer, early


def _render_repairs(drafts: Sequence[Draft], catalog: Catalog) -> list[BaseMessage]:
    """Each draft as the model's own words, with everything that was found in it."""
    talk: list[BaseMessage] = []
    for draft in drafts:
        findings = "\n".join(f"- {finding}" for finding in draft["findings"])
        told = [say("plan_cannot_run", findings=findings)] if findings else []
        told += draft.get("told", [])
        if tools := describe_tools(catalog, draft.get("tools", ()), more=True):
            told += [say("tools_for_plan", tools=json.dumps(tools, ensure_ascii=False))]
        # Some providers refuse an empty message.
        talk += [AIMessage(draft["text"] or say("no_answer")), HumanMessage("\n\n".join(told))]
    return talk


def _draft(answer: Answer[ExecutionPlan]) -> Draft:
    """The answer with the words it was written in: the next ask begins with them."""
    plan = answer.parsed
    return Draft(
        text=make_storable(answer.text[:_LONGEST_QUOTE]),
        plan=None if plan is None else make_storable_json(plan.model_dump()),
        findings=[make_storable(problem) for problem in answer.problems],
    )


_RESULT_SHOWN: Final = 500  # characters: enough to see what a reference would read
_ALL_SHOWN: Final = 60_000
_LEAST_SHOWN: Final = 80
_MOST_IN_FULL: Final = 60

_CALL: Final = ("id", "description", "tool", "arguments", "depends_on")
_PLANNED: Final = (*_CALL, "when", "for_each", "optional", "status")


def steps_view(steps: Sequence[FlowStep]) -> list[dict[str, Any]]:
    """Steps as a model is shown them: the call as planned, and its result or failure.

    The more steps, the shorter each result; in a long plan finished steps lose their arguments.
    """
    share = max(_LEAST_SHOWN, min(_RESULT_SHOWN, _ALL_SHOWN // max(1, len(steps))))
    needed = {name for step in select_unfinished(steps) for name in step.get("depends_on") or []}
    brief = len(steps) > _MOST_IN_FULL
    return [_render_step(step, share, needed, brief=brief) for step in steps]


def _render_step(
    step: FlowStep, share: int, needed: Collection[str], *, brief: bool
) -> dict[str, Any]:
    """One step; a model that saw half of a call would plan another one: its arguments are whole."""
    done = step["status"] == "completed"
    if brief and done and step["id"] not in needed:
        return task_view(step, "id", "tool", "status")
    fields = task_view(step, *_PLANNED, *(() if done else ("failure",)))
    if brief and done:
        fields.pop("arguments", None)
    if step.get("for_each") == []:  # not "no list": the others that are empty say nothing
        fields["for_each"] = []
    if not done and (items := describe_progress(step)):
        fields["items"] = items
    key = "result" if done else "feedback"
    text = str(step.get(key) or "")
    return fields | ({key: shorten_text(text, share)} if text else {})

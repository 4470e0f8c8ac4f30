"""Plan flow: asks for a plan of tool calls, or for a sound one in place of those that were not."""

from collections.abc import Sequence
from functools import partial
from typing import Final

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.runtime import Runtime

from ...flow.signatures import capabilities
from ...models.ask import Answer, ask
from ...models.reading import Reading, read_answer
from ...state.canonical import storable, storable_json
from ...state.context import Context
from ...state.flow import Draft, ExecutionPlan, FlowState, FlowUpdate
from ...state.loop import changes
from ...state.told import say
from ...tools.catalog import Catalog
from ...turn.budget import limit_reason
from ...turn.scope import RunScope, scope_of
from ..parts import Parts
from .plans import steps_view

_LONGEST_QUOTE: Final = 40_000


async def plan_flow(state: FlowState, runtime: Runtime[Context], *, parts: Parts) -> FlowUpdate:
    """Ask once and keep the answer as a draft, whatever it is: `check_flow` judges it.

    The round in its event numbers the asks for one plan, from 1.
    """
    scope, round_ = await scope_of(state, runtime, parts), len(state.drafts) + 1
    scope.emit({"type": "phase", "role": "flow_planner", "action": "planning", "round": round_})
    catalog = await parts.toolbox.catalog(scope.user)
    said: list[str] = []
    answer = await ask(
        scope, parts.models, "flow_planner", _messages(scope, state, catalog),
        contract=ExecutionPlan, read=partial(_read, said), most_asks=1,
    )  # fmt: skip
    warnings = [*catalog.warnings, *scope.notes]
    update = FlowUpdate(spend=scope.used(answer.spend), warnings=warnings)
    if answer.refused:
        update |= FlowUpdate(
            planning="blocked", halt=limit_reason(answer.refused), unmet=answer.problems[-1:]
        )
    else:
        drafts = [*state.drafts, _draft(answer, "".join(said))]
        update |= FlowUpdate(planning="check", drafts=drafts)
    return changes(state, update)


def _read(said: list[str], message: AIMessage) -> Reading[ExecutionPlan]:
    """Read the plan, and note the words it was written in: the next ask begins with them."""
    reading = read_answer(message, ExecutionPlan)
    said.append(reading.text)
    return reading


def _draft(answer: Answer[ExecutionPlan], text: str) -> Draft:
    plan = answer.parsed
    return Draft(
        text=storable(text[:_LONGEST_QUOTE]),
        plan=None if plan is None else storable_json(plan.model_dump()),
        findings=[storable(problem) for problem in answer.problems],
    )


def _messages(scope: RunScope, state: FlowState, catalog: Catalog) -> list[BaseMessage]:
    """The request; after an unsound draft it is the last one, the draft, and what is wrong."""
    data = {
        "request": state.request,
        "conversation": state.conversation,
        "tools": capabilities(catalog),
        "limits": {"steps": scope.context.max_steps},
        "previous_plan": _variables(state),
        "steps": steps_view(state.todos),
        "failures": state.causes,
        "improvements": state.improvements,
        "additional_context": scope.hook_notes(state.hook_context),
    }
    return [*scope.opening("flow_planner", data), *_repairs(state.drafts)]


def _variables(state: FlowState) -> dict[str, object]:
    """The variables that steps of the last plan refer to."""
    variables = state.plan.get("global_variables")
    return {"globalVariables": variables} if variables and state.todos else {}


def _repairs(drafts: Sequence[Draft]) -> list[BaseMessage]:
    """Each draft as the model's own words, with everything that was found in it."""
    talk: list[BaseMessage] = []
    for draft in drafts:
        findings = "\n".join(f"- {finding}" for finding in draft["findings"])
        # Some providers refuse an empty message.
        talk += [AIMessage(draft["text"] or say("no_answer"))]
        talk += [HumanMessage(say("plan_cannot_run", findings=findings))]
    return talk

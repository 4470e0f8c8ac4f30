"""Answer flow: writes the final answer from what the steps brought, and cites them."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from langchain_core.messages import AIMessage
from langgraph.runtime import Runtime

from ...models.ask import Answer, ask
from ...state.context import Context
from ...state.flow import FlowState, FlowStep, FlowUpdate, step_of
from ...state.loop import changes
from ...state.messages import signature
from ...state.shortened import beginning_of
from ...turn.budget import limit_reason
from ...turn.end import answer_id
from ...turn.outcome import Facts, known_answer, unmet_of
from ...turn.scope import RunScope, scope_of
from ..parts import Parts
from .citations import read_cited
from .outcome import all_required_done, facts_of, last_of

MOST_ASKS: Final = 2
LEAST_SHOWN: Final = 300
"""Characters shown of each result at least, unless there are hundreds of them."""
_ALL_SHOWN: Final = 60_000

AS_THEY_CAME: Final = "No usable answer was written ({why}): the results are shown as they came."


async def answer_flow(state: FlowState, runtime: Runtime[Context], *, parts: Parts) -> FlowUpdate:
    """Ask for the answer; one that cannot be used gives way to the results themselves.

    Where a limit ended the turn the answer is still asked for, once, and told what is missing.
    """
    scope, round_ = await scope_of(state, runtime, parts), 1 + state.stop_hook_active
    scope.emit({"type": "phase", "role": "answerer", "action": "answering", "round": round_})
    if scope.budget.exhausted:
        scope.budget.last_turn()
    facts = facts_of(state)
    unmet = unmet_of(facts)
    data = {
        "request": state.request,
        "conversation": state.conversation,
        "steps": _results(state.todos, scope.context.result_cap),
        "failures": unmet,
        "improvements": state.improvements if state.stop_hook_active else [],
        "additional_context": scope.hook_notes(state.hook_context),
    }
    answer: Answer[Any] = await ask(
        scope, parts.models, "answerer", parts.opening(scope, "answerer", data),
        read=partial(read_cited, steps=state.todos),
        most_asks=1 if scope.budget.exhausted else MOST_ASKS,
    )  # fmt: skip
    update = _answered(scope, state, answer, facts)
    return changes(state, update | FlowUpdate(spend=scope.used(answer.spend)))


def _results(steps: Sequence[FlowStep], cap: int) -> list[dict[str, Any]]:
    """What each step was for and what it brought; together about `cap` characters of results.

    Of more steps than can be shown so, the results are left out that others were made from.
    """
    done = [step for step in steps if step["status"] == "completed"]
    if len(done) * LEAST_SHOWN > cap:
        done = last_of(done)
    least = min(LEAST_SHOWN, _ALL_SHOWN // max(1, len(done)))
    share = max(least, cap // max(1, len(done)))
    whose = {step["id"] for step in done}
    shown = []
    for step in steps:
        view = step_of(step, "id", "description", "tool", "status")
        if step["id"] in whose:
            view["result"] = beginning_of(step.get("result", ""), share)
        shown.append(view)
    return shown


def _answered(scope: RunScope, state: FlowState, answer: Answer[Any], facts: Facts) -> FlowUpdate:
    """The answer as the final message; what a hook keeps back is replaced by nothing."""
    if answer.refused == "hook":
        why = [*state.unmet, answer.problems[-1]]
        halt = state.halt or limit_reason(answer.refused)
        return FlowUpdate(halt=halt, unmet=why, warnings=scope.notes)
    text, notes = str(answer.message.text), scope.notes
    if answer.problems:
        text = known_answer(facts.results, unmet_of(facts))
        notes = [*notes, AS_THEY_CAME.format(why="; ".join(answer.problems))]
    return FlowUpdate(
        messages=[AIMessage(text, id=answer_id(state), additional_kwargs=signature("answerer"))],
        task_completed=state.halt is None and all_required_done(state.todos),
        warnings=notes,
    )

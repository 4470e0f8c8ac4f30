"""Recover: find out why required steps failed, and choose what to do about it, or end the turn."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from langgraph.runtime import Runtime

from ...calls.flow_values import is_tainted
from ...flow.execution_plan import RecoveryDecision
from ...models.ask import Answer, ask
from ...state.context import Context
from ...state.flow import (
    Cause,
    FlowState,
    FlowStep,
    FlowUpdate,
    Strategy,
    reopen_items,
    select_failed,
)
from ...state.outcome import Reason, Spend
from ...stream.turn_messages import make_phase_message
from ...text.canonical import hash_of
from ...text.sentences import say
from ...tools.catalog import Catalog
from ...turn.budget import get_limit_reason
from ...turn.end import get_denial_reason
from ...turn.scope import RunScope, make_scope
from ..parts import Parts
from .plan_flow import steps_view
from .turn import describe_undone

SAME_FAILURE: Final = "The same call failed in the same way before, so no other try is made."
_MOST_CAUSES: Final = 20


@dataclass(frozen=True)
class _Decision:
    """What is done about the failure; with `halt` the turn ends, and `why` is told to the user."""

    strategy: Strategy
    why: str
    halt: Reason | None = None
    warnings: tuple[str, ...] = ()
    spend: Spend | None = None


async def recover(state: FlowState, runtime: Runtime[Context], *, parts: Parts) -> FlowUpdate:
    """Decide about the required steps that failed.

    No model is asked if the call was refused, if the same failure came back after another plan, if
    no strategy is left, or if a call must not be made again: then another plan is made.
    """
    scope, failed = await make_scope(state, runtime, parts), select_failed(state.todos)
    catalog = await parts.toolbox.catalog(scope.user)
    causes = [_cause(step, catalog) for step in failed]
    decision = await _decide(scope, state, causes, parts)
    if decision.halt:
        update = _end_turn(state, failed, decision)
    else:
        why = decision.why
        if decision.spend is not None and await is_tainted(scope, parts.toolbox, state):
            # A model says why, which has read foreign words.
            why = ", ".join(dict.fromkeys(cause["failure"] for cause in causes))
        update = _go_on(state, causes, replace(decision, why=why))
    keys = [*map(_key_of, causes)] if decision.strategy != _RETRY else []
    update |= FlowUpdate(
        strategy=decision.strategy,
        # A retry keeps the plan and does not count against max_recoveries.
        failures_seen=[*state.failures_seen, *keys],
        calls=[],
        messages=make_phase_message(state, "recovery", f"{decision.strategy}: {decision.why}"),
        spend=scope.add_seconds(decision.spend),
        warnings=[*catalog.warnings, *scope.notes, *decision.warnings],
    )
    about = {"strategy": decision.strategy, "reason": decision.why}
    scope.emit({"type": "recovery", **about, "steps": [step["id"] for step in failed]})
    return update


async def _decide(
    scope: RunScope, state: FlowState, causes: Sequence[Cause], parts: Parts
) -> _Decision:
    """What is done, by the rules or else by a model."""
    left = strategies_left(state.recoveries, causes, scope.context.max_recoveries)
    sent = [cause["step"] for cause in causes if not _may_be_made_again(cause)]
    if refused := get_denial_reason(select_failed(state.todos)):
        return _Decision("give_up", "It was refused, which no other plan could change.", refused)
    if not set(state.failures_seen).isdisjoint(map(_key_of, causes)):
        return _Decision("give_up", SAME_FAILURE, "SAME_BLOCKERS")
    if not left:
        made = sum(state.recoveries.values())
        return _Decision("give_up", f"No repair is left; {made} were made.", "MAX_ROUNDS")
    if sent:
        return _Decision(next(iter(left)), say("not_made_again", steps=", ".join(sent)))
    return await _ask_model(scope, state, causes, left, parts)


def _cause(step: FlowStep, catalog: Catalog) -> Cause:
    """The facts of a failure for the model that repairs the plan."""
    tool = catalog.find(step["tool"])
    return Cause(
        step=step["id"],
        description=step["description"],
        tool=step["tool"],
        arguments=step["arguments"],
        failure=step.get("failure") or "execution_error",
        error=step.get("feedback") or say("no_error_told"),
        attempts=step.get("attempts", 0),
        safe_to_repeat=tool is not None and tool.resendable,
    )


def _key_of(cause: Cause) -> str:
    """What makes two failures the same: the call as planned and its error, under whatever id."""
    return hash_of([cause["tool"], cause["arguments"], cause["failure"], cause["error"]])


async def _ask_model(
    scope: RunScope, state: FlowState, causes: Sequence[Cause], left: Mapping[Strategy, int],
    parts: Parts,
) -> _Decision:  # fmt: skip
    """What a model chooses among what may still be done; if nothing of use, another plan."""
    number = sum(state.recoveries.values()) + 1
    scope.emit({"type": "phase", "role": "recovery", "action": "recovering", "round": number})
    data = {
        "request": state.request,
        "conversation": state.conversation,
        "steps": steps_view(state.todos),
        "failures": list(causes),
        "strategies": left,
        "improvements": state.improvements,
        "additional_context": scope.join_hook_notes(state.hook_context),
    }
    answer: Answer[RecoveryDecision] = await ask(
        scope, parts.models, "recovery", scope.build_opening("recovery", data),
        contract=RecoveryDecision, check=lambda decision: _problems(decision, left),
    )  # fmt: skip
    spend, chosen = answer.spend, answer.parsed
    if answer.refused:
        halt = get_limit_reason(answer.refused)
        return _Decision("give_up", answer.problems[-1], halt, spend=spend)
    if chosen is not None:
        end: Reason | None = "ERROR" if chosen.strategy == "give_up" else None
        return _Decision(chosen.strategy, chosen.reason, end, spend=spend)
    why = f"The recovery gave no usable decision ({'; '.join(answer.problems)})"
    if "replan_from_failure" in left:
        told_so = (f"{why}: another plan is made.",)
        return _Decision("replan_from_failure", "", warnings=told_so, spend=spend)
    return _Decision("give_up", f"{why}.", "ERROR", spend=spend)


def _problems(decision: RecoveryDecision, left: Mapping[Strategy, int]) -> list[str]:
    allowed = [*left, "give_up"]
    if decision.strategy in allowed:
        return []
    return [say("strategy_not_left", strategy=decision.strategy, left=allowed)]


def _end_turn(state: FlowState, failed: Sequence[FlowStep], decision: _Decision) -> FlowUpdate:
    """End the turn: what is not done are the failures in their own words, then why it ends."""
    # Says so where the failure came in spite of another plan.
    replanned_for = ", ".join(dict.fromkeys(cause["step"] for cause in state.causes))
    before = f"After replanning from {replanned_for}: " if replanned_for else ""
    why = say("given_up", why=decision.why) if decision.halt == "ERROR" else decision.why
    told = [f"{before}{describe_undone(step)}" for step in failed]
    refused = decision.halt in ("DENIED", "NOT_INTERACTIVE")  # each step has said so
    unmet = [*state.unmet, *told, *([] if refused else [why])]
    return FlowUpdate(halt=decision.halt, unmet=list(dict.fromkeys(unmet)))


def _go_on(state: FlowState, causes: Sequence[Cause], decision: _Decision) -> FlowUpdate:
    """Run the failed steps again, or have another plan made that is told what failed and why."""
    taken = state.recoveries.get(decision.strategy, 0) + 1
    update = FlowUpdate(recoveries={**state.recoveries, decision.strategy: taken})
    if decision.strategy == _RETRY:
        steps = {step["id"]: step for step in state.todos}
        again = [_reopen(steps[cause["step"]]) for cause in causes]
        return update | FlowUpdate(todos=again)
    known = [*state.causes, *(cause for cause in causes if cause not in state.causes)]
    update |= FlowUpdate(causes=known[-_MOST_CAUSES:], drafts=[])
    if decision.why:
        ids = ", ".join(cause["step"] for cause in causes)
        mend = say("strategy_chosen", steps=ids, strategy=decision.strategy, why=decision.why)
        update["improvements"] = [*state.improvements, mend]
    return update


def _reopen(step: FlowStep) -> FlowStep:
    """A step that is tried again; its items are if they are not done, or not what was expected."""
    items = reopen_items(
        step.get("items") or [], all_of_them=step.get("failure") == "unexpected_result"
    )
    return FlowStep(id=step["id"], status="pending", failure="", shape="", items=items)


_RETRY: Final = "retry_step"
_BOUNDS: Final[dict[Strategy, int]] = {_RETRY: 2, "replan_from_failure": 2, "complete_replan": 1}
"""How often each strategy may be taken in a user turn."""

# The same call would fail the same way: what it was made from does not change.
_SAME_AGAIN: Final = frozenset({"bad_arguments", "missing_input"})
# The call may have changed the world, so that only one that may be repeated is made again.
_MAY_HAVE_RUN: Final = frozenset({"timeout", "uncertain", "unexpected_result", "execution_error"})


def strategies_left(
    taken: Mapping[str, int], causes: Sequence[Cause], most: int
) -> dict[Strategy, int]:
    """The strategies that may still be taken, each with how often; `most` bounds other plans.

    A retry is excluded if a call would fail the same way, or may have taken effect and must not be
    made twice. Retries do not count against other plans.
    """
    plans = most - sum(count for name, count in taken.items() if name != _RETRY)
    left = {name: min(bound - taken.get(name, 0), plans) for name, bound in _BOUNDS.items()}
    left[_RETRY] = _BOUNDS[_RETRY] - taken.get(_RETRY, 0) if most else 0
    for cause in causes:
        if cause["failure"] in _SAME_AGAIN or not _may_be_made_again(cause):
            left[_RETRY] = 0
    return {name: count for name, count in left.items() if count > 0}


def _may_be_made_again(cause: Cause) -> bool:
    return cause["safe_to_repeat"] or cause["failure"] not in _MAY_HAVE_RUN

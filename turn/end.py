"""How every user turn ends: its outcome, its final message, and hooks that want another answer."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from langchain_core.messages import AIMessage

from ..hooks.contract import NOTHING, Verdict
from ..state.intents import uncertain_call
from ..state.loop import LoopState, LoopUpdate
from ..state.messages import signature
from ..state.outcome import Outcome
from ..state.told import say
from .begin import DROPPED
from .outcome import Facts, outcome_of
from .scope import RunScope


async def end_turn(
    scope: RunScope,
    state: LoopState,
    facts: Facts,
    another: Callable[[Verdict], Mapping[str, Any]],
) -> Any:
    """Say how the turn ended and what came of it, unless a hook wants another answer.

    Args:
        scope: The run.
        state: The turn.
        facts: What the graph knows of it.
        another: What the graph changes to make another answer in place of a rejected one, which
            can be once a turn, and where nothing halted it.

    Returns:
        The update. Without an outcome in it the graph goes on.
    """
    facts = await _with_doubts(scope, facts)
    outcome = _outcome(scope, state, facts)
    verdict = await _judged(scope, state, outcome)
    update = LoopUpdate(warnings=scope.notes)
    if verdict.blocked:
        if _may_go_on(state, facts, verdict):
            return {**update, **_again(state, verdict), **another(verdict)}
        facts = _rejected(facts, verdict)
        outcome = _outcome(scope, state, facts)
        update |= LoopUpdate(task_completed=False, halt=facts.halt, unmet=list(facts.unmet))
    if verdict.blocked or not facts.answer:
        about = signature("loopwright")
        last = AIMessage(outcome["answer"], id=facts.message, additional_kwargs=about)
        update["messages"] = [last]
    scope.emit({"type": "outcome", "status": outcome["status"], "reason": outcome["reason"]})
    return update | LoopUpdate(outcome=outcome, should_continue=False)


async def _with_doubts(scope: RunScope, facts: Facts) -> Facts:
    """The facts with what the journal doubts; who judges tasks has judged those of this turn."""
    rows = await scope.journal.uncertain(scope.journaled)
    left = [row for row in rows if row.turn != scope.turn or not facts.tasks]
    uncertain, doubts = ([uncertain_call(row) for row in some] for some in (rows, left))
    return replace(facts, uncertain=uncertain, doubts=doubts)


def _outcome(scope: RunScope, state: LoopState, facts: Facts) -> Outcome:
    resume = how_to_resume(scope, state.request_id, facts.kept)
    return outcome_of(facts, spend=state.spend, allowance=state.allowance, resume=resume)


async def _judged(scope: RunScope, state: LoopState, outcome: Outcome) -> Verdict:
    """What the AfterAgent hooks say of the answer."""
    if "AfterAgent" not in scope.hooks.events:
        return NOTHING
    return await scope.hooks.fire(
        "AfterAgent", emit=scope.emit, prompt=state.request, prompt_response=outcome["answer"],
        stop_hook_active=state.stop_hook_active,
    )  # fmt: skip


def _may_go_on(state: LoopState, facts: Facts, verdict: Verdict) -> bool:
    """Whether a rejected answer can be mended: once a turn, and where no limit ended it."""
    ended_well = facts.end[1] == "GOAL" and bool(facts.answer)
    return ended_well and not state.stop_hook_active and verdict.stop is None


def _again(state: LoopState, verdict: Verdict) -> LoopUpdate:
    """Go on, with the hook's reason as what must be mended."""
    return LoopUpdate(
        stop_hook_active=True,
        task_completed=False,
        should_continue=True,
        improvements=[say("rejected_by_a_hook", why=verdict.reason)],
        hook_context=[*state.hook_context, *filter(None, [verdict.context])],
    )


def _rejected(facts: Facts, verdict: Verdict) -> Facts:
    """The facts of a turn whose answer may not be given and cannot be mended."""
    why = say("rejected_by_a_hook", why=verdict.reason)
    halt = facts.halt or "DENIED"
    return replace(facts, halt=halt, done=False, answer=why, unmet=[*facts.unmet, why])


def answer_id(state: LoopState) -> str:
    """The id of a turn's final message."""
    return f"answer-{state.turn}-{state.request_id}"


def how_to_resume(scope: RunScope, request_id: str, kept: str) -> dict[str, Any] | None:
    """What an outcome says about going on; nothing where the prompt itself is gone."""
    if request_id.startswith(DROPPED):
        return None
    if not scope.saved:
        how = "This run was not saved; give the graph a checkpointer to be able to resume."
        return {"thread_id": scope.thread, "how": how}
    return {
        "thread_id": scope.thread,
        "how": "Invoke the graph with input None on this thread, or run `loopwright resume`: "
        f"{kept}, the allowance starts afresh.",
    }

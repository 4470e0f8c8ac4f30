"""How every user turn ends: status and reason, decided once for every graph, and its last words."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from langchain_core.messages import AIMessage, AnyMessage, RemoveMessage

from ..hooks.contract import Verdict
from ..state.calls import UNCERTAIN, Evidence, join_texts, step_of
from ..state.loop import LoopState, LoopUpdate
from ..state.messages import ANSWER, PACKAGE, REJECTED, find_request, make_signature
from ..state.outcome import Outcome, OutcomeStatus, Reason, Spend, TaskOutcome, add_spend
from ..state.plan import Task, is_left_out
from ..state.undone import describe_doubt, format_call
from ..store.journal.intents import describe_uncertain_call
from ..stream.components import remove_under
from ..stream.meters import AGENT, RUNS, STATUS, measure
from ..stream.turn_messages import move_answer_last, repair_turn
from ..text.sentences import say, says_nothing
from .begin import DROPPED
from .budget import describe_missing_prices
from .repetition import LOOP_DETECTED
from .scope import RunScope

_STATUS: Final[dict[Reason, OutcomeStatus]] = {
    "MISSING_INFORMATION": "blocked",
    "DENIED": "blocked",
    "NOT_INTERACTIVE": "blocked",
    "LOOP_DETECTED": "stuck",
    "SAME_PLAN": "stuck",
    "SAME_BLOCKERS": "stuck",
    "ABORTED": "cancelled",
    "ERROR": "failed",
    "ERROR_NO_COMPLETE_TASK_CALL": "failed",
}
"""Of the reasons that leave no choice; the others are the goal and the limits."""

LIMITS: Final[dict[Reason | None, str]] = {
    "MAX_TURNS": "rounds_used_up",
    "BUDGET": "allowance_used_up",
    "TIMEOUT": "time_used_up",
    "ERROR_NO_COMPLETE_TASK_CALL": "not_said_how_it_ended",
}
"""The sentence that tells it, which a model may read as well."""

_SHOWN: Final = 500
_NEWEST: Final = 5
REFUSALS: Final = frozenset({"denied", "rejected", "not_interactive", "expired", UNCERTAIN})
"""Reasons of calls that somebody had to allow, and did not."""
_NOBODY_TO_ASK: Final = frozenset({"not_interactive", "uncertain"})


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What a graph knows of a turn that ends."""

    halt: Reason | None = None
    """What ended it before its goal."""
    done: bool = False
    """Whoever judges the work holds all of it for done and proven."""
    refused: Reason | None = None
    """Why calls were refused that somebody had to allow."""
    unmet: Sequence[str] = ()
    """What was asked and not done."""
    tasks: Sequence[Task] = ()
    """The tasks or steps, in the order in which they are listed."""
    listed: Sequence[Task] = ()
    """Tasks that a model has given itself, which prove nothing."""
    evidence: Sequence[Evidence] = ()
    uncertain: Sequence[dict[str, Any]] = ()
    """Calls that may or may not have taken effect."""
    doubts: Sequence[dict[str, Any]] = ()
    """Those of them that nobody has judged."""
    partly: bool = False
    """An agent says that a part is done."""
    answer: str = ""
    """A model's answer."""
    results: Sequence[str] = ()
    """What to show if there is no answer."""
    result: Any = None
    """The answer as data of the graph's schema."""
    untyped: str = ""
    """Why `result` is missing although a schema was given."""
    message: str = ""
    """Id of the final message."""
    kept: str = ""
    """What a resume does not repeat, in words."""

    @property
    def has_succeeded(self) -> bool:
        """Whether at least one call or task succeeded; a task's own report is no call."""
        if self.partly:
            return True
        called = any(r["tool"] is not None and r["status"] == "success" for r in self.evidence)
        return called or any(task["status"] == "completed" for task in self.tasks)

    @property
    def end(self) -> tuple[OutcomeStatus, Reason]:
        """The status and the reason of the turn.

        | status | when |
        |---|---|
        | complete | nothing halted it, all is done and proven, and no call is in doubt |
        | partial | it ended by itself or by a limit, and at least one call or task succeeded |
        | partial | all is done, but the result could not be given as data |
        | exhausted | a limit ended it, and none succeeded |
        | blocked, stuck, cancelled, failed | as the reason says |
        """
        if self.halt is None and self.done and not (self.unmet or self.doubts):
            return ("partial" if self.untyped else "complete"), "GOAL"
        in_doubt = bool(self.uncertain or self.doubts)
        itself: Reason = self.refused or ("MISSING_INFORMATION" if in_doubt else "SAME_BLOCKERS")
        reason = self.halt or ("GOAL" if self.has_succeeded else itself)
        if reason == "ERROR_NO_COMPLETE_TASK_CALL" and self.partly:
            return "partial", reason
        return _STATUS.get(reason, "partial" if self.has_succeeded else "exhausted"), reason


Typed = Callable[[Facts], Awaitable[tuple[Facts, Spend]]]
"""From the facts to the facts with the result as data, and what that used."""


async def end_turn(
    scope: RunScope,
    state: LoopState,
    facts: Facts,
    another: Callable[[Verdict], Mapping[str, Any]],
    typed: Typed | None = None,
) -> Any:
    """The update with the turn's outcome; without one if a hook wants another answer.

    `another` gives what the graph changes for a second answer, once a turn and if nothing halted
    it. `typed` turns an answer into data, if the graph was built with a schema.
    """
    facts = _refuse_empty_answer(state, await _add_doubts(scope, facts))
    if text := describe_missing_prices(state.spend, scope.context.prices):
        scope.emit({"type": "warning", "text": text})
    resume = describe_resume(scope, state.request_id, facts.kept)
    warnings = join_texts(state.warnings, scope.notes)
    sum_up = partial(
        build_outcome,
        spend=state.spend,
        allowance=state.allowance,
        resume=resume,
        warnings=warnings,
    )
    outcome, update = sum_up(facts), LoopUpdate(warnings=scope.notes)
    verdict = await _show_answer_to_hooks(scope, state, outcome)
    if verdict.is_blocked:
        why = say("rejected_by_a_hook", why=verdict.reason)
        if _can_retry(state, facts, verdict):
            return {**update, **_request_retry(state, verdict, why), **another(verdict)}
        unmet, halt = [*facts.unmet, why], facts.halt or "DENIED"
        facts = replace(facts, halt=halt, done=False, answer=why, unmet=unmet)
        outcome = sum_up(facts)
        update |= LoopUpdate(task_completed=False, halt=halt, unmet=unmet)
    elif typed is not None and facts.answer:
        facts, spend = await typed(facts)
        used, warnings = scope.add_seconds(spend), join_texts(warnings, scope.notes)
        outcome = sum_up(facts, spend=add_spend(state.spend, used), warnings=warnings)
        update["spend"] = used
    no_words = not verdict.is_blocked and facts.answer
    last = [] if no_words else _make_last_words(state, facts, outcome)
    update["messages"] = [*repair_turn(state), *last]
    _report_outcome(scope, outcome, facts.message)
    return update | LoopUpdate(outcome=outcome, should_continue=False)


async def _show_answer_to_hooks(scope: RunScope, state: LoopState, outcome: Outcome) -> Verdict:
    return await scope.fire(
        "AfterAgent",
        prompt=state.request,
        prompt_response=outcome["answer"],
        stop_hook_active=state.stop_hook_active,
    )


def _report_outcome(scope: RunScope, outcome: Outcome, message: str) -> None:
    """Emit the outcome; a graph that works for an outer turn does not close that turn."""
    keys = ("status", "reason", "headline", "unmet", "warnings")
    fields = {key: value for key, value in outcome.items() if key in keys}
    scope.emit({"type": "outcome", **fields, "message_id": message})
    if scope.around.handed is None:
        measure(RUNS, 1, {AGENT: scope.agent, STATUS: outcome["status"]})
        scope.journal.close_usage(scope.thread, scope.turn)


def _make_last_words(state: LoopState, facts: Facts, outcome: Outcome) -> list[AnyMessage]:
    signed = make_signature(PACKAGE)
    last = AIMessage(outcome["answer"], id=facts.message, additional_kwargs=signed)
    return move_answer_last(state, last)


def _can_retry(state: LoopState, facts: Facts, verdict: Verdict) -> bool:
    """Whether another answer may be made in place of one that a hook rejects."""
    ended_itself = facts.end[1] == "GOAL" and bool(facts.answer)
    return ended_itself and not state.stop_hook_active and verdict.halt_reason is None


async def _add_doubts(scope: RunScope, facts: Facts) -> Facts:
    """The facts with the uncertain calls of the journal; those of judged tasks are no doubts.

    A step of another plan may have the same id but call another tool.
    """
    rows = await scope.journal.list_uncertain(scope.journal_thread)
    tools = {task["id"]: task.get("tool") for task in facts.tasks}
    left = [
        row
        for row in rows
        if row.turn != scope.turn or tools.get(step_of(row.task), "") not in (None, row.tool)
    ]
    uncertain, doubts = ([describe_uncertain_call(row) for row in some] for some in (rows, left))
    return replace(facts, uncertain=uncertain, doubts=doubts)


def _refuse_empty_answer(state: LoopState, facts: Facts) -> Facts:
    """The facts; an answer that says nothing completes nothing, whoever gave it."""
    if not (facts.done and facts.answer and says_nothing(facts.answer, state.request)):
        return facts
    return replace(facts, done=False, unmet=[*facts.unmet, say("says_nothing")])


def _request_retry(state: LoopState, verdict: Verdict, why: str) -> LoopUpdate:
    """Go on; the hook's reason is what must be improved."""
    return LoopUpdate(
        stop_hook_active=True,
        task_completed=False,
        should_continue=True,
        improvements=[why],
        hook_context=[*state.hook_context, *filter(None, [verdict.context])],
    )


def replace_rejected(state: LoopState, verdict: Verdict, rejected: AnyMessage) -> dict[str, Any]:
    """The update that leads to another answer: the rejected one is marked with the reason.

    If the hook clears the context, the messages of this turn go and a note has the reason.
    """
    if not verdict.clear_context:
        about = rejected.additional_kwargs | {REJECTED: verdict.reason}
        return {"messages": [rejected.model_copy(update={"additional_kwargs": about})]}
    why = say("rejected_by_a_hook", why=verdict.reason)
    notes = [*state.hook_context, *filter(None, [verdict.context]), why]
    place = find_request(state.messages, state.request_message)
    gone = [str(m.id) for m in (state.messages[place + 1 :] if place >= 0 else [])]
    messages = [RemoveMessage(id=name) for name in gone]
    return {"hook_context": notes, "messages": messages, "ui": remove_under(state.ui, gone)}


def build_answer_id(state: LoopState) -> str:
    """The id of a turn's final message."""
    return f"{ANSWER}{state.turn}-{state.request_id}"


def find_answer(state: LoopState) -> str:
    """The words of a turn's final message; "" if it has none."""
    name = build_answer_id(state)
    return next((m.text for m in reversed(state.messages) if m.id == name), "")


def describe_resume(scope: RunScope, request_id: str, kept: str) -> dict[str, Any] | None:
    """How to resume, for the outcome; None if the prompt itself was dropped."""
    if request_id.startswith(DROPPED):
        return None
    how = "This run was not saved; give the graph a checkpointer to be able to resume."
    if scope.run.saved:
        how = (
            "Invoke the graph with input None on this thread, or run `loopwright resume`: "
            f"{kept}, the allowance starts afresh."
        )
    return {"thread_id": scope.thread, "how": how}


def get_refusal_reason(reasons: set[str]) -> Reason | None:
    """The reason of a turn whose calls were refused with these; None if there are none."""
    refused: Reason = "NOT_INTERACTIVE" if reasons & _NOBODY_TO_ASK else "DENIED"
    return refused if reasons else None


def get_denial_reason(tasks: Sequence[Task]) -> Reason | None:
    """Why another plan could not help an unfinished task; None if one might.

    A refused call is NOT_INTERACTIVE or DENIED, an uncertain call without anybody to ask is
    NOT_INTERACTIVE, and repeated calls are LOOP_DETECTED.
    """
    left = (t for t in tasks if not is_left_out(t) and t["status"] != "completed")
    reasons = {str(t.get("denied") or "") for t in left} - {""}
    return "LOOP_DETECTED" if reasons == {LOOP_DETECTED} else get_refusal_reason(reasons)


def build_outcome(
    facts: Facts,
    *,
    spend: Spend,
    allowance: int,
    resume: dict[str, Any] | None,
    warnings: Sequence[str] = (),
) -> Outcome:
    """The outcome of a turn; `allowance` says how often its request was given its limits."""
    (status, reason), unmet = facts.end, collect_unmet(facts)
    if reason == "BUDGET":
        unmet = [*unmet, _describe_spend(spend)]
    asks = reason == "MISSING_INFORMATION" and not facts.results
    answer = facts.answer or ("\n\n".join(unmet) if asks else "")
    answer = answer or build_fallback_answer(facts.results, unmet)
    return Outcome(
        status=status,
        reason=reason,
        warnings=list(warnings),  # early: who prints an outcome reads its first lines
        headline=describe_end(facts),
        answer=answer or say("nothing_done"),
        tasks=[_build_task_outcome(task) for task in [*facts.tasks, *facts.listed]],
        unmet=unmet,
        uncertain_calls=list(facts.uncertain),
        spend=_fill_counters(spend, allowance),
        models=spend.get("models", {}),
        result=facts.result,
        resume=None
        if status == "complete" or resume is None
        else {**resume, "how": f"{resume['how']} {_ADVICE.get(reason, '')}".strip()},
    )


_ADVICE: Final[dict[Reason, str]] = {
    "MAX_TURNS": "max_turns (max_iterations in react) gives it more turns.",
    "TIMEOUT": "max_seconds gives it more time.",
    "BUDGET": "max_model_calls, max_tool_calls, max_tokens or max_cost give it more.",
    "MISSING_INFORMATION": "Or send a message that says what is missing.",
    "NOT_INTERACTIVE": "Resume it where somebody can answer, or allow the call in the policy.",
    "LOOP_DETECTED": "Or send a message that says what to do differently.",
}


def describe_end(facts: Facts) -> str:
    """How a turn ended, in one sentence for people: it names no code."""
    (status, reason), refused = facts.end, {record.get("reason") for record in facts.evidence}
    if status in ("complete", "partial") and reason == "GOAL":
        return say(f"end_{status}")
    name = "in_vain" if reason == "SAME_BLOCKERS" and facts.halt is None else reason.lower()
    if reason in ("DENIED", "MISSING_INFORMATION") and "rejected" in refused:
        name = "rejected"
    end = say(f"end_{name}") if reason not in ("GOAL", "ABORTED") else say(f"end_{status}")
    return say("end_something_done", end=end) if status == "partial" else end


def _describe_spend(spend: Spend) -> str:
    """What a turn has used, in words."""
    tokens = spend.get("input_tokens", 0) + spend.get("output_tokens", 0)
    calls = {"calls": spend.get("model_calls", 0), "made": spend.get("tool_calls", 0)}
    text = say("was_spent", **calls, tokens=f"{tokens:,}")
    usd = spend.get("usd")
    return text if usd is None else f"{text} {say('dollars_spent', usd=f'{usd:.4f}')}"


def collect_unmet(facts: Facts) -> list[str]:
    """What a turn did not do, its uncertain calls, and the limit that ended it."""
    doubts = [describe_doubt(call) for call in facts.doubts]
    limits = [say(LIMITS[facts.halt])] if facts.halt in LIMITS else []
    untyped = [facts.untyped] if facts.untyped else []
    return list(dict.fromkeys([*facts.unmet, *doubts, *limits, *untyped]))


def describe_results(evidence: Sequence[Evidence]) -> list[str]:
    """The results of the newest calls, shown if no model gave an answer."""
    done = [r for r in evidence if r["status"] == "success" and not r.get("same_as")]
    lines = [*dict.fromkeys(f"- {format_call(r)}: {r['result'][:_SHOWN]}" for r in done)]
    return ["\n".join([say("what_calls_brought"), *lines[-_NEWEST:]])] if lines else []


def build_fallback_answer(results: Sequence[str], unmet: Sequence[str]) -> str:
    """The answer if no model wrote one: the finished work, and plainly the open work."""
    missing = [say("all_not_done", what="\n".join(f"- {text}" for text in unmet))] if unmet else []
    return "\n\n".join(text.strip() for text in [*results, *missing])


def _build_task_outcome(task: Task) -> TaskOutcome:
    return TaskOutcome(
        id=task["id"],
        description=task["description"],
        status=task["status"],
        result=task.get("result", ""),
        evidence=list(task.get("evidence", [])),
        attempts=task.get("attempts", 0),
        seconds=round(task.get("seconds", 0.0), 3),
    )


def _fill_counters(spend: Spend, allowance: int) -> Spend:
    """The counters of a turn, with all the keys that an outcome promises."""
    empty = Spend(
        model_calls=0, tool_calls=0, input_tokens=0, output_tokens=0, usd=None, seconds=0.0,
        by_role={}, by_model={}, allowance=allowance,
    )  # fmt: skip
    counted: dict[str, Any] = {key: value for key, value in spend.items() if key in empty}
    if counted.get("usd") is not None:
        counted["usd"] = round(counted["usd"], 9)
    return Spend(**{**empty, **counted})  # type: ignore[typeddict-item]  # its own keys

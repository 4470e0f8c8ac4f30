"""How a turn of the ReAct loop ended, from what its state holds. Pure."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from langchain_core.messages import AIMessage

from ...state.evidence import GAVE_UP, UNCERTAIN, Evidence, uncertain_calls
from ...state.outcome import Outcome, OutcomeStatus, Reason, judge, spend_outcome
from ...state.react import ENDS, ReactState

_KNOWN: Final = 5
_SHOWN: Final = 500
_NOBODY_TO_ASK: Final = frozenset({"not_interactive", UNCERTAIN})
_WHY: Final[dict[str, str]] = {
    "MAX_TURNS": "The limit of iterations was reached before the request was done.",
    "BUDGET": "The allowance was used up before the request was done.",
    "TIMEOUT": "The time allowed was used up before the request was done.",
}


def outcome_of(state: ReactState, resume: dict[str, Any] | None) -> Outcome:
    """Build the outcome of a turn.

    Args:
        state: As the last phase left it.
        resume: What a turn that is not complete says about going on.
    """
    reason = reason_of(state)
    unmet = _unmet(state, reason)
    status = _status(state, reason, unmet)
    return Outcome(
        status=status,
        reason=reason,
        answer=own_answer(state) or _known(state, reason, unmet),
        tasks=[],
        unmet=unmet,
        uncertain_calls=uncertain_calls(state.evidence),
        spend=spend_outcome(state.spend, state.allowance),
        models=state.spend.get("models", {}),
        resume=None if status == "complete" else resume,
    )


def own_answer(state: ReactState) -> str:
    """The words with which a thought or an action of this turn ended it; "" where none did."""
    newest = state.messages[-1] if state.messages else None
    if state.should_continue or not isinstance(newest, AIMessage):
        return ""
    of_this_turn = str(newest.id).startswith(f"{state.turn_id}.")
    return newest.text if of_this_turn and newest.additional_kwargs.get(ENDS) else ""


def reason_of(state: ReactState) -> Reason:
    """Why the turn ended: a limit, a loop, calls that nobody allowed, or because it was done."""
    if state.halt:
        return state.halt
    refused = {record.get("reason") for record in _refused(state.evidence)}
    if refused and not _succeeded(state):
        return "NOT_INTERACTIVE" if refused & _NOBODY_TO_ASK else "DENIED"
    return "GOAL"


def _status(state: ReactState, reason: Reason, unmet: Sequence[str]) -> OutcomeStatus:
    """The status that goes with a reason; a limit is partial where something came of the turn."""
    if reason == "GOAL":
        return "complete" if state.task_completed and not unmet else "partial"
    status = judge(reason, ())
    usable = bool(own_answer(state)) or _succeeded(state)
    return "partial" if status == "exhausted" and usable else status


def _unmet(state: ReactState, reason: Reason) -> list[str]:
    refused = [_why_not(record) for record in _refused(state.evidence)]
    doubts = [
        f"It is not known whether {_called(call)} took effect."
        for call in uncertain_calls(state.evidence)
        if not refused
    ]
    failed = [] if refused or doubts or _succeeded(state) else _failed(state.evidence)
    why = [_WHY[reason]] if reason in _WHY else []
    return list(dict.fromkeys([*state.unmet, *refused, *doubts, *failed, *why]))


def _why_not(record: Evidence) -> str:
    if record.get("reason") in (UNCERTAIN, GAVE_UP):
        return f"It is not known whether {_called(record)} took effect."
    return f"{_called(record)} was not run ({record.get('reason')})."


def _failed(evidence: Sequence[Evidence]) -> list[str]:
    """Where calls were made and none gave anything, the answer rests on nothing."""
    return [f"No tool call succeeded; the last was {_called(r)}." for r in evidence[-1:]]


def _refused(evidence: Sequence[Evidence]) -> list[Evidence]:
    """The calls of the newest iteration with calls that were not run because somebody said no."""
    newest = _iteration(evidence[-1]) if evidence else ""
    return [
        record
        for record in evidence
        if record["status"] == "cancelled" and _iteration(record) == newest
    ]


def _iteration(record: Evidence) -> str:
    return record["id"].rpartition(".")[0]


def _succeeded(state: ReactState) -> bool:
    return any(record["status"] == "success" for record in state.evidence)


def _known(state: ReactState, reason: Reason, unmet: Sequence[str]) -> str:
    """The answer where the model gave none: what the calls brought, and plainly what is missing."""
    results = [
        f"- {_called(record)}: {record['result'][:_SHOWN]}"
        for record in state.evidence
        if record["status"] == "success"
    ]
    parts = ["\n".join(["What the calls brought:", *results[-_KNOWN:]])] if results else []
    if unmet:
        parts.append("Not done:\n" + "\n".join(f"- {text}" for text in unmet))
    return "\n\n".join(parts) or f"Nothing could be done ({reason})."


def _called(record: Mapping[str, Any]) -> str:
    arguments = json.dumps(record["arguments"], ensure_ascii=False)
    return f"{record['tool']}({arguments[:_SHOWN]})"

"""How a turn of the graph's own agent begins and ends."""

from typing import Any, Final, cast

from langchain_core.messages import AIMessage

from ...hooks.contract import Verdict
from ...state.agent import AgentUpdate, TaskAgentState, merge_limits
from ...state.calls import Evidence
from ...state.messages import is_words, make_signature
from ...stream.turn_messages import make_message_id
from ...turn.begin import answer_open_calls, carry_undone
from ...turn.end import (
    REFUSALS,
    Facts,
    build_answer_id,
    describe_results,
    get_refusal_reason,
    replace_rejected,
)
from ...turn.scope import RunScope
from ..turns import TurnEnd
from .shared.agent import Agent
from .shared.complete_task import list_undone, list_vain_calls
from .shared.requests import append_to_newest, build_final_answer
from .team.background import recover_background
from .team.delegate import recover_delegations


async def adopt_state(scope: RunScope, state: TaskAgentState, *, agent: Agent) -> AgentUpdate:
    """Answer what was cut off, and set the limits: the agent's, or the run's where tighter."""
    for text in agent.definition.warnings:
        scope.emit({"type": "warning", "text": text})
    known = await recover_delegations(scope, state)
    background, evidence = await recover_background(scope, state)
    calls = [*state.calls, *state.delegations]
    messages, ended = await answer_open_calls(scope, state, calls, known)
    messages += append_to_newest(state, background) if background else []
    limits = merge_limits(scope.context, agent.definition.limits)
    update = AgentUpdate(messages=messages, limits=limits, background=[], awaited=False)
    inside = [record for end in state.cut_off for record in end["evidence"]]
    unmet = {end["call"]: Evidence(unmet=end.get("unmet", [])) for end in state.cut_off}
    ended = [record | unmet.get(record["id"], Evidence()) for record in ended]
    return update | cast("AgentUpdate", carry_undone(state, [*inside, *evidence, *ended]))


def add_answer(state: TaskAgentState, facts: Facts, update: dict[str, Any]) -> dict[str, Any]:
    """The answer as a message, unless the words of a turn are the answer."""
    outcome, written = update.get("outcome"), facts.message == build_answer_id(state)
    if outcome is None or not (written and facts.answer and outcome["answer"] == facts.answer):
        return {}
    answer = build_final_answer(state, facts.answer, facts.message)
    return {"messages": [*update["messages"], answer]}


def retry(state: TaskAgentState, verdict: Verdict) -> dict[str, Any]:
    """The agent goes on; what it said stands as words, with the reason why they were rejected."""
    said = str((state.report or {}).get("summary", ""))
    rejected = AIMessage(said, id=make_message_id(state), additional_kwargs=make_signature("agent"))
    fresh: dict[str, Any] = {"report": None, "task_completed": False, "unmet": []}
    return fresh | replace_rejected(state, verdict, rejected)


def facts_of(state: TaskAgentState) -> Facts:
    """The facts, by what the agent reported; a report of success needs a call that brought some."""
    report = state.report or {}
    status, summary = report.get("status"), report.get("summary", "")
    nothing_came = bool(list_vain_calls(state))
    newest = state.messages[-1] if status == "responded" and is_words(state.messages[-1]) else None
    halt = state.halt or ("MISSING_INFORMATION" if status == "blocked" else None)
    return Facts(
        halt=halt,
        done=state.task_completed,
        refused=get_refusal_reason(
            {str(r.get("reason")) for r in state.evidence if nothing_came} & REFUSALS
        ),
        partly=status in ("success", "partial") and not nothing_came,
        unmet=list_undone(state),
        answer=summary,
        results=describe_results(state.evidence),
        evidence=state.evidence,
        listed=state.todos,
        result=report.get("output"),
        message=str(newest.id) if newest else build_answer_id(state),
        kept="the messages are kept",
    )


END: Final = TurnEnd("agent", facts_of, retry, add_answer)

"""Finish: ends a turn of the graph's own agent with its honest outcome."""

from functools import partial
from typing import cast

from langchain_core.messages import AIMessage
from langgraph.runtime import Runtime

from ...hooks.contract import Verdict
from ...state.agent import AgentUpdate, TaskAgentState
from ...state.context import Context
from ...state.messages import is_words, make_signature
from ...stream.turn_messages import make_message_id
from ...turn.end import (
    Facts,
    build_answer_id,
    describe_results,
    end_turn,
    get_refusal_reason,
    replace_rejected,
)
from ...turn.scope import make_scope
from .shared.agent import Agent
from .shared.requests import build_final_answer
from .shared.unfinished import REFUSALS, has_only_failures, list_undone


async def agent_finish(
    state: TaskAgentState, runtime: Runtime[Context], *, agent: Agent
) -> AgentUpdate:
    """End the turn, or go on where a hook rejects the answer."""
    scope = await make_scope(state, runtime, agent.parts)
    facts, typed = facts_of(state), agent.parts.bind_typed_result(scope, "agent", state.request)
    update: AgentUpdate = await end_turn(scope, state, facts, partial(_try_again, state), typed)
    outcome = update.get("outcome")
    written = facts.message == build_answer_id(state)  # else the words of a turn are the answer
    if outcome is not None and written and facts.answer and outcome["answer"] == facts.answer:
        update["messages"] = [
            *update["messages"],
            build_final_answer(state, facts.answer, facts.message),
        ]
    return update


def _try_again(state: TaskAgentState, verdict: Verdict) -> AgentUpdate:
    """The agent goes on; what it said stands as words, with the reason why they were rejected."""
    fresh = AgentUpdate(report=None, task_completed=False, unmet=[])
    said = str((state.report or {}).get("summary", ""))
    rejected = AIMessage(said, id=make_message_id(state), additional_kwargs=make_signature("agent"))
    return cast("AgentUpdate", {**fresh, **replace_rejected(state, verdict, rejected)})


def facts_of(state: TaskAgentState) -> Facts:
    """The facts, by what the agent reported; a report of success needs a call that brought some."""
    report = state.report or {}
    status, summary = report.get("status"), report.get("summary", "")
    nothing_came = has_only_failures(state)
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

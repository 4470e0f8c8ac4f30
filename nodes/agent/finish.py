"""Finish: ends a turn of the graph's own agent with its honest outcome."""

from functools import partial
from typing import cast

from langchain_core.messages import AIMessage
from langgraph.runtime import Runtime

from ...hooks.contract import Verdict
from ...state.agent import AgentState, AgentUpdate, TaskAgentState, TaskAgentUpdate, succeeded
from ...state.calls import Evidence
from ...state.context import Context
from ...state.messages import is_words, signature
from ...state.proof import undone
from ...state.todo_list import open_in_words
from ...stream.shown import next_message
from ...text.told import say
from ...turn.end import (
    Facts,
    answer_id,
    called,
    end_turn,
    made_anew,
    newest_results,
    not_run,
    refusal,
)
from ...turn.scope import scope_of
from .shared.agent import Agent
from .shared.requests import signed

_REFUSALS = frozenset({"denied", "rejected", "not_interactive", "expired", "uncertain"})


async def agent_finish(
    state: TaskAgentState, runtime: Runtime[Context], *, agent: Agent
) -> TaskAgentUpdate:
    """End the turn, or go on where a hook rejects the answer."""
    scope = await scope_of(state, runtime, agent.parts)
    facts, typed = facts_of(state), agent.parts.typed(scope, "agent", state.request)
    update: TaskAgentUpdate = await end_turn(scope, state, facts, partial(_another, state), typed)
    outcome = update.get("outcome")
    written = facts.message == answer_id(state)  # else the words of a turn are the answer
    if outcome is not None and written and facts.answer and outcome["answer"] == facts.answer:
        update["messages"] = [*update["messages"], signed(state, facts.answer, facts.message)]
    return update


def _another(state: TaskAgentState, verdict: Verdict) -> TaskAgentUpdate:
    """The agent goes on; what it said stands as words, with the reason why they were rejected."""
    fresh = AgentUpdate(report=None, task_completed=False, unmet=[])
    said = str((state.report or {}).get("summary", ""))
    rejected = AIMessage(said, id=next_message(state), additional_kwargs=signature("agent"))
    return cast("TaskAgentUpdate", {**fresh, **made_anew(state, verdict, rejected)})


def facts_of(state: TaskAgentState) -> Facts:
    """The facts, by what the agent reported; a report of success needs a call that brought some."""
    report = state.report or {}
    status, summary = report.get("status"), report.get("summary", "")
    in_vain = _in_vain(state)
    newest = state.messages[-1] if status == "responded" and is_words(state.messages[-1]) else None
    halt = state.halt or ("MISSING_INFORMATION" if status == "blocked" else None)
    return Facts(
        halt=halt,
        done=state.task_completed,
        refused=refusal({str(r.get("reason")) for r in state.evidence if in_vain} & _REFUSALS),
        partly=status in ("success", "partial") and not in_vain,
        unmet=not_done(state),
        answer=summary,
        results=newest_results(state.evidence),
        evidence=state.evidence,
        listed=state.todos,
        result=report.get("output"),
        message=str(newest.id) if newest else answer_id(state),
        kept="the messages are kept",
    )


def not_done(state: AgentState) -> list[str]:
    """What an agent did not do, by its own word and by what its calls brought."""
    report = state.report or {}
    status, unmet = report.get("status"), [*state.unmet, *report.get("unmet", [])]
    if status in ("partial", "blocked") and not unmet and state.halt is None:
        unmet = [report.get("summary", "")]
    if status not in ("partial", "blocked"):
        unmet += [say("thing_not_done", what=one) for one in open_in_words(state.todos)]
    if status == "blocked" or status is None:
        return [*unmet, *_refused(state)]
    if _in_vain(state):
        last = say("no_call_succeeded", call=called(state.evidence[-1]))
        return [*unmet, *(_refused(state) or [last])]
    return unmet if state.halt else [*unmet, *map(_why_undone, undone(state.evidence))]


def _refused(state: AgentState) -> list[str]:
    """The calls that somebody had to allow, and did not."""
    return [not_run(record) for record in state.evidence if record.get("reason") in _REFUSALS]


def _in_vain(state: AgentState) -> bool:
    return bool(state.evidence) and not succeeded(state.evidence)


def _why_undone(record: Evidence) -> str:
    if record["status"] == "cancelled":
        return not_run(record)
    return say("call_failed", call=called(record))

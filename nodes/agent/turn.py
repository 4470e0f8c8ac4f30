"""How a turn of the graph's own agent begins and ends."""

from ...state.agent import AgentState, has_succeeded
from ...state.calls import Evidence
from ...state.evidence_checks import find_undone_writes
from ...state.todo_list import describe_open
from ...text.sentences import say
from ...turn.end import describe_not_run, format_call
from langgraph.runtime import Runtime
from ...state.agent import TaskAgentState, TaskAgentUpdate, merge_limits
from ...state.context import Context
from ...turn.begin import answer_open_calls, begin_turn
from ...turn.scope import RunScope, make_scope
from .agent import Agent
from .requests import append_to_newest
from .team.background import recover_background
from .team.delegate import recover_delegations
from functools import partial
from typing import cast
from langchain_core.messages import AIMessage
from langgraph.runtime import Runtime
from ...hooks.contract import Verdict
from ...state.agent import AgentUpdate, TaskAgentState, TaskAgentUpdate
from ...state.context import Context
from ...state.messages import is_words, make_signature
from ...stream.turn_messages import make_message_id
from ...turn.end import Facts, build_answer_id, describe_results, end_turn, get_refusal_reason, replace_rejected
from ...turn.scope import make_scope
from .agent import Agent
from .requests import build_final_answer


REFUSALS = frozenset({"denied", "rejected", "not_interactive", "expired", "uncertain"})


def list_undone(state: AgentState) -> list[str]:
    """What an agent did not do, by its own word and by what its calls brought."""
    report = state.report or {}
    status, unmet = report.get("status"), [*state.unmet, *report.get("unmet", [])]
    if status in ("partial", "blocked") and not unmet and state.halt is None:
        unmet = [report.get("summary", "")]
    if status not in ("partial", "blocked"):
        unmet += [say("thing_not_done", what=one) for one in describe_open(state.todos)]
    if status == "blocked" or status is None:
        return [*unmet, *_list_refused(state)]
    if has_only_failures(state):
        last = say("no_call_succeeded", call=format_call(state.evidence[-1]))
        return [*unmet, *(_list_refused(state) or [last])]
    return (
        unmet if state.halt else [*unmet, *map(_explain_undone, find_undone_writes(state.evidence))]
    )


def _list_refused(state: AgentState) -> list[str]:
    """The calls that somebody had to allow, and did not."""
    return [
        describe_not_run(record) for record in state.evidence if record.get("reason") in REFUSALS
    ]


def has_only_failures(state: AgentState) -> bool:
    """Whether calls were made and none brought anything."""
    return bool(state.evidence) and not has_succeeded(state.evidence)


def _explain_undone(record: Evidence) -> str:
    if record["status"] == "cancelled":
        return describe_not_run(record)
    return say("call_failed", call=format_call(record))


async def agent_intake(
    state: TaskAgentState, runtime: Runtime[Context], *, agent: Agent
) -> TaskAgentUpdate:
    """Begin the turn, with the agent's limits or the run's where those are tighter."""
    scope = await make_scope(state, runtime, agent.parts)

    async def adopt_state(scope: RunScope, state: TaskAgentState) -> TaskAgentUpdate:
        known = await recover_delegations(scope, state)
        beside, evidence = await recover_background(scope, state)
        messages = await answer_open_calls(scope, state, [*state.calls, *state.delegations], known)
        messages += append_to_newest(state, beside) if beside else []
        limits = merge_limits(scope.context, agent.definition.limits)
        update = TaskAgentUpdate(messages=messages, limits=limits, background=[], awaited=False)
        if state.stopping and (state.cut_off or evidence):
            ended = [record for end in state.cut_off for record in end["evidence"]]
            update["evidence"] = [*ended, *evidence]
        return update

    for text in agent.definition.warnings:
        scope.emit({"type": "warning", "text": text})
    update: TaskAgentUpdate = await begin_turn(scope, state, adopt_state, agent.parts.find_missing)
    update["found"] = await agent.parts.find_likely_tools(scope, state, update)
    return update


async def agent_finish(
    state: TaskAgentState, runtime: Runtime[Context], *, agent: Agent
) -> TaskAgentUpdate:
    """End the turn, or go on where a hook rejects the answer."""
    scope = await make_scope(state, runtime, agent.parts)
    facts, typed = facts_of(state), agent.parts.bind_typed_result(scope, "agent", state.request)
    update: TaskAgentUpdate = await end_turn(scope, state, facts, partial(_try_again, state), typed)
    outcome = update.get("outcome")
    written = facts.message == build_answer_id(state)  # else the words of a turn are the answer
    if outcome is not None and written and facts.answer and outcome["answer"] == facts.answer:
        update["messages"] = [
            *update["messages"],
            build_final_answer(state, facts.answer, facts.message),
        ]
    return update


def _try_again(state: TaskAgentState, verdict: Verdict) -> TaskAgentUpdate:
    """The agent goes on; what it said stands as words, with the reason why they were rejected."""
    fresh = AgentUpdate(report=None, task_completed=False, unmet=[])
    said = str((state.report or {}).get("summary", ""))
    rejected = AIMessage(said, id=make_message_id(state), additional_kwargs=make_signature("agent"))
    return cast("TaskAgentUpdate", {**fresh, **replace_rejected(state, verdict, rejected)})


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

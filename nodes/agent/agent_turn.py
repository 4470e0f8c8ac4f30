"""agent_turn: one model turn of an agent; it calls tools, or is told once that it must."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from langchain_core.messages import AIMessage
from langgraph.runtime import Runtime

from ...calls.call_records import PendingCall, update_call
from ...calls.gate import open_calls, set_call_ids
from ...models.ask import Answer, ask
from ...models.hidden_tags import read_words
from ...state.agent import (
    COMPLETE_TASK,
    DELEGATE,
    MODEL_TURN,
    AgentState,
    AgentUpdate,
    Report,
    find_objective,
    hide_end,
)
from ...state.calls import find_stop_in_calls
from ...state.context import Context
from ...state.messages import ENDS, is_words
from ...state.outcome import Reason
from ...state.snapshot import count_call_tokens
from ...text.sentences import say, says_nothing
from ...turn.budget import get_limit_reason
from ...turn.repetition import find_repeat
from ...turn.scope import RunScope
from ..conversation import sign_message
from .check_loop import start_watch
from .shared.agent import Agent
from .shared.background_tools import list_orders
from .shared.requests import build_request, list_shown, make_turn_listeners, name_message
from .todos import hold_for_review

_MOST_ASKS = 2


async def agent_turn(state: AgentState, runtime: Runtime[Context], *, agent: Agent) -> AgentUpdate:
    """Ask for the next calls and plan them; `complete_task` stands behind all others."""
    scope = await agent.scope(state, runtime, turns=1)
    if state.agents and (halt := _find_outer_end(scope)):
        return AgentUpdate(halt=halt)
    orders = list_orders(scope, state)
    state = replace(state, messages=[*state.messages, *orders]) if orders else state
    scope.emit({"type": "phase", "role": "agent", "action": "working", "round": state.round + 1})
    catalog = await agent.parts.toolbox.catalog(scope.user)
    shown, name, objective = list_shown(state, catalog), name_message(state), find_objective(state)
    is_lenient = agent.definition.lenient
    request = build_request(scope, state, agent, catalog.deferred_tools.render_listing())
    answer: Answer[Any] = await ask(
        agent.bound_requests(state, scope),
        agent.parts.models,
        "agent",
        request,
        tools=catalog.specs(shown),
        read=partial(read_words, with_tools=True, answers=objective if is_lenient else None),
        most_asks=_MOST_ASKS,
        listeners=make_turn_listeners(scope, state, name),
        settings=agent.settings,
    )
    update = AgentUpdate(
        round=state.round + 1,
        nudged=False,
        watch=state.watch or start_watch(scope.context),
        spend=scope.add_seconds(answer.spend),
        warnings=[*catalog.warnings, *scope.notes],
        room=agent.measure_room(state, scope.context),
        window=sum(count_call_tokens(request, answer.message)),
    )
    update |= await _read_answer(scope, state, agent, answer, name)
    return update | AgentUpdate(messages=[*orders, *update.get("messages", [])])


async def _read_answer(
    scope: RunScope, state: AgentState, agent: Agent, answer: Answer[Any], name: str
) -> AgentUpdate:
    """What a model turn comes to: a refusal, words, or calls."""
    message, own_turn = answer.message, {MODEL_TURN: scope.run.model_turn}
    if answer.refused:
        why = answer.problems[-1:] if answer.refused in ("hook", "length") else []
        halt = get_limit_reason(answer.refused)
        return AgentUpdate(round=state.round, window=state.window, halt=halt, unmet=why)
    if is_words(message):
        ends = agent.definition.lenient and not says_nothing(message.text, find_objective(state))
        kept = sign_message(message, name, "agent", answer.reasoning, {**own_turn, ENDS: ends})
        said = AgentUpdate(messages=[kept] if message.text else [])
        return said | _handle_words(state, message, ends=ends, emit=scope.emit)
    calls = await open_calls(
        scope, agent.parts.toolbox, message, round_=state.round + 1, complete=answer.complete
    )
    calls = _refuse_several_ends(hold_for_review(scope, state, calls))
    if stopped := find_stop_in_calls(calls):
        return AgentUpdate(halt="DENIED", unmet=[stopped])
    named = hide_end(name, calls, message.text)
    kept = sign_message(set_call_ids(message, calls), named, "agent", answer.reasoning, own_turn)
    calls = [_stop_circle(scope, state, call) for call in calls]
    given = [c for c in calls if c["name"] == DELEGATE and c["action"] == "allow"]
    others = (call for call in calls if call not in given)
    last = sorted(others, key=lambda call: call["name"] == COMPLETE_TASK)
    return AgentUpdate(calls=last, delegations=given, messages=[kept])


def _refuse_several_ends(calls: Sequence[PendingCall]) -> list[PendingCall]:
    """The calls; ends that contradict each other fail, for nobody knows which is meant."""
    ends = [c for c in calls if c["name"] == COMPLETE_TASK and c["action"] == "allow"]
    if len({end["args"].get("status", "success") for end in ends}) < 2:
        return [*calls]
    why = say("several_ends")
    return [update_call(c, action="error", reason=why) if c in ends else c for c in calls]


def _stop_circle(scope: RunScope, state: AgentState, call: PendingCall) -> PendingCall:
    """The call, refused if it delegates the same work again in spite of a warning."""
    repeats = scope.context.loop_repeats
    circle = find_repeat(state.own_evidence, call["name"], call["args"], stuck_at=repeats)
    if call["name"] != DELEGATE or circle is None or not circle.stuck:
        return call
    return update_call(call, action="error", reason=say("not_run", why=say("work_ends_here")))


def _find_outer_end(scope: RunScope) -> Reason | None:
    """Why a sub-agent must end, although it is within its own limits."""
    if scope.run.stopped():
        return "ABORTED"
    spent = scope.budget.reached_limit
    return get_limit_reason(spent) if spent else None


def _handle_words(state: AgentState, message: AIMessage, *, ends: bool, emit: Any) -> AgentUpdate:
    """Words without a call end the work of a lenient agent; else they are answered once."""
    if ends:
        report = Report(status="responded", summary=message.text)
        return AgentUpdate(report=report, task_completed=True)
    emit({"type": "protocol_violation", "task": state.path, "round": state.round + 1})
    if not state.nudged:
        return AgentUpdate(nudged=True)
    return AgentUpdate(halt="ERROR_NO_COMPLETE_TASK_CALL")

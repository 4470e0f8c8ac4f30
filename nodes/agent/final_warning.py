"""A limit is reached: check_limits says which, final_warning asks for the report."""

from functools import partial
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.runtime import Runtime

from ...calls.gate import assign_call_ids, read_calls
from ...models.ask import Answer, ask
from ...models.hidden_tags import read_words
from ...state.agent import (
    COMPLETE_TASK,
    MODEL_TURN,
    AgentState,
    AgentUpdate,
    Report,
    find_reached_limit,
    hide_end,
)
from ...state.context import Context
from ...state.messages import ENDS
from ...stream.turn_messages import make_error_answer
from ...text.sentences import say, says_nothing
from ..conversation import sign_message
from .shared.agent import Agent
from .shared.complete_task import salvage_report
from .shared.requests import build_request, make_turn_listeners, name_message


async def check_limits(
    state: AgentState, runtime: Runtime[Context], *, agent: Agent
) -> AgentUpdate:
    """Say which limit ends the work."""
    await agent.scope(state, runtime)
    return AgentUpdate(halt=state.halt or find_reached_limit(state))


async def final_warning(
    state: AgentState, runtime: Runtime[Context], *, agent: Agent
) -> AgentUpdate:
    """Ask for the report; what it saves is partial, and why the work ended stays."""
    scope = await agent.scope(state, runtime, turns=1)
    scope.emit({"type": "phase", "role": "agent", "action": "reporting", "round": state.round + 1})
    scope.budget.grant_last_turn()
    listed = (await agent.parts.toolbox.catalog(scope.user)).deferred_tools.render_listing()
    name = name_message(state)
    told = HumanMessage(say("final_warning", why=str(state.halt)))
    answer: Answer[Any] = await ask(
        agent.bound_requests(state, scope), agent.parts.models, "agent",
        [*build_request(scope, state, agent, listed), told], tools=[agent.complete.spec()],
        read=partial(read_words, with_tools=True), most_asks=1, settings=agent.settings,
        listeners=make_turn_listeners(scope, state, name),
    )  # fmt: skip
    update = AgentUpdate(spend=scope.add_seconds(answer.spend), warnings=scope.notes)
    message = assign_call_ids(answer.message, scope, round_=state.round + 1)
    if answer.refused or not answer.complete:
        return update
    report, about = _report(message, agent), {MODEL_TURN: scope.run.model_turn, ENDS: True}
    messages: list[BaseMessage] = [
        sign_message(
            message,
            hide_end(name, message.tool_calls, message.text),
            "agent",
            answer.reasoning,
            about,
        ),
        *_answers(message, accepted=report is not None),
    ]
    if message.text or len(messages) > 1:
        update["messages"] = messages
    return update | AgentUpdate(report=report)


def _report(message: AIMessage, agent: Agent) -> Report | None:
    """What the message saves; words without a call are shown, and prove nothing."""
    calls = [call["args"] for call in message.tool_calls if call["name"] == COMPLETE_TASK]
    reports = (salvage_report(args, agent.complete, agent.output) for args in calls)
    if calls:
        return next((report for report in reports if report), None)
    text = message.text.strip()
    return None if says_nothing(text) else Report(status="responded", summary=text)


def _answers(message: AIMessage, *, accepted: bool) -> list[ToolMessage]:
    """An answer to each call, so that the conversation can go on after a resume."""
    return [
        make_error_answer(str(call["id"]), say("completed"), status="success", name=COMPLETE_TASK)
        if accepted and call["name"] == COMPLETE_TASK
        else make_error_answer(str(call["id"]), say("turn_ended_first"))
        for call, _ in read_calls(message)
    ]

"""final_warning: one more turn in which an agent can call nothing but complete_task."""

from functools import partial
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.runtime import Runtime

from ...calls.of_message import calls_of, with_ids
from ...models.ask import Answer, ask
from ...models.hidden_tags import read_words
from ...state.agent import COMPLETE_TASK, MODEL_TURN, AgentState, AgentUpdate, Report
from ...state.context import Context
from ...state.messages import ENDS
from ...stream.shown import answer_to
from ...text.told import say
from ..conversation import own
from .shared.agent import Agent
from .shared.drafts import drafts_of
from .shared.requests import message_name, opening
from .tools.complete_task import saved


async def final_warning(
    state: AgentState, runtime: Runtime[Context], *, agent: Agent
) -> AgentUpdate:
    """Ask for the report; what it saves is partial, and why the work ended stays."""
    scope = await agent.scope(state, runtime, turns=1)
    scope.emit({"type": "phase", "role": "agent", "action": "reporting", "round": state.round + 1})
    scope.budget.last_turn()
    listed = (await agent.parts.toolbox.catalog(scope.user)).shelf.listed()
    name = message_name(state)
    told = HumanMessage(say("final_warning", why=str(state.halt)))
    answer: Answer[Any] = await ask(
        scope, agent.parts.models, "agent", [*opening(scope, state, agent, listed), told],
        tools=[agent.complete.spec()], read=partial(read_words, with_tools=True),
        most_asks=1, settings=agent.settings, listeners=drafts_of(scope, state, name),
    )  # fmt: skip
    update = AgentUpdate(spend=scope.used(answer.spend), warnings=scope.notes)
    message = with_ids(answer.message, scope, round_=state.round + 1)
    if answer.refused or not answer.complete:
        return update
    report, about = _report(message, agent), {MODEL_TURN: scope.run.model_turn, ENDS: True}
    messages: list[BaseMessage] = [
        own(message, name, "agent", answer.reasoning, about),
        *_answers(message, accepted=report is not None),
    ]
    if message.text or len(messages) > 1:
        update["messages"] = messages
    return update | AgentUpdate(report=report)


def _report(message: AIMessage, agent: Agent) -> Report | None:
    """What the message saves; words without a call are shown, and prove nothing."""
    calls = [call["args"] for call in message.tool_calls if call["name"] == COMPLETE_TASK]
    reports = (saved(args, agent.complete, agent.output) for args in calls)
    if calls:
        return next((report for report in reports if report), None)
    text = message.text.strip()
    return Report(status="responded", summary=text) if text else None


def _answers(message: AIMessage, *, accepted: bool) -> list[ToolMessage]:
    """An answer to each call, so that the conversation can go on after a resume."""
    return [
        answer_to(str(call["id"]), say("completed"), status="success", name=COMPLETE_TASK)
        if accepted and call["name"] == COMPLETE_TASK
        else answer_to(str(call["id"]), say("turn_ended_first"))
        for call, _ in calls_of(message)
    ]

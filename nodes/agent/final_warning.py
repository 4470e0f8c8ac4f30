"""final_warning: one more turn in which an agent can call nothing but complete_task."""

from functools import partial
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.runtime import Runtime

from ...calls.gate import calls_of
from ...models.ask import Answer, ask
from ...models.thoughts import read_words
from ...state.agent import COMPLETE_TASK, AgentState, AgentUpdate, Report
from ...state.context import Context
from ...state.stream.shown import answer_to
from ...state.told import say
from ...tools.arguments import check_arguments
from .agent import Agent
from .complete_task import report_of
from .requests import opening, own


async def final_warning(
    state: AgentState, runtime: Runtime[Context], *, agent: Agent
) -> AgentUpdate:
    """Ask for the report; what it saves is partial, and why the work ended stays."""
    scope = await agent.scope(state, runtime, turns=1)
    scope.emit({"type": "phase", "role": "agent", "action": "reporting", "round": state.round + 1})
    scope.budget.last_turn()
    listed = (await agent.parts.toolbox.catalog(scope.user)).shelf.listed()
    told = HumanMessage(say("final_warning", why=str(state.halt)))
    answer: Answer[Any] = await ask(
        scope, agent.parts.models, "agent", [*opening(scope, state, agent, listed), told],
        tools=[agent.complete.spec()], read=partial(read_words, with_tools=True),
        most_asks=1, settings=agent.settings,
    )  # fmt: skip
    update = AgentUpdate(spend=scope.used(answer.spend), warnings=scope.notes)
    message = answer.message
    if answer.refused or not answer.complete:
        return update
    name = f"{state.turn_id}.{state.path}.{state.round + 1}"
    report, problem = _report(message, agent)
    messages: list[BaseMessage] = [
        own(message, name, scope.model_turn, answer.reasoning, ends=False),
        *_answers(message, problem),
    ]
    if message.text or len(messages) > 1:
        update["messages"] = messages
    return update | AgentUpdate(report=report)


def _report(message: AIMessage, agent: Agent) -> tuple[Report | None, str]:
    """What the message saves; words without a call are shown, and prove nothing."""
    call = next((c for c in message.tool_calls if c["name"] == COMPLETE_TASK), None)
    if call is None:
        text = message.text.strip()
        return (Report(status="responded", summary=text) if text else None), ""
    args, problem = check_arguments(agent.complete.schema, call["args"])
    if problem:
        return None, problem
    report, problem = report_of({**args, "status": "partial"}, agent.output)
    if problem:  # the words are worth more than nothing
        report.pop("output", None)
        report["unmet"] = [*report["unmet"], say("output_does_not_fit", why=problem)]
    return report, ""


def _answers(message: AIMessage, problem: str) -> list[ToolMessage]:
    return [
        answer_to(str(call["id"]), say("turn_ended_first") if problem else say("completed"),
                  status="error" if problem else "success", name=str(call["name"]))
        if call["name"] == COMPLETE_TASK
        else answer_to(str(call["id"]), say("turn_ended_first"))
        for call, _ in calls_of(message)
    ]  # fmt: skip

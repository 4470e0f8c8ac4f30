"""The conversation of an agent, whose requests only ever grow."""

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage

from ....models.drafts import make_draft_listeners, make_told_listeners, wrap_reasoning
from ....models.request import Listener
from ....state.agent import (
    COMPLETE_TASK,
    MAIN,
    AgentState,
    TaskAgentState,
    find_objective,
    list_request_messages,
)
from ....state.messages import CUT, ENDS, REASONING, REJECTED, ROLE, TOLD, is_words, make_signature
from ....stream.turn_messages import make_message_id
from ....text.canonical import make_storable
from ....text.sentences import say
from ....tools.catalog import Catalog
from ....turn.end import build_answer_id
from ....turn.scope import RunScope
from ...conversation import render_open_resource, system_message, to_model_message
from .agent import Agent
from .memory import render_snapshot


def build_request(
    scope: RunScope, state: AgentState, agent: Agent, listed: str = ""
) -> list[BaseMessage]:
    """The request of the next model turn; `listed` are the names of tools it does not show."""
    system = scope.parts.prompts.get_prompt("agent", **scope.build_contexts())
    system = "\n\n".join(filter(None, [system, agent.definition.prompt.strip()]))
    told = render_open_resource(scope.context.resource_id, scope.context.task_id)
    history = render_history(list_request_messages(state))
    nudge = HumanMessage(say("nothing_called"))
    silent = state.nudged and bool(history) and history[-1].text != nudge.text
    head = system_message(scope, system, listed, state.hook_context)
    return [head, *told, *render_snapshot(state), *history, *([nudge] if silent else [])]


async def build_question(
    scope: RunScope, state: AgentState, agent: Agent, role: str, data: Mapping[str, object]
) -> tuple[list[BaseMessage], list[dict[str, Any]]]:
    """The agent's own request with a question of another role behind it, and its tools.

    A provider has read all but the question; the prompt of the role is a part of that.
    """
    catalog = await agent.parts.toolbox.catalog(scope.user)
    request = build_request(scope, state, agent, catalog.deferred_tools.render_listing())
    question = "\n\n".join(message.text for message in scope.build_opening(role, data))
    return [*request, HumanMessage(question)], catalog.specs(list_shown(state, catalog))


def list_shown(state: AgentState, catalog: Catalog) -> list[str]:
    """Of many tools those that a request defines: found ones, and what a sub-agent may need."""
    if state.path == MAIN:  # for the graph's own agent intake has looked
        return state.found
    return [*catalog.deferred_tools.find_likely(find_objective(state)), *state.found]


def render_history(messages: Sequence[AnyMessage]) -> list[BaseMessage]:
    """The messages as a model sees them, with a word of ours behind what did not stand."""
    history: list[BaseMessage] = []
    last = len(messages) - 1
    for place, message in enumerate(messages):
        about = message.additional_kwargs
        if message.type in ("tool", "human") and TOLD not in about and REJECTED not in about:
            history.append(message)
            continue
        words = is_words(message)
        if words and not message.content:
            continue
        cue = _render_cue(message)
        if words and not cue and (place == last or messages[place + 1].type == "ai"):
            cue = say("work_is_resumed")
        history += [to_model_message(message), *([HumanMessage(cue)] if cue else [])]
    return history


def _render_cue(message: AnyMessage) -> str:
    """What is said behind a message, always the same at the same place."""
    about, cue = message.additional_kwargs, ""
    if why := about.get(REJECTED):
        cue = say("answer_was_rejected", why=why, then=say("go_on"))
    elif is_words(message) and about.get(ROLE) == "agent" and not about.keys() & {CUT, ENDS}:
        cue = say("nothing_called")
    return "\n\n".join(filter(None, [cue, str(about.get(TOLD, ""))]))


def append_to_newest(state: AgentState, text: str) -> list[AnyMessage]:
    """The newest message, with this for the model behind it: every later request has it there."""
    newest = list_request_messages(state)[-1]
    about = newest.additional_kwargs
    text = "\n\n".join(filter(None, [str(about.get(TOLD, "")), text]))
    return [newest.model_copy(update={"additional_kwargs": {**about, TOLD: text}})]


def name_message(state: AgentState) -> str:
    """The id of the message that a model turn adds; that of a sub-agent is in no thread."""
    if isinstance(state, TaskAgentState):
        return make_message_id(state)
    return f"{state.turn_id}.{state.path}.{state.round + 1}"


def build_final_answer(state: AgentState, text: str, name: str) -> AIMessage:
    """The answer of a turn, with the thoughts of the model turn that gave it."""
    said = next((m for m in reversed(state.messages) if m.type == "ai"), None)
    thoughts = wrap_reasoning(str(said.additional_kwargs.get(REASONING, "")) if said else "")
    about = {**thoughts, **make_signature("agent"), ENDS: True}
    return AIMessage(make_storable(text), id=name, additional_kwargs=about)


def make_turn_listeners(scope: RunScope, state: AgentState, name: str) -> list[Listener]:
    """What hears a model turn with a message of this id; only the graph's own agent answers."""
    words = make_draft_listeners(scope, name, "agent")
    if not isinstance(state, TaskAgentState):
        return [*words, *make_told_listeners(scope, state.path, COMPLETE_TASK)]
    if not words:
        return words
    answer = make_draft_listeners(
        scope, build_answer_id(state), "agent", field="summary", call=COMPLETE_TASK
    )
    return [*words, *answer]

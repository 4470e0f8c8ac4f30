"""The conversation of an agent, whose requests only ever grow."""

from collections.abc import Sequence

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage

from ....models.drafts import thinking
from ....state.agent import AgentState, TaskAgentState, said
from ....state.messages import ENDS, REASONING, REJECTED, ROLE, TOLD, is_words, signature
from ....stream.shown import next_message
from ....text.canonical import storable
from ....text.told import say
from ....turn.scope import RunScope
from ...conversation import as_shown, system_message, what_is_open
from ..memory.masking import shown_masked
from ..memory.snapshot import told_snapshot
from .agent import Agent


def opening(
    scope: RunScope, state: AgentState, agent: Agent, listed: str = ""
) -> list[BaseMessage]:
    """The request of the next model turn; `listed` are the names of tools it does not show."""
    system = scope.parts.prompts.get_prompt("agent", **scope.contexts())
    system = "\n\n".join(filter(None, [system, agent.definition.prompt.strip()]))
    told = what_is_open(scope.context.resource_id, scope.context.task_id)
    messages = shown_masked(said(state), state.snapshot.get("mask", ""))
    history, nudge = shown(messages), HumanMessage(say("nothing_called"))
    silent = state.nudged and bool(history) and history[-1].text != nudge.text
    head = system_message(scope, system, listed, state.hook_context)
    return [head, *told, *told_snapshot(state), *history, *([nudge] if silent else [])]


def shown(messages: Sequence[AnyMessage]) -> list[BaseMessage]:
    """The messages as a model sees them, with a word of ours behind what did not stand."""
    history: list[BaseMessage] = []
    last = len(messages) - 1
    for place, message in enumerate(messages):
        words = is_words(message)
        if words and not message.content:
            continue
        cue = _cue(message)
        if words and not cue and (place == last or messages[place + 1].type == "ai"):
            cue = say("work_is_resumed")
        history += [as_shown(message), *([HumanMessage(cue)] if cue else [])]
    return history


def _cue(message: AnyMessage) -> str:
    """What is said behind a message, always the same at the same place."""
    about, cue = message.additional_kwargs, ""
    if why := about.get(REJECTED):
        cue = say("answer_was_rejected", why=why, then=say("go_on"))
    elif is_words(message) and about.get(ROLE) == "agent" and not about.get(ENDS):
        cue = say("nothing_called")
    return "\n\n".join(filter(None, [cue, str(about.get(TOLD, ""))]))


def behind_newest(state: AgentState, text: str) -> list[AnyMessage]:
    """The newest message, with this for the model behind it: every later request has it there."""
    newest = said(state)[-1]
    about = newest.additional_kwargs
    text = "\n\n".join(filter(None, [str(about.get(TOLD, "")), text]))
    return [newest.model_copy(update={"additional_kwargs": {**about, TOLD: text}})]


def message_name(state: AgentState) -> str:
    """The id of the message that a model turn adds; that of a sub-agent is in no thread."""
    if isinstance(state, TaskAgentState):
        return next_message(state)
    return f"{state.turn_id}.{state.path}.{state.round + 1}"


def signed(state: AgentState, text: str, name: str) -> AIMessage:
    """The answer of a turn, with the thoughts of the model turn that gave it."""
    said = next((m for m in reversed(state.messages) if m.type == "ai"), None)
    thoughts = thinking(str(said.additional_kwargs.get(REASONING, "")) if said else "")
    about = {**thoughts, **signature("agent"), ENDS: True}
    return AIMessage(storable(text), id=name, additional_kwargs=about)

"""The conversation of an agent, whose requests only ever grow."""

from collections.abc import Sequence

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, SystemMessage

from ...calls.gate import spelled_calls
from ...models.drafts import thinking, without_thoughts
from ...prompts.prompt import section
from ...state.agent import MODEL_TURN, AgentState, said
from ...state.canonical import storable
from ...state.messages import ENDS, REASONING, REJECTED, ROLE, is_words, signature
from ...state.told import say
from ...turn.scope import RunScope
from .agent import Agent
from .memory.masking import shown_masked
from .memory.snapshot import told_snapshot

TOLD = "told"
"""Key in a message's `additional_kwargs`: what the model is told behind it."""


def opening(
    scope: RunScope, state: AgentState, agent: Agent, listed: str = ""
) -> list[BaseMessage]:
    """The request of the next model turn; `listed` are the names of tools it does not show."""
    system = scope.prompts.get_prompt("agent", **scope.contexts())
    system = "\n\n".join(filter(None, [system, agent.definition.prompt.strip()]))
    if listed:
        system = f"{system}\n\n{section('more_tools', listed)}"
    if notes := scope.hook_notes(state.hook_context):
        system = f"{system}\n\n{section('additional_context', notes)}"
    context = scope.context
    told = [HumanMessage(say("what_is_open", resource=context.resource_id, task=context.task_id))]
    open_ = told if context.resource_id or context.task_id else []
    messages = shown_masked(said(state), state.snapshot.get("mask", ""))
    history, nudge = shown(messages), HumanMessage(say("nothing_called"))
    silent = state.nudged and bool(history) and history[-1].text != nudge.text
    before = [SystemMessage(system), *open_, *told_snapshot(state)]
    return [*before, *history, *([nudge] if silent else [])]


def shown(messages: Sequence[AnyMessage]) -> list[BaseMessage]:
    """The messages as a model sees them, with a word of ours behind what did not stand."""
    history: list[BaseMessage] = []
    last = len(messages) - 1
    for place, message in enumerate(messages):
        words, about = is_words(message), message.additional_kwargs
        if words and not message.content:
            continue
        cue = _cue(message)
        if words and not cue and (place == last or messages[place + 1].type == "ai"):
            cue = say("work_is_resumed")
        if message.type not in ("human", "ai", "tool"):  # of a client: words of the user
            message = HumanMessage(message.content, id=message.id)
        elif words and REASONING in about and isinstance(message, AIMessage):
            message = without_thoughts(message)
        history += [spelled_calls(message), *([HumanMessage(cue)] if cue else [])]
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
    newest = state.messages[-1]
    about = newest.additional_kwargs
    text = "\n\n".join(filter(None, [str(about.get(TOLD, "")), text]))
    return [newest.model_copy(update={"additional_kwargs": {**about, TOLD: text}})]


def own(message: AIMessage, name: str, turn: str, reasoning: str = "", *, ends: bool) -> AIMessage:
    """The message as the conversation keeps it: signed, under an id no other message has."""
    if is_words(message):  # with calls some providers want their thoughts back as they were
        message = without_thoughts(message)
    content = message.content
    about = {**thinking(reasoning), **signature("agent"), MODEL_TURN: turn}
    marks = {ENDS: True} if ends else {}
    update = {
        "content": storable(content) if isinstance(content, str) else content,
        "id": name,
        "additional_kwargs": {**message.additional_kwargs, **about, **marks},
    }
    return message.model_copy(update=update)


def signed(state: AgentState, text: str, name: str) -> AIMessage:
    """The answer of a turn, with the thoughts of the model turn that gave it."""
    said = next((m for m in reversed(state.messages) if m.type == "ai"), None)
    thoughts = thinking(str(said.additional_kwargs.get(REASONING, "")) if said else "")
    about = {**thoughts, **signature("agent"), ENDS: True}
    return AIMessage(storable(text), id=name, additional_kwargs=about)

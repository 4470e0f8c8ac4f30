"""A conversation with a model: its messages as requests show them, and as the state keeps them."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
)

from ..calls.gate import fix_call_names
from ..models.drafts import drop_thoughts, wrap_reasoning
from ..prompts.prompt import render_section
from ..state.messages import REASONING, is_words, make_signature
from ..text.canonical import make_storable
from ..text.sentences import say
from ..turn.scope import RunScope

_OURS: Final = frozenset({"human", "ai", "tool"})
"""The roles in a conversation; only the package itself gives a model a system message."""


def system_message(scope: RunScope, prompt: str, listed: str, notes: list[str]) -> SystemMessage:
    """A prompt, the names of tools that are `listed` alone, and what hooks have noted."""
    told = scope.join_hook_notes(notes)
    more = render_section("more_tools", listed) if listed else ""
    around = render_section("additional_context", told) if told else ""
    return SystemMessage("\n\n".join(filter(None, [prompt, more, around])))


def render_open_resource(resource: str, task: str) -> list[HumanMessage]:
    """What a client says is open, if it does: its text is in no role but the user's."""
    if not (resource or task):
        return []
    return [HumanMessage(say("what_is_open", resource=resource, task=task))]


def to_model_message(message: AnyMessage) -> BaseMessage:
    """A message as a model sees it: what providers would refuse is mended, thoughts are left out.

    With calls some providers want the thoughts back as they were.
    """
    if message.type not in _OURS:  # such as a client's system message: words of the user
        return HumanMessage(message.content, id=message.id)
    thought = REASONING in message.additional_kwargs
    if thought and isinstance(message, AIMessage) and is_words(message):
        return drop_thoughts(message)
    return fix_call_names(message)


def sign_message(
    message: AIMessage,
    name: str,
    role: str,
    reasoning: str = "",
    marks: Mapping[str, object] = MappingProxyType({}),
) -> AIMessage:
    """A model's message as the conversation keeps it.

    Args:
        message: The model's.
        name: The id it has from now on, which no other message has.
        role: Who speaks by it.
        reasoning: What the model thought; no later request holds it.
        marks: What else is known of it, such as `ENDS`; what does not hold is left out.
    """
    if is_words(message):
        message = drop_thoughts(message)
    content = message.content
    update = {
        "content": make_storable(content) if isinstance(content, str) else content,
        "id": name,
        "additional_kwargs": message.additional_kwargs
        | wrap_reasoning(reasoning)
        | make_signature(role)
        | {mark: value for mark, value in marks.items() if value},
    }
    return message.model_copy(update=update)

"""What the phases of the ReAct loop share: one history, shown so that requests only ever grow.

Every request of a phase begins with the one before it, byte for byte, so that providers can reuse
what they have read. None ends with words of the assistant: some providers take those for the
beginning of the answer, some refuse them. So a cue follows them, always the same at the same
place; it is shown, never stored.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import takewhile, zip_longest
from typing import Any, Final

from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
)

from ...calls.gate import spelled_calls
from ...doors.message_stream import REASONING
from ...models.drafts import thinking, without_thoughts
from ...prompts.prompt import section
from ...state.canonical import storable
from ...state.messages import ENDS, PACKAGE, ROLE, is_words, signature
from ...state.react import Phase, ReactState
from ...state.shown import next_message
from ...state.told import say
from ...turn.scope import RunScope

MOST_ASKS: Final = 2
OURS: Final = frozenset({"human", "ai", "tool"})
"""The roles in a conversation; only the package itself gives a model a system message."""
REPEATS: Final = "repeats"
"""Marks a message that says what was said again and again."""
REJECTED: Final = "rejected"
"""Holds why a hook did not accept such a message."""


def opening(
    scope: RunScope, role: Phase, state: ReactState, tools: Sequence[Mapping[str, Any]] = ()
) -> list[BaseMessage]:
    """The request of a phase: its system prompt, which may list tools, and the shared history."""
    resource, task = scope.context.resource_id, scope.context.task_id
    told = list[HumanMessage]()
    if scope.of_client:
        told, resource, task = _words_of_client(resource, task), "", ""
    system = scope.prompts.get_phase_prompt(role, resource, task, tools, **scope.contexts(role))
    if notes := scope.hook_notes(state.hook_context):
        system = f"{system}\n\n{section('additional_context', notes)}"
    return [SystemMessage(system), *told, *shown(state.messages)]


def _words_of_client(resource: str, task: str) -> list[HumanMessage]:
    """What a client says is open: its text is in no role but the user's."""
    if not (resource or task):
        return []
    return [HumanMessage(say("what_is_open", resource=resource, task=task))]


def shown(messages: Sequence[AnyMessage]) -> list[BaseMessage]:
    """The history with a cue between words of the assistant and what the assistant says next.

    What providers refuse, and a client or an older version may have left there, is mended.
    """
    history: list[BaseMessage] = []
    said = [message for message in messages if message.content or not is_words(message)]
    for message, follows in zip_longest(said, said[1:]):
        words = is_words(message)
        if isinstance(message, AIMessage) and words and REASONING in message.additional_kwargs:
            message = without_thoughts(message)
        history.append(_of_user(message) if message.type not in OURS else spelled_calls(message))
        if words and (follows is None or follows.type == "ai"):
            history.append(_cue(message))
    return history


def _of_user(message: AnyMessage) -> HumanMessage:
    """What is in no role of ours, such as a client's system message: words of the user."""
    return HumanMessage(message.content, id=message.id)


def _cue(message: AnyMessage) -> HumanMessage:
    about = message.additional_kwargs
    acts = about.get(ROLE) == "thought" and not about.get(ENDS)
    text = say("take_this_step" if acts else "what_next")
    if about.get(REPEATS):
        text = say("said_again", then=text)
    if about.get(REJECTED):
        text = say("answer_was_rejected", why=about[REJECTED], then=say("what_next"))
    return _as_cue(text)


@lru_cache(maxsize=64)
def _as_cue(text: str) -> HumanMessage:
    """Every request holds one for each earlier step: made once, not once a request."""
    return HumanMessage(text, additional_kwargs={ROLE: PACKAGE})


def said_since_call(messages: Sequence[AnyMessage]) -> list[str]:
    """What the assistant said after the newest result or word of the user, oldest first."""
    said = takewhile(
        lambda m: m.type == "ai" and not m.additional_kwargs.get(REPEATS), messages[::-1]
    )
    return [str(message.text) for message in said][::-1]


def own(
    message: AIMessage, state: ReactState, role: Phase, reasoning: str = "", **marks: bool
) -> AIMessage:
    """The message as the history keeps it: signed, and under an id no other message has.

    Args:
        message: The model's.
        state: Before the message.
        role: The phase that asked for it.
        reasoning: What the model thought; no later request holds it.
        marks: `ENDS` where it is the answer of the turn, `REPEATS` where it says what was said.
    """
    if is_words(message):  # with calls some providers want their thoughts back as they were
        message = without_thoughts(message)
    content = message.content
    update = {
        "content": storable(content) if isinstance(content, str) else content,
        "id": message_id(state),
        "additional_kwargs": message.additional_kwargs
        | thinking(reasoning)
        | signature(role)
        | {mark: True for mark, holds in marks.items() if holds},
    }
    return message.model_copy(update=update)


def message_id(state: ReactState) -> str:
    """The id of the next message of this turn."""
    return next_message(state)

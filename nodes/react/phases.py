"""What the phases of the ReAct loop share: one conversation, whose requests only ever grow.

All phases have one system prompt and one list of tools, and every request begins with the one
before it, byte for byte, so that providers can reuse what they have read. Which phase is asked is
said by a cue behind the history: shown, never stored, always the same at the same place. None is
needed behind the user or a result, where a thought is due. It also keeps requests from ending with
words of the assistant: some providers take those for the beginning of the answer, some refuse them.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import takewhile
from typing import Any, Final

from langchain_core.messages import AnyMessage, BaseMessage, HumanMessage

from ...state.messages import PACKAGE, REJECTED, REPEATS, ROLE, is_words
from ...state.react import Phase, ReactState
from ...text.sentences import LANGUAGE, say
from ...tools.catalog import FIND_TOOLS, Catalog
from ...turn.scope import RunScope
from ..conversation import render_open_resource, system_message, to_model_message

MOST_ASKS: Final = 2


def build_request(
    scope: RunScope, role: Phase, state: ReactState, catalog: Catalog
) -> tuple[list[BaseMessage], list[dict[str, Any]]]:
    """The request of a phase, and the tools to send with it.

    A phase with its own template gets the definitions of the tools only if it calls them.
    """
    context, prompts = scope.context, scope.parts.prompts
    resource, task = context.resource_id, context.task_id
    told = list[HumanMessage]()
    if scope.run.of_client:
        told, resource, task = render_open_resource(resource, task), "", ""
    with_tools = role == "action" or prompts.is_shared(role, context.language or "")
    summed_up = () if with_tools else catalog.summaries(state.request)
    prompt = prompts.get_phase_prompt(role, resource, task, summed_up, **scope.build_contexts())
    system = system_message(
        scope, prompt, catalog.deferred_tools.render_listing(), state.hook_context
    )
    request = [system, *told, *render_history(state.messages, role)]
    return request, catalog.specs(state.found) if with_tools else []


def render_history(messages: Sequence[AnyMessage], role: Phase) -> list[BaseMessage]:
    """The history with the cue before each phase, and before the one that is asked."""
    history: list[BaseMessage] = []
    before: AnyMessage | None = None
    for message in messages:
        if is_words(message) and not message.content:
            continue
        if message.type == "ai":
            history += _render_cue(before, message.additional_kwargs.get(ROLE))
        history.append(to_model_message(message))
        before = message
    return [*history, *_render_cue(before, role)]


_CUES: Final = {"action": "take_this_step", "observation": "sum_up"}


def _render_cue(before: AnyMessage | None, role: object) -> list[HumanMessage]:
    """The cue for this phase; none for a thought after the user or a result."""
    spoke = before is not None and is_words(before)
    if role not in _CUES and not spoke:
        return []
    about = before.additional_kwargs if before is not None and spoke else {}
    repeats, rejected = bool(about.get(REPEATS)), str(about.get(REJECTED) or "")
    name = _CUES.get(str(role), "what_next")
    return [_make_cue(name, LANGUAGE.get(), rejected, repeats=repeats)]


@lru_cache(maxsize=64)
def _make_cue(name: str, _language: str, rejected: str, *, repeats: bool) -> HumanMessage:
    """Every request holds one for each earlier step: made once, not once a request."""
    text = say(name)
    if repeats:
        text = say("said_again", then=text)
    if rejected:
        text = say("answer_was_rejected", why=rejected, then=text)
    return HumanMessage(text, additional_kwargs={ROLE: PACKAGE})


def list_recent_words(messages: Sequence[AnyMessage]) -> list[str]:
    """What the assistant said after the newest result or word of the user, oldest first."""
    said = takewhile(
        lambda m: m.type == "ai" and not m.additional_kwargs.get(REPEATS), messages[::-1]
    )
    return [str(message.text) for message in said][::-1]


def has_only_searches(messages: Sequence[AnyMessage]) -> bool:
    """Whether the newest results only say which tools can be called from now on."""
    newest = list(takewhile(lambda m: m.type == "tool", reversed(messages)))
    return bool(newest) and all(message.name == FIND_TOOLS for message in newest)

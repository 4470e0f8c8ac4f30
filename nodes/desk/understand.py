"""understand: what the customer wants, how they feel, what they have told; by rules, or a model."""

import hashlib

from langgraph.runtime import Runtime

from ...models.ask import ask
from ...state.canonical import canonical
from ...state.context import Context
from ...state.desk import DeskState, DeskUpdate, Feeling
from ...state.phrases import consent_in, is_closing, language_of, names_one_of, wants_human
from ...state.understanding import Understanding
from ...turn.scope import RunScope, scope_of
from .desk import Desk


async def understand(state: DeskState, runtime: Runtime[Context], *, desk: Desk) -> DeskUpdate:
    """Note what the last message says; where words alone tell it, no model is asked."""
    scope = await scope_of(state, runtime, desk.parts)
    scope.emit({"type": "phase", "role": "listener", "action": "listening", "round": 0})
    text = state.request
    update = DeskUpdate(language=language_of(text) or state.language, closed=False)
    if intent := _by_words(state, desk):
        return update | DeskUpdate(intent=intent)
    if state.proposal is not None and (word := consent_in(text)):
        return update | DeskUpdate(intent=state.intent, consent=word)
    return update | await _by_model(scope, state, desk)


def _by_words(state: DeskState, desk: Desk) -> str:
    text = state.request
    if names_one_of(text, desk.company.sensitive):
        return "sensitive"
    if wants_human(text):
        return "human"
    return "closing" if is_closing(text) else ""


async def _by_model(scope: RunScope, state: DeskState, desk: Desk) -> DeskUpdate:
    known = {"request": state.request, "conversation": state.conversation, "situation": state.slots}
    request = scope.opening("listener", known, state.attachments)
    answer = await ask(scope, desk.parts.models, "listener", request, contract=Understanding)
    told = answer.parsed
    update = DeskUpdate(spend=scope.used(answer.spend), warnings=scope.notes)
    if told is None:  # act may still be able to help
        return update | DeskUpdate(intent="question")
    slots = {**state.slots, **{slot.name: slot.value for slot in told.slots}}
    issue = state.issue
    if not issue or not (told.same_question or told.intent == state.intent):
        issue = hashlib.sha256(canonical([told.intent, slots]).encode()).hexdigest()[:12]
    felt = Feeling(turn=state.turn, mood=told.mood, score=told.score)
    return update | DeskUpdate(
        intent=told.intent, slots=slots, issue=issue, mood=[*state.mood, felt],
        consent="changed" if state.proposal else "",
        answer=told.question if told.missing else "",
    )  # fmt: skip

"""understand: what the customer wants, how they feel, what they have told; by rules, or a model."""

import hashlib
from collections.abc import Mapping
from itertools import takewhile
from typing import Final

from langgraph.runtime import Runtime

from ...models.ask import ask
from ...policy.desk.phrases import (
    detect_language,
    is_call_for_human,
    is_closing,
    is_greeting,
    make_own_words_test,
    names_one_of,
    read_consent,
    read_rating,
    read_settlement,
)
from ...state.context import Context
from ...state.desk import DeskState, DeskUpdate, Feeling, Understanding
from ...state.messages import ROLE, find_request
from ...text.canonical import canonical
from ...turn.scope import RunScope, make_scope
from .desk import Desk

_NO_ISSUE: Final = frozenset({"chat", "off_topic", "closing", "human"})


async def understand(state: DeskState, runtime: Runtime[Context], *, desk: Desk) -> DeskUpdate:
    """Note what the last message says; where words alone tell it, no model is asked."""
    scope = await make_scope(state, runtime, desk.parts)
    scope.emit({"type": "phase", "role": "listener", "action": "listening", "round": 0})
    before = state.language or desk.company.languages[0]
    update = DeskUpdate(language=detect_language(state.request, before), closed=False)
    if state.closed or not state.opened:
        update["opened"] = state.turn
    if (said := classify_by_words(state, desk)) is not None:
        return update | said
    return update | await _classify_by_model(scope, state, desk, update.get("opened", state.opened))


def classify_by_words(state: DeskState, desk: Desk) -> DeskUpdate | None:
    """What plain words say; None where they do not tell."""
    text = _join_new_messages(state)
    if names_one_of(text, desk.company.sensitive):
        return DeskUpdate(intent="sensitive")
    if is_call_for_human(text):
        return DeskUpdate(intent="human")
    if state.attachments:
        return None
    about = "question" if state.intent in _NO_ISSUE | {"sensitive"} else state.intent
    if state.open_proposal and (word := read_consent(text)):
        return DeskUpdate(intent=about, consent=word)
    if state.asked == "satisfied" and (mark := read_rating(text)):
        return DeskUpdate(intent="closing", satisfaction=mark)
    if is_closing(text):
        return DeskUpdate(intent="closing")
    if state.asked in ("solved", "else") and (word := read_settlement(text)):
        unsettled = state.asked == "solved" and word == "no"
        return DeskUpdate(intent=about, consent=word, again=state.again + unsettled)
    began = any(ROLE in message.additional_kwargs for message in state.messages)
    return DeskUpdate(intent="chat") if is_greeting(text) and not began else None


def _join_new_messages(state: DeskState) -> str:
    """What the customer wrote since they were answered: a yes after other words is no yes."""
    if state.owner == "returning":
        return state.request
    before = state.messages[: find_request(state.messages, state.request_message)]
    more = [*takewhile(lambda message: message.type == "human", reversed(before))][::-1]
    without_words = "?"
    return "\n".join([*(m.text.strip() or without_words for m in more), state.request])


async def _classify_by_model(
    scope: RunScope, state: DeskState, desk: Desk, opened: int
) -> DeskUpdate:
    situation = {"known": state.slots, "last_intent": state.intent}
    known = {
        "request": state.request, "conversation": state.conversation, "situation": situation,
    }  # fmt: skip
    request = scope.build_opening("listener", known, state.attachments)
    answer = await ask(scope, desk.parts.models, "listener", request, contract=Understanding)
    told = answer.parsed or Understanding(intent="question")  # act may still be able to help
    update = DeskUpdate(spend=scope.add_seconds(answer.spend), warnings=scope.notes)
    slots = _check_slots(state, told)
    issue = _fingerprint_issue(state, told, slots, opened)
    same, old = told.same_question, issue == state.issue
    missing = [name for name in told.missing if not _is_known(name, {**state.slots, **slots})]
    return update | DeskUpdate(
        intent=told.intent, slots={**state.slots, **slots}, issue=issue,
        mood=[*state.mood, Feeling(turn=state.turn, mood=told.mood, score=told.score)],
        consent="changed" if state.open_proposal else "",
        clarifications=state.clarifications if old else 0,
        again=state.again + (same and issue in state.answered) if old else 0,
        answer=told.question if missing else "",
    )  # fmt: skip


def _check_slots(state: DeskState, told: Understanding) -> dict[str, str]:
    """What the customer has said now: what they never wrote is made up."""
    is_own = make_own_words_test(
        message.text for message in state.messages if message.type == "human"
    )
    return {slot.name: slot.value for slot in told.slots if is_own(slot.value)}


def _is_known(name: str, slots: Mapping[str, str]) -> bool:
    """Whether something that is to be asked for stands in a slot, by its name."""
    words, *known = (set(one.replace("_", " ").casefold().split()) for one in (name, *slots))
    return any(value and one <= words for one, value in zip(known, slots.values(), strict=True))


def _fingerprint_issue(
    state: DeskState, told: Understanding, slots: Mapping[str, str], opened: int
) -> str:
    """The fingerprint of the issue: new for another intent, another order, or after an end."""
    if told.intent in _NO_ISSUE:
        return state.issue
    follows = told.same_question or state.asked == "detail" or state.open_proposal is not None
    before = state.slots
    other = any(
        name in before and before[name] != value for name, value in _select_ids(slots).items()
    )
    if state.issue and not state.closed and (follows or told.intent == state.intent) and not other:
        return state.issue
    subject = _select_ids({**before, **slots})
    seed = canonical([opened, told.intent, subject])
    return hashlib.sha256(seed.encode()).hexdigest()[:12]


def _select_ids(slots: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in slots.items() if any(c.isdigit() for c in value)}

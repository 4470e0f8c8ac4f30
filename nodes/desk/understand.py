"""understand: what the customer wants, how they feel, what they have told; by rules, or a model.

Only whole messages are read by rules: an answer to the question that was put, a figure, and the few
phrases of a language's file. Whatever says more is for the listener, whose quotes code checks.
"""

import hashlib
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import takewhile
from typing import Final

from langgraph.runtime import Runtime

from ...models.ask import ask
from ...state.context import Context
from ...state.desk import (
    Consent,
    DeskState,
    DeskUpdate,
    Feeling,
    Proposal,
    Understanding,
    read_language,
)
from ...state.messages import ROLE, find_request
from ...text.canonical import canonical
from ...text.sentences import ENGLISH, classify_message, guess_language
from ...text.words import fold_case, fold_digits
from ...turn.scope import RunScope, make_scope
from .desk import Desk
from .proposals import emit_proposal, has_expired

_NO_ISSUE: Final = frozenset({"chat", "off_topic", "closing", "human"})
_CHOICE: Final = re.compile(r"\s*([12])(?:\s+#?(q[0-9a-f]{6}))?\s*")
_MARK: Final = re.compile(r"\s*([1-5])(?:\s*/\s*5)?[.!\u3002]?\s*")


async def understand(state: DeskState, runtime: Runtime[Context], *, desk: Desk) -> DeskUpdate:
    """Note what the last message says; where it is a plain answer, no model is asked."""
    scope = await make_scope(state, runtime, desk.parts)
    scope.emit({"type": "phase", "role": "listener", "action": "listening", "round": 0})
    put = state.open_proposal
    update = DeskUpdate(closed=False, language=state.language or desk.company.languages[0])
    if put is not None and has_expired(put, desk, datetime.now(UTC)):
        put = None
    if state.closed or not state.opened:
        update["opened"] = state.turn
    if (said := classify_by_words(state, desk, put)) is None:
        opened = update.get("opened", state.opened)
        said = await _classify_by_model(scope, state, desk, opened, put)
    if put is not None:
        answered = {"yes": "yes", "no": "no", "unclear": ""}.get(said.get("consent", ""), "other")
        emit_proposal(scope, state, put, answered)
    return update | said


def classify_by_words(state: DeskState, desk: Desk, put: Proposal | None) -> DeskUpdate | None:
    """What a whole message says; None where it says more than code may read."""
    texts = _list_new_messages(state)
    language = guess_language("\n".join(texts), state.language or desk.company.languages[0])
    if desk.company.names_sensitive("\n".join(texts)):
        return DeskUpdate(intent="sensitive", language=language)
    heard = {classify_message(text, language) for text in texts}
    said, spoken = heard.pop() if len(heard) == 1 else ("", "")
    text = texts[0] if len(texts) == 1 else ""
    update = DeskUpdate(language=spoken or language)
    if said == "human":
        return update | DeskUpdate(intent="human")
    if state.attachments:
        return None
    about = "question" if state.intent in _NO_ISSUE | {"sensitive"} else state.intent
    if put is not None:
        is_word = spoken in (language, ENGLISH) and not put.get("beside")
        word = read_consent(text, said if is_word else "", put["id"])
        return DeskUpdate(intent=about, consent=word) if word else None
    if state.asked == "satisfied" and (mark := read_mark(text)):
        return DeskUpdate(intent="closing", satisfaction=mark)
    if said == "thanks":
        return update | DeskUpdate(intent="closing")
    if state.asked in ("solved", "else") and said in ("yes", "no"):
        word, unsettled = _as_consent(said), state.asked == "solved" and said == "no"
        return DeskUpdate(intent=about, consent=word, again=state.again + unsettled)
    began = any(ROLE in message.additional_kwargs for message in state.messages)
    return update | DeskUpdate(intent="chat") if said == "hello" and not began else None


def read_consent(text: str, said: str, name: str) -> Consent:
    """The answer to the question of this name: `1`, `2`, with its name or without, or a word."""
    if choice := _CHOICE.fullmatch(fold_digits(text)):
        return "" if choice[2] not in (None, name) else "yes" if choice[1] == "1" else "no"
    return _as_consent(said)


def _as_consent(said: str) -> Consent:
    return "yes" if said == "yes" else "no" if said == "no" else ""


def read_mark(text: str) -> int | None:
    """How satisfied the customer is, where they say nothing but a figure from 1 to 5, or stars."""
    if found := _MARK.fullmatch(fold_digits(text)):
        return int(found[1])
    stars = re.fullmatch("(?:[\u2b50\u2605]\\s*){1,5}", text.strip())
    return len(re.findall("[\u2b50\u2605]", text)) if stars else None


def _list_new_messages(state: DeskState) -> list[str]:
    """What the customer wrote since they were answered: a yes after other words is no yes."""
    if state.owner == "returning":
        return [state.request]
    before = state.messages[: find_request(state.messages, state.request_message)]
    more = [*takewhile(lambda message: message.type == "human", reversed(before))][::-1]
    without_words = "?"
    return [*(m.text.strip() or without_words for m in more), state.request]


async def _classify_by_model(
    scope: RunScope, state: DeskState, desk: Desk, opened: int, put: Proposal | None
) -> DeskUpdate:
    language = guess_language(state.request, state.language or desk.company.languages[0])
    situation = {"known": state.slots, "last_intent": state.intent}
    if put is not None:
        situation["open_question"] = put["words"]
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
        language=read_language(told.language, language),
        mood=[*state.mood, Feeling(turn=state.turn, mood=told.mood, score=told.score)],
        consent=_check_consent(state, told, put) if put else "",
        asks_else=put is not None and not told.consent,
        asks_change=told.asks_change or told.intent == "refund",
        clarifications=state.clarifications if old else 0,
        again=state.again + (same and issue in state.answered) if old else 0,
        answer=told.question if missing else "",
    )  # fmt: skip


def _check_consent(state: DeskState, told: Understanding, put: Proposal) -> Consent:
    """What the listener makes of an answer; a yes lets through only what the company allows so."""
    if told.consent == "changed":
        return "changed"
    quoted = _squeeze(told.consent_quote) in _squeeze(state.request) and told.consent_quote.strip()
    if told.consent == "no" and quoted:
        return "no"
    may_rest_on_quote = all(call["quoted"] for call in put["calls"])
    return "yes" if told.consent == "yes" and quoted and may_rest_on_quote else "unclear"


def _check_slots(state: DeskState, told: Understanding) -> dict[str, str]:
    """What the customer has said now, as they wrote it: what they never wrote is made up."""
    known = state.messages_with_customer
    said = _squeeze(" ".join(message.text for message in known if message.type == "human"))
    squeezed = ((slot, _squeeze(slot.value)) for slot in told.slots)
    return {slot.name: slot.value for slot, value in squeezed if value and value in said}


def _squeeze(text: str) -> str:
    """The letters and digits of a text alone."""
    return re.sub(r"[\W_]+", "", fold_case(text))


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

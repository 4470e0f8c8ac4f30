"""What keeps an answer from a customer: the mandates of the desk as checks. Pure.

The table in docs/customer-service.md says which mandate is which check, and which cannot be one.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

from langchain_core.messages import AnyMessage, ToolMessage

from ...state.desk import DeskState, Source, find_cited_ids
from ...text.canonical import weigh
from ...text.sentences import say
from .grounding import Grounds, find_unproven
from .phrases import is_alike, names_one_of

KNOWLEDGE: Final = frozenset({"question", "technical"})
"""Intents whose answers stand on articles, or on what a tool told."""
LONGEST: Final = 1_800
"""Of an answer, as `weigh` counts."""
_LINE: Final = 40
_SHORT: Final = 3


def find_problems(state: DeskState, grounds: Grounds, prompt: str) -> list[str]:
    """What is wrong with the answer, in words for the model that wrote it."""
    answer, found = state.answer, grounds.articles
    if not answer.strip():
        return [say("desk_says_nothing")]
    if weigh(answer) > 2 * LONGEST:  # whoever says less says something else
        return [say("desk_too_long")]
    wrong = {
        "desk_search_first" if not found else "desk_no_source": is_unsourced(state, found),
        "desk_same_answer": _is_repetition(state),
        "desk_private": is_private(state),
        "desk_not_made": claims_a_change(state),
        "desk_tells_rules": _is_prompt_quote(answer, prompt),
        "desk_rude": names_one_of(answer, _RUDE),
        "desk_too_long": weigh(answer) > LONGEST,
    }
    told = [say(name) for name, holds in wrong.items() if holds]
    return told + [one for one in find_unproven(answer, grounds) if one not in told]


# Accuracy


def select_good(sources: Mapping[str, Source], enough: float) -> set[str]:
    """The articles that fit well enough to carry an answer."""
    return {name for name, source in sources.items() if source["score"] >= enough}


def is_unsourced(state: DeskState, found: Collection[str]) -> bool:
    """Whether an answer about products or rules stands on nothing; a question back may."""
    if state.intent not in KNOWLEDGE or asks_back(state.answer):
        return False
    if any(name in found for name in find_cited_ids(state.answer, found)):
        return False
    articles = list_search_tools(state.messages)
    told = [r for r in state.evidence if r["status"] == "success" and r["tool"] not in articles]
    return not told


def list_search_tools(messages: Iterable[AnyMessage]) -> set[str]:
    """Tools that gave articles, or that found none."""
    return {
        str(m.name)
        for m in messages
        if isinstance(m, ToolMessage) and "articles" in _list_keys(read_data(m))
    }


def read_data(message: AnyMessage) -> Any:
    """The result of a tool as data."""
    artifact = message.artifact if isinstance(message, ToolMessage) else None
    return artifact.get("data") if isinstance(artifact, Mapping) else None


def _list_keys(data: Any) -> Iterable[str]:
    return data.keys() if isinstance(data, Mapping) else ()


_SENTENCE: Final = re.compile(r"[^.!?\n。！？]+[.!?\n。！？]*")  # noqa: RUF001 - full-width on purpose
_COURTESY: Final = 60
"""The longest sentence before a question that may be politeness alone, as `weigh` counts."""


def asks_back(answer: str) -> bool:
    """Whether an answer asks the customer for something, and states nothing."""
    parts = [part.strip() for part in _SENTENCE.findall(answer) if part.strip()]
    told = [part for part in parts if not part.endswith(("?", "？"))]  # noqa: RUF001 - as above
    if len(told) == len(parts) or len(told) > 1:
        return False
    return all(weigh(part) <= _COURTESY and not re.search(r"\d", part) for part in told)


# Privacy


def is_private(state: DeskState) -> bool:
    """Whether it tells what a tool said of somebody whom the customer has not proven to be."""
    said = " ".join(m.text for m in state.messages if m.type == "human").casefold()
    own = state.identity.get("customer_id")
    answer = state.answer.casefold()
    return any(
        value not in said and re.search(rf"(?<![a-z0-9]){re.escape(value)}(?![a-z0-9])", answer)
        for message in state.messages
        for value in _find_foreign_data(read_data(message), own)
        if value in answer
    )


def _find_foreign_data(data: Any, own: object) -> Iterator[str]:
    """What stands in a result of a customer who is not this one."""
    if isinstance(data, Mapping):
        if data.get("customer_id") not in (None, own):
            yield from _list_values(data)
            return
        data = list(data.values())
    for one in data if isinstance(data, list) else ():
        yield from _find_foreign_data(one, own)


def _list_values(data: Any) -> Iterator[str]:
    """What tells somebody apart in a result: names, places, dates, numbers."""
    if isinstance(data, Mapping):
        for one in data.values():
            yield from _list_values(one)
    elif isinstance(data, list):
        for one in data:
            yield from _list_values(one)
    elif isinstance(data, str | int | float) and not isinstance(data, bool):
        text = str(data).casefold()
        if len(text) >= _SHORT and text not in _COMMON:
            yield text


_COMMON: Final = frozenset({
    "eur", "usd", "cny", "gbp", "standard", "gold", "open", "low", "normal", "high", "urgent",
    "processing", "shipped", "delivered", "returned", "cancelled", "lamp", "sofa", "chair",
})  # fmt: skip
"""Values that tell nothing of anybody."""


# Compliance

_DONE: Final = (
    r"refunded|created|cancell?ed|changed|updated|opened|issued|processed|transferred|escalated"
    r"|booked|reset|registered|submitted|arranged|initiated|approved"
)
_CLAIM: Final = re.compile(
    rf"\b(?:i|we)(?:['\u2019]ve| have)?(?: (?:just|now|already|successfully|also))* (?:{_DONE})\b"
    rf"|\b(?:has|have) (?:just |now |already |successfully )*been (?:{_DONE})\b"
    rf"|\b(?:refund|ticket|order|return) (?:is|was) (?:now |already |successfully )*(?:{_DONE})\b"
    r"|\brefund(?: [\w-]+)? is on its way\b"
    r"|已(?:经)?(?:成功)?(?:为您|帮您|给您)?(?:成功)?(?:办理)?"
    r"(?:退款|退了|创建|取消|修改|更新|提交|发起|办理|转接|登记|开通|重置|批准)",
    re.IGNORECASE,
)


def claims_a_change(state: DeskState) -> bool:
    """Whether it says that something was done, while no call of the thread has done anything.

    What a tool told in this turn may be repeated: it may have been done earlier.
    """
    if state.written_ids or not _CLAIM.search(state.answer):
        return False
    articles = list_search_tools(state.messages)
    ours = rf"(?:\A|\.)(?>[^.]*?\b(?:i|we)\b)[^.]*\b(?:{_DONE})\b|已.{{0,4}}[为帮给]您"
    first_person = re.search(ours, state.answer, re.I)
    told = any(r["status"] == "success" and r["tool"] not in articles for r in state.evidence)
    return bool(first_person) or not told


# Efficiency and politeness


def _is_repetition(state: DeskState) -> bool:
    """Whether it says of the issue what was said before; small talk has no issue."""
    issue = state.intent not in ("chat", "off_topic")
    return issue and is_alike(state.answer, state.answered.get(state.issue, ""))


def _is_prompt_quote(answer: str, prompt: str) -> bool:
    """Whether it holds a long sentence of the prompt."""
    said = " ".join(answer.casefold().split())
    plain = (" ".join(line.strip(" -#*\t").casefold().split()) for line in prompt.splitlines())
    return any(len(part) >= _LINE and part in said for line in plain for part in line.split(". "))


_RUDE: Final = (
    "stupid", "idiot", "idiotic", "moron", "shut up", "your own fault", "calm down", "dumb",
    "not my problem", "whatever you say", "stop whining", "nonsense",
    "白痴", "笨蛋", "闭嘴", "傻", "活该", "自己的问题", "烦死", "滚",
)  # fmt: skip

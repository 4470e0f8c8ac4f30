"""What of a summary is proven: each fact is a passage of a message that it names. Pure.

A model that sums up forgets, which `recall` repairs; nothing would repair what it invents. So a
fact is a quotation: code looks for it in its sources, and keeps the sentences around it as they
stand there. That needs no knowledge of a language, and half of a ban never becomes a command.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Final

from langchain_core.messages import AnyMessage

from ....state.messages import TOLD, calls_in
from ....state.snapshot import OF_USER, SECTIONS, Fact, KeptFact, Snapshot, is_of_user

_MOST_SOURCES: Final = 12
"""A fact that names more messages than this is looked for in the first ones only."""
_AROUND: Final = 200
"""Characters on each side of a quotation within which its sentence begins and ends."""

_BORDER: Final = re.compile(r"[.!?](?=\s)|[\u3002\uff01\uff1f\uff1b\n]")
"""The end of a sentence or a line, in the punctuation of any script."""
_HANDLE: Final = re.compile(r"(?<!\s)\s*[(\[]?\bm-[0-9a-f]{8}\b[)\]]?")


def prove_facts(
    answer: Snapshot, sources: Mapping[str, AnyMessage]
) -> tuple[dict[str, list[KeptFact]], int]:
    """The facts of an answer that stand in its sources, by section, and how many others there were.

    Args:
        answer: What a model has summed up.
        sources: The messages it could see, by their handles.
    """
    facts: dict[str, list[KeptFact]] = {section: [] for section in SECTIONS}
    dropped, known = 0, set[str]()
    for section in SECTIONS:
        for fact in getattr(answer, section):
            named = [sources[name] for name in _names(fact) if name in sources]
            users = [message for message in named if is_of_user(message)]
            where = section if section not in OF_USER or users else "key_knowledge"
            by_user = where in OF_USER
            texts = map(get_message_text, users) if by_user else map(get_full_text, named)
            passage = find_passage(fact.text, texts)
            if not passage or passage in known:
                dropped += 1
                continue
            known.add(passage)
            ids = [str(message.id) for message in named]
            facts[where].append(KeptFact(text=passage, sources=ids))
    return {section: kept for section, kept in facts.items() if kept}, dropped


def _names(fact: Fact) -> list[str]:
    names = [name.strip(" []()#`") for name in fact.sources]
    return list(dict.fromkeys(names))[:_MOST_SOURCES]


def find_passage(quote: str, texts: Iterable[str]) -> str:
    """The sentences around a quotation as they stand in the first text that has it, in one line.

    White space and case may differ. "" if no text has it.
    """
    words = _HANDLE.sub("", quote).split()
    if not words:
        return ""
    pattern = re.compile(r"\s+".join(map(re.escape, words)), re.IGNORECASE)
    for text in texts:
        if match := pattern.search(text):
            return " ".join(
                text[_find_start(text, match.start()) : _find_end(text, match.end())].split()
            )
    return ""


def _find_start(text: str, at: int) -> int:
    """Where the sentence begins in which a position stands."""
    first = max(at - _AROUND, 0)
    return max((border.end() for border in _BORDER.finditer(text, first, at)), default=first)


def _find_end(text: str, at: int) -> int:
    """Where the sentence ends in which the character before a position stands."""
    last = min(at + _AROUND, len(text))
    border = _BORDER.search(text, max(at - 1, 0), last + 1)
    return border.end() if border else last


def get_message_text(message: AnyMessage) -> str:
    """What a message says, its calls included; not what its writer thought."""
    calls = [
        f"{call['name']}({json.dumps(call['args'], ensure_ascii=False)})"
        for call in calls_in(message)
    ]
    return "\n".join(filter(None, [message.text, *calls]))


def get_full_text(message: AnyMessage) -> str:
    """What a message says, and what the agent was told behind it, such as a sub-agent's result."""
    told = message.additional_kwargs.get(TOLD)
    return f"{get_message_text(message)}\n\n{told}" if told else get_message_text(message)


def name_speaker(message: AnyMessage) -> str:
    """Who says a message, for a model that reads what was said."""
    if message.type == "tool":
        return f"result of {message.name or 'a tool'}"
    return "user" if is_of_user(message) else "agent" if message.type == "ai" else "a tool"

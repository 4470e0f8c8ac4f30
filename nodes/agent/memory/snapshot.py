"""The snapshot of an agent's history: what code adds to a model's summary, and how it is told."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

from ....prompts.prompt import section
from ....state.agent import AgentState
from ....state.attachments import blocks_in
from ....state.calls import UNCERTAIN
from ....state.canonical import canonical, shortened
from ....state.messages import since
from ....state.snapshot import (
    LASTING,
    SECTIONS,
    Kept,
    KeptFact,
    Section,
    handle_of,
    is_of_user,
)
from ....state.told import say

_WORDS_ROOM: Final = 24_000
"""Characters of what the user said; the newest words come first, and one message has at most:"""
_LONGEST_WORDS: Final = 8_000
_CALLS: Final = 40
_CALL_SHOWN: Final = 120
_OPEN: Final = frozenset({"pending", "in_progress", "blocked", "failed"})
FACTS_SHARE: Final = 0.12
"""How much of a request's room the facts may take."""
_CHARACTERS: Final = 3
"""Of a fact for each token of that room."""

Facts = Mapping[str, list[KeptFact]]


def kept_of(state: AgentState) -> Kept:
    """The snapshot so far."""
    return cast("Kept", state.snapshot)


def extended(state: AgentState, cut: Sequence[AnyMessage], facts: Facts, room: int) -> Kept:
    """The snapshot with more messages cut: with the new facts, and all that code knows.

    Facts that last stay though a summary forgets them, as far as they have room behind the new.
    """
    kept = kept_of(state)
    words = [
        KeptFact(text=m.text, sources=[str(m.id)])
        for m in cut if is_of_user(m) and (m.text.strip() or blocks_in(m))
    ]  # fmt: skip
    return {
        **kept,
        "facts": _merged(kept.get("facts", {}), facts, int(room * FACTS_SHARE) * _CHARACTERS),
        "words": _newest([*kept.get("words", ()), *words]),
        "calls": [*kept.get("calls", ()), *_calls(cut)][-_CALLS:],
        "pinned": pinned(state),
        "mask": "",
    }


def _merged(old: Facts, new: Facts, room: int) -> dict[str, list[KeptFact]]:
    """New facts, then old ones that last, in the order of their sections, while there is room."""
    merged: dict[str, list[KeptFact]] = {name: [] for name in SECTIONS}
    seen: set[str] = set()
    for facts, names in ((new, SECTIONS), (old, [n for n in SECTIONS if n in LASTING])):
        for name in names:
            for fact in facts.get(name, ()):
                room -= len(fact["text"]) + 12 * len(fact["sources"])
                if room >= 0 and fact["text"] not in seen:
                    seen.add(fact["text"])
                    merged[name].append(fact)
    return {name: facts for name, facts in merged.items() if facts}


def _newest(words: Sequence[KeptFact]) -> list[KeptFact]:
    """The newest words that have room together, oldest first; the newest always."""
    room, kept = _WORDS_ROOM, list[KeptFact]()
    for one in reversed(words):
        text = shortened(one["text"], _LONGEST_WORDS)
        room -= len(text)
        if room < 0 and kept:
            break
        kept.insert(0, KeptFact(text=text, sources=one["sources"]))
    return kept


def _calls(cut: Iterable[AnyMessage]) -> list[str]:
    """The calls that were cut, one line each, with the handles of their results."""
    lines, asked = list[str](), dict[str, str]()
    for message in cut:
        if isinstance(message, AIMessage):
            for call in message.tool_calls:
                args = json.dumps(call["args"], ensure_ascii=False)
                asked[str(call["id"])] = shortened(f"{call['name']}({args})", _CALL_SHOWN)
        elif message.type == "tool" and message.tool_call_id in asked:
            lines.append(f"{handle_of(message.id)} {asked[message.tool_call_id]}: {message.status}")
    return lines


def pinned(state: AgentState) -> list[str]:
    """What is open by the state: tasks, calls in doubt."""
    before = [line for line in kept_of(state).get("pinned", ()) if line.startswith(_DOUBT)]
    doubts = [
        f"{_DOUBT} {record['id']} {record['tool']}({canonical(record.get('arguments', {}))})"
        for record in state.evidence if record.get("reason") == UNCERTAIN
    ]  # fmt: skip
    todos = [
        f"{task['status']}: {task['id']} {task['description']}"
        for task in state.todos if task["status"] in _OPEN
    ]  # fmt: skip
    return [*todos, *dict.fromkeys([*before, *doubts])]


_DOUBT: Final = "may have taken effect:"


def told_snapshot(state: AgentState) -> list[HumanMessage]:
    """What a request says of the messages before its cut; nothing where none was cut."""
    if not state.cut:
        return []
    kept = kept_of(state)
    text = "\n\n".join(filter(None, [say("snapshot_told"), section("snapshot", _lines(kept))]))
    if notes := kept.get("notes"):
        text = f"{text}\n\n{section('notes', notes)}"
    shown = _attached(state, kept)
    return [HumanMessage([*shown, {"type": "text", "text": text}] if shown else text)]


def _lines(kept: Kept) -> str:
    """A snapshot as text, each fact on a line with the handles of its sources."""
    parts: list[tuple[str, list[str]]] = [
        ("user_words", [_line(one) for one in kept.get("words", ())]),
        *((name, [_line(fact) for fact in kept.get("facts", {}).get(name, ())])
          for name in SECTIONS),
        ("open", kept.get("pinned", [])),
        ("earlier_calls", kept.get("calls", [])),
    ]  # fmt: skip
    return "\n\n".join("\n".join([f"{name}:", *lines]) for name, lines in parts if lines)


def _line(fact: KeptFact) -> str:
    handles = " ".join(map(handle_of, fact["sources"]))
    return f"- {' '.join(fact['text'].split())} ({handles})"


def _attached(state: AgentState, kept: Kept) -> list[dict[str, Any]]:
    """What the newest words of the user that were cut have attached."""
    newest = [name for one in kept.get("words", ())[-1:] for name in one["sources"]]
    for name in newest:
        message = since(state.messages, name)[0]
        return blocks_in(message) if message.id == name else []
    return []


def of_section(name: Section, texts: Iterable[str], source: str) -> dict[str, list[KeptFact]]:
    """Facts of one section that one message says."""
    return {name: [KeptFact(text=text, sources=[source]) for text in texts]}

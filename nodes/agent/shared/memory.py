"""What an agent sees of a long history: proven facts, and the snapshot."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast

from langchain_core.messages import AnyMessage, HumanMessage

from ....models.fitting import WORDS, keep_last_lines, keep_newest_words, list_calls, render_fact
from ....prompts.prompt import render_section
from ....state.agent import AgentState
from ....state.attachments import blocks_in
from ....state.calls import UNCERTAIN
from ....state.messages import slice_since
from ....state.snapshot import (
    LASTING,
    OF_USER,
    SECTIONS,
    Fact,
    KeptFact,
    KeptSnapshot,
    Section,
    Snapshot,
    estimate_message_tokens,
    get_full_text,
    get_message_text,
    is_of_user,
)
from ....state.todo_list import open_todos
from ....store.journal.port import Row
from ....text.canonical import canonical, estimate_tokens, shorten_text
from ....text.sentences import say

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
    """The facts of a summary that stand in its `sources`, by section, and how many do not."""
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
    """The sentences around a quotation, from the first text that has it; "" if none has it."""
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


_A_SOURCE: Final = 5
"""Tokens of a handle."""
FACTS_SHARE: Final = 0.12
"""How much of a request's room the facts may take."""

Facts = Mapping[str, list[KeptFact]]


def read_snapshot(state: AgentState) -> KeptSnapshot:
    """The snapshot so far."""
    return cast("KeptSnapshot", state.snapshot)


def extend_snapshot(
    state: AgentState, cut: Sequence[AnyMessage], facts: Facts, room: int, doubted: Iterable[Row]
) -> KeptSnapshot:
    """The snapshot after more messages are cut: new facts, lasting old facts, and what code knows.

    `doubted` are the writes of which the journal does not know whether they took effect.
    """
    kept = read_snapshot(state)
    words = [
        KeptFact(text=m.text, sources=[str(m.id)])
        for m in cut if is_of_user(m) and (m.text.strip() or blocks_in(m))
    ]  # fmt: skip
    return {
        **kept,
        "facts": _merge_facts(kept.get("facts", {}), facts, int(room * FACTS_SHARE)),
        "words": keep_newest_words([*kept.get("words", ()), *words], room),
        "shown": _find_picture(cut, room) if words else kept.get("shown", ""),
        "calls": keep_last_lines([*kept.get("calls", ()), *list_calls(cut)], room),
        "pinned": list_open_items(state, doubted),
    }


def _merge_facts(old: Facts, new: Facts, room: int) -> dict[str, list[KeptFact]]:
    """New facts, then old ones that last, in the order of their sections, while there is room."""
    merged: dict[str, list[KeptFact]] = {name: [] for name in SECTIONS}
    seen: set[str] = set()
    for facts, names in ((new, SECTIONS), (old, [n for n in SECTIONS if n in LASTING])):
        for name in names:
            for fact in facts.get(name, ()):
                size = estimate_tokens(fact["text"]) + _A_SOURCE * len(fact["sources"])
                if size <= room and fact["text"] not in seen:
                    room -= size
                    seen.add(fact["text"])
                    merged[name].append(fact)
    return {name: facts for name, facts in merged.items() if facts}


def _find_picture(cut: Sequence[AnyMessage], room: int) -> str:
    """The newest message of the user that was cut, if its attachments have room; else ""."""
    newest = next((m for m in reversed(cut) if is_of_user(m)), None)
    blocks = [] if newest is None else blocks_in(newest)
    fits = estimate_message_tokens([HumanMessage([*blocks])]) <= room * WORDS
    return str(newest.id) if newest is not None and blocks and fits else ""


def list_open_items(state: AgentState, doubted: Iterable[Row]) -> list[str]:
    """What is open: tasks by the state, calls in doubt by the journal and the evidence."""
    before = [line for line in read_snapshot(state).get("pinned", ()) if line.startswith(_DOUBT)]
    rows = [*doubted]
    known = {row.call for row in rows if row.turn == state.turn_id}
    doubts = [(row.call, row.tool, row.arguments) for row in rows] + [
        (record["id"], record["tool"], record.get("arguments", {}))
        for record in state.evidence
        if record.get("reason") == UNCERTAIN and record["id"] not in known
    ]
    told = [f"{_DOUBT} {call} {tool}({canonical(arguments)})" for call, tool, arguments in doubts]
    todos = [
        f"{task['status']}: {task['id']} {task['description']}" for task in open_todos(state.todos)
    ]
    lines = dict.fromkeys(
        shorten_text(" ".join(line.split()), _PINNED) for line in [*todos, *before, *told]
    )
    return [*lines]


_DOUBT: Final = "may have taken effect:"
_PINNED: Final = 600
"""Characters of a line of what is open."""


def render_snapshot(state: AgentState) -> list[HumanMessage]:
    """The part of a request that replaces the messages before its cut; empty without a cut."""
    if not state.cut:
        return []
    kept = read_snapshot(state)
    text = "\n\n".join(
        filter(None, [say("snapshot_told"), render_section("snapshot", _render_lines(kept))])
    )
    if notes := kept.get("notes"):
        text = f"{text}\n\n{render_section('notes', notes)}"
    shown = _find_attachments(state, kept)
    return [HumanMessage([*shown, {"type": "text", "text": text}] if shown else text)]


def _render_lines(kept: KeptSnapshot) -> str:
    """A snapshot as text, each fact on a line with the handles of its sources."""
    parts: list[tuple[str, list[str]]] = [
        ("user_words", [render_fact(one) for one in kept.get("words", ())]),
        *((name, [render_fact(fact) for fact in kept.get("facts", {}).get(name, ())])
          for name in SECTIONS),
        ("open", kept.get("pinned", [])),
        ("earlier_calls", kept.get("calls", [])),
    ]  # fmt: skip
    return "\n\n".join("\n".join([f"{name}:", *lines]) for name, lines in parts if lines)


def _find_attachments(state: AgentState, kept: KeptSnapshot) -> list[dict[str, Any]]:
    """What the newest words of the user that were cut have attached."""
    name = kept.get("shown", "")
    message = slice_since(state.messages, name)[:1] if name else []
    return [block for m in message if m.id == name for block in blocks_in(m)]


def build_section(name: Section, texts: Iterable[str], source: str) -> dict[str, list[KeptFact]]:
    """Facts of one section that one message says."""
    return {name: [KeptFact(text=text, sources=[source]) for text in texts]}

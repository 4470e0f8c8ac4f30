"""The tools of an agent for its own memory: recall, summarize_and_continue, note."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from langchain_core.messages import AnyMessage

from ....calls.result_store import ResultStore
from ....calls.results import ToolResult, make_failure
from ....calls.sending import HandlerScope
from ....state.agent import AgentState, list_request_messages
from ....state.messages import EVIDENCE, calls_in
from ....state.snapshot import estimate_message_tokens, make_short_name
from ....text.canonical import shorten_text
from ....text.sentences import say
from ....tools.catalog import CatalogTool, make_own_tool
from ....tools.search import build_search
from .memory import build_section, extend_snapshot, get_full_text, name_speaker

_FOUND: Final = 8
_EXCERPT: Final = 300
_WORDS: Final = 30
"""Words of a search that an excerpt is chosen by."""
_NOTES: Final = 8_000
"""Characters that the notes may have."""

_TEXT: Final = {"type": "string"}
_TEXTS: Final = {"type": "array", "items": _TEXT, "minItems": 1}


async def _recall(args: Mapping[str, Any], own: HandlerScope) -> ToolResult:
    """The original of a message, or those that say most of some words."""
    state, name = cast("AgentState", own.state), str(args.get("id") or "").strip(" []()")
    if name:
        found = next((m for m in reversed(state.messages) if name in _names(m)), None)
        if found is None:
            return make_failure(say("nothing_to_recall", id=repr(shorten_text(name))))
        return _page(found, int(args.get("offset") or 0), own.scope.context.result_cap)
    words = str(args.get("words") or "").strip()
    if not words:
        return make_failure(say("recall_what"))
    hits = await asyncio.to_thread(_search, state.messages, words)
    return ToolResult(
        "\n".join(hits) if hits else say("nothing_said_of", words=repr(shorten_text(words)))
    )


def _names(message: AnyMessage) -> set[str]:
    """By what a message can be asked for: its handle or id, the id of the call it answers."""
    names = (message.id, message.additional_kwargs.get(EVIDENCE))
    return {make_short_name(message.id), *(str(name) for name in names if name)}


def _page(message: AnyMessage, offset: int, cap: int) -> ToolResult:
    text = get_full_text(message)
    part = text[offset : offset + cap]
    left = len(text) - offset - len(part)
    more = say("recall_more", left=left, offset=offset + len(part)) if left > 0 else ""
    head = f"[{make_short_name(message.id)}] {name_speaker(message)}:"
    return ToolResult("\n".join(filter(None, [head, part, more])))


def _search(messages: Sequence[AnyMessage], words: str) -> list[str]:
    """The messages that say most of some words, with where they say it; no earlier recall."""
    texts = {make_short_name(m.id): m for m in messages if not _is_recall(m)}
    index = build_search((name, "", get_full_text(message)) for name, message in texts.items())
    return [
        f"[{name}] {name_speaker(texts[name])}: {_excerpt(get_full_text(texts[name]), words)}"
        for name, _ in index.find(words, most=_FOUND)
    ]


def _is_recall(message: AnyMessage) -> bool:
    calls = calls_in(message)
    return message.name == "recall" or (bool(calls) and all(c["name"] == "recall" for c in calls))


def _excerpt(text: str, words: str) -> str:
    """The part of a text that begins where most of the words are near."""
    lowered, step = text.casefold(), _EXCERPT // 2
    asked = [word.casefold() for word in words.split()[:_WORDS]]

    def hits(start: int) -> int:
        return sum(word in lowered[start : start + _EXCERPT] for word in asked)

    start = max(range(0, max(len(text), 1), step), key=hits)
    part = " ".join(text[start : start + _EXCERPT].split())
    return f"{'…' if start else ''}{part}{'…' if start + _EXCERPT < len(text) else ''}"


async def _summarize(args: Mapping[str, Any], own: HandlerScope) -> ToolResult:
    """Leave out what was said before this message; what the agent has learnt of it stays."""
    state = cast("AgentState", own.state)
    await own.scope.fire("PreCompress", trigger="manual")
    shown = list_request_messages(state)
    place = max((p for p, m in enumerate(shown) if m.type == "ai"), default=0)
    if not place:
        return make_failure(say("nothing_to_leave_out"))
    message = str(shown[place].id)
    facts = build_section("key_knowledge", args["keyPoints"], message)
    facts |= build_section("task_state", args["nextSteps"], message)
    room = state.room or own.scope.context.context_target
    doubted = await own.scope.journal.list_uncertain(own.scope.journal_thread, told=True)
    kept = extend_snapshot(state, shown[:place], facts, room, doubted)
    kept["notes"] = await read_notes(own.results, state.path)
    before = state.window or estimate_message_tokens(shown)
    after = max(0, before - estimate_message_tokens(shown[:place]))
    own.scope.emit({
        "type": "compressed", "task": state.path, "how": "own", "before": before, "after": after,
        "messages": place, "facts": sum(map(len, facts.values())), "dropped": 0,
    })  # fmt: skip
    told = say("left_out_from_now_on", count=place)
    return ToolResult(told, update={"snapshot": dict(kept), "cut": message, "window": after})


def _notes_name(path: str) -> str:
    """Under which id the store has an agent's notes."""
    return f"notes-{path}"


async def _note(args: Mapping[str, Any], own: HandlerScope) -> ToolResult:
    """Add to the notes, or write them anew."""
    path = cast("AgentState", own.state).path
    old = "" if args.get("replace") else await read_notes(own.results, path)
    notes = "\n".join(filter(None, [old, str(args["text"]).strip()]))
    if len(notes) > _NOTES:
        return make_failure(say("notes_too_long", length=len(notes), most=_NOTES))
    name = _notes_name(path)
    await own.results.save_text(name, notes)
    return ToolResult(say("noted", length=len(notes), most=_NOTES, id=name))


def build_memory_tools() -> list[CatalogTool]:
    """The tools of every agent for its own memory, in the order in which they are offered."""
    recalled = {
        "id": {**_TEXT, "description": say("recall_id")},
        "words": {**_TEXT, "description": say("recall_words")},
        "offset": {"type": "integer", "minimum": 0, "default": 0},
    }
    summed_up = {
        "keyPoints": {**_TEXTS, "description": say("key_points")},
        "nextSteps": {**_TEXTS, "description": say("next_steps")},
    }
    noted = {
        "text": {**_TEXT, "minLength": 1},
        "replace": {"type": "boolean", "default": False, "description": say("note_replace")},
    }
    return [
        make_own_tool("recall", say("recall_tool"), recalled, _recall, read_only=True),
        make_own_tool(
            "summarize_and_continue", say("summarize_and_continue_tool"), summed_up, _summarize,
            required=[*summed_up],
        ),
        make_own_tool("note", say("note_tool"), noted, _note, required=["text"]),
    ]  # fmt: skip


async def read_notes(results: ResultStore, path: str) -> str:
    """The notes of an agent."""
    return await results.load_text(_notes_name(path))

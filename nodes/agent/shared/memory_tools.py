"""The tools of an agent for its own memory: recall, summarize_and_continue, note."""

from collections.abc import Mapping
from typing import Any, Final, cast

from ....calls.recall import build_recall_tool
from ....calls.result_store import ResultStore
from ....calls.results import ToolResult, make_failure
from ....calls.sending import HandlerScope
from ....state.agent import AgentState, list_request_messages
from ....state.snapshot import estimate_message_tokens
from ....text.sentences import say
from ....tools.catalog import CatalogTool, make_own_tool
from ....turn.scope import RunScope
from .memory import build_section, extend_snapshot

_NOTES: Final = 8_000
"""Characters that the notes may have."""

_TEXT: Final = {"type": "string"}
_TEXTS: Final = {"type": "array", "items": _TEXT, "minItems": 1}


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
    kept["notes"] = await read_notes(own.scope, own.results, state.path)
    before = state.window or estimate_message_tokens(shown)
    after = max(0, before - estimate_message_tokens(shown[:place]))
    own.scope.emit({
        "type": "compressed", "task": state.path, "how": "own", "before": before, "after": after,
        "messages": place, "facts": sum(map(len, facts.values())), "dropped": 0,
    })  # fmt: skip
    told = say("left_out_from_now_on", count=place)
    return ToolResult(told, update={"snapshot": dict(kept), "cut": message, "window": after})


async def _note(args: Mapping[str, Any], own: HandlerScope) -> ToolResult:
    """Add to the notes, or replace them."""
    path = cast("AgentState", own.state).path
    old = "" if args.get("replace") else await read_notes(own.scope, own.results, path)
    notes = "\n".join(filter(None, [old, str(args["text"]).strip()]))
    if len(notes) > _NOTES:
        return make_failure(say("notes_too_long", length=len(notes), most=_NOTES))
    name = await own.results.save_text(notes)
    number = len(await _list_notes(own.scope, path))
    row = {_NOTES_OF: path, "stored": name, "number": number}
    await own.scope.journal.grant(own.scope.thread, row)
    return ToolResult(say("noted", length=len(notes), most=_NOTES, id=name))


def build_memory_tools() -> list[CatalogTool]:
    """The tools of every agent for its own memory, in the order in which they are offered."""
    summed_up = {
        "keyPoints": {**_TEXTS, "description": say("key_points")},
        "nextSteps": {**_TEXTS, "description": say("next_steps")},
    }
    noted = {
        "text": {**_TEXT, "minLength": 1},
        "replace": {"type": "boolean", "default": False, "description": say("note_replace")},
    }
    return [
        build_recall_tool(),
        make_own_tool(
            "summarize_and_continue", say("summarize_and_continue_tool"), summed_up, _summarize,
            required=[*summed_up],
        ),
        make_own_tool("note", say("note_tool"), noted, _note, required=["text"]),
    ]  # fmt: skip


_NOTES_OF: Final = "notes"
"""Key of a row that is kept with the thread's grants: whose notes the store has under which id."""


async def _list_notes(scope: RunScope, path: str) -> list[dict[str, Any]]:
    rows = await scope.journal.grants(scope.thread)
    return [row for row in rows if row.get(_NOTES_OF) == path]


async def read_notes(scope: RunScope, results: ResultStore, path: str) -> str:
    """The notes of an agent, or a sentence that says that they are lost."""
    rows = await _list_notes(scope, path)
    if not rows:
        return ""
    return await results.load_text(rows[-1]["stored"]) or say("notes_lost")

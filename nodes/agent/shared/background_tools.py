"""The tools by which an agent looks after those that work for it in the background.

What it wishes of one stands in the state with the call that began it. The one in the background
reads it before its next model turn, and knows by the ids what it has read: also after a crash.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, cast

from langchain_core.messages import BaseMessage, HumanMessage

from ....calls.call_records import PendingCall, update_call
from ....calls.results import ToolResult, make_failure
from ....calls.sending import HandlerScope
from ....run.side_work import get_side_work, is_cancelled
from ....state.agent import (
    LOOK_AFTER,
    AgentDefinition,
    AgentState,
    make_agent_path,
    summarize_spend,
)
from ....state.messages import TOOL, make_signature
from ....state.snapshot import get_full_text, name_speaker
from ....text.canonical import shorten_text
from ....text.sentences import say
from ....tools.catalog import CatalogTool, make_own_tool
from ....turn.scope import RunScope

ORDER: Final = "order_background"
_LINES, _LONGEST = 8, 400
"""What is shown of a conversation: its newest messages, and characters of each."""
_TEXT: Final = {"type": "string", "minLength": 1}


def build_background_tools(team: Mapping[str, AgentDefinition]) -> list[CatalogTool]:
    """The tools of an agent with this team, by name; looking is no order and waits for nothing."""

    async def look(args: Mapping[str, Any], own: HandlerScope) -> ToolResult:
        if not args.get("handle"):
            rows = [_describe(own, call) for call in _list_calls(own)]
            return ToolResult(json.dumps(rows))
        if (call := _find_call(args, own)) is None:
            return _explain_unknown(args, own)
        shown = json.dumps(_describe(own, call), indent=1)
        if team[call["args"]["agent_name"]].output_alone:
            return ToolResult(shown, to_model=f"{shown}\n{say('only_its_output')}")
        known = get_side_work().seen.get(_path_of(own, call))
        talk: Sequence[BaseMessage] = known.messages[1:] if known else ()
        lines = [
            f"{name_speaker(m)}: {shorten_text(get_full_text(m), _LONGEST)}" for m in talk[-_LINES:]
        ]
        return ToolResult("\n".join([shown, *lines]))

    handle = {"handle": {**_TEXT, "description": say("background_handle")}}
    order = {**handle, "message": {**_TEXT, "description": say("order_message")}}
    order["cancel"] = {"type": "boolean", "description": say("order_cancel")}
    return [
        make_own_tool(LOOK_AFTER, say("look_after_tool"), handle, look, read_only=True),
        make_own_tool(ORDER, say("order_tool"), order, _order, required=["handle"]),
    ]


async def _order(args: Mapping[str, Any], own: HandlerScope) -> ToolResult:
    """Tell one something, or that it is to end; one that has ended is left alone."""
    text, cancel = str(args.get("message") or "").strip(), bool(args.get("cancel"))
    if (call := _find_call(args, own)) is None:
        return _explain_unknown(args, own)
    if bool(text) == cancel:
        return make_failure(say("order_what"))
    beside = get_side_work()
    if beside.is_over(call["id"]):
        return ToolResult(say("background_over"))
    beside.wish(_path_of(own, call), {"id": own.call["id"], "text": "" if cancel else text})
    calls = [update_call(c, wishes=[*beside.wishes[_path_of(own, c)]]) for c in _list_calls(own)]
    told = say("background_cancelled" if cancel else "background_told")
    return ToolResult(told, update={"background": calls})


def _list_calls(own: HandlerScope) -> list[PendingCall]:
    return cast("AgentState", own.state).background


def _find_call(args: Mapping[str, Any], own: HandlerScope) -> PendingCall | None:
    named = str(args.get("handle") or "").strip()
    return next((call for call in _list_calls(own) if _path_of(own, call) == named), None)


def _path_of(own: HandlerScope, call: PendingCall) -> str:
    return make_agent_path(own.scope.path, call)


def _explain_unknown(args: Mapping[str, Any], own: HandlerScope) -> ToolResult:
    handles = ", ".join(_path_of(own, call) for call in _list_calls(own)) or "-"
    told = say("no_such_background", handle=repr(args.get("handle")), handles=handles)
    return replace(make_failure(told), is_own=True)


def _describe(own: HandlerScope, call: PendingCall) -> dict[str, Any]:
    """How far one is, in plain values: what a reader of it learns is no stranger's prose."""
    path, beside = _path_of(own, call), get_side_work()
    known = beside.seen.get(path) or AgentState(path=path)
    status = "cancelled" if is_cancelled(beside.wishes, path) else beside.tell_status(call["id"])
    return {"handle": path, "status": status, "spent": summarize_spend(known)}


# The other side: what one in the background is told.


def list_orders(scope: RunScope, state: AgentState) -> list[HumanMessage]:
    """What it was told and has not read. A model wrote it, so it counts as what a tool gave."""
    known = {message.id for message in state.messages}
    wishes = [one for one in scope.around.wishes.get(state.path, ()) if one["text"]]
    origin = make_signature(TOOL)
    return [
        HumanMessage(say("told_by_caller", words=one["text"]), id=name, additional_kwargs=origin)
        for one in wishes
        if (name := f"{state.turn_id}.{state.path}.{one['id']}") not in known
    ]

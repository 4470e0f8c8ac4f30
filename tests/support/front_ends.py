"""Agent Chat UI and Agent Inbox as a graph meets them: what they show, and what they send.

Written down from their published payload formats. `fixtures/front_ends.mjs` holds the same demands
in the language of the front ends.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from langchain_core.messages import BaseMessage

_BUTTONS = {"approve", "edit", "reject"}
_SWITCHES = ("allow_accept", "allow_edit", "allow_respond", "allow_ignore")


def chat_ui_shows(payload: Any) -> bool:
    """Whether Chat UI opens its approval panel, with a button that answers."""
    if not isinstance(payload, dict):
        return False
    actions, reviews = payload.get("action_requests"), payload.get("review_configs")
    if not (isinstance(actions, list) and actions and isinstance(reviews, list) and reviews):
        return False
    named = all(_named(one, "name") and isinstance(one.get("args"), dict | list) for one in actions)
    reviewed = all(
        _named(one, "action_name") and isinstance(one.get("allowed_decisions"), list)
        for one in reviews
    )
    return named and reviewed and bool(_BUTTONS & set(_review(payload)["allowed_decisions"]))


def chat_ui_drops(values: Any) -> list[tuple[str, str]]:
    """The components that Chat UI never draws: those under no message, with the id they name."""
    known = {message.id for message in values["messages"]}
    places = [(one["name"], one["metadata"]["message_id"]) for one in values.get("ui", [])]
    return [(name, place) for name, place in places if place not in known]


def find_faults(
    values: Mapping[str, Any], asked: Iterable[Any] = (), before: Mapping[str, Any] | None = None
) -> list[str]:
    """What breaks the contract with front ends in a thread at rest, as any client of it has it.

    Args:
        values: The thread's `messages` and `ui`; its messages may be a server's JSON.
        asked: Its open questions: LangGraph's, or a server's JSON of them.
        before: The same thread as it was seen before: nothing of that may go or move.
    """
    messages, parts = _read_messages(values), values.get("ui", [])
    ids = [one["id"] for one in messages]
    made = [c["id"] for one in messages for c in one.get("tool_calls") or ()]
    questions = [
        one if isinstance(one, dict) else {"id": one.id, "value": one.value} for one in asked
    ]
    names = {
        "message": ids, "call": made, "component": [one["id"] for one in parts],
        "question": [one["id"] for one in questions],
    }  # fmt: skip
    faults = [f"two of one {kind} id" for kind, all_ in names.items() if len(all_) != len({*all_})]
    places = [(one["name"], one["metadata"]["message_id"]) for one in parts]
    faults += [f"{name} is under no message" for name, place in places if place not in ids]
    known = [one["id"] for one in _read_messages(before or {})]
    if [one for one in ids if one in known] != known:
        faults.append(f"moved or gone: {known} are {ids}")
    told = [*made, *(m["tool_call_id"] for m in messages if m.get("tool_call_id"))]
    calls = [one["id"].rpartition(".")[0] for one in parts if one["name"] in _OF_CALLS]
    if (blocks := _count(told) + _count(calls)) > 4:
        faults.append(f"{blocks} blocks tell one call")
    open_ = [one["props"] for one in parts if one["name"] == "approval"]
    open_ = [one for one in open_ if not one.get("answered")]
    for value in (one["value"] for one in questions):
        about = [one for one in open_ if _is_about(one, value)]
        if "action_requests" in value and len(about) != (value.get("type") != "take_over"):
            faults.append(f"{len(about)} ways to answer {value}")
    return faults


_OF_CALLS = ("tool-call", "approval")


def _count(names: Iterable[str]) -> int:
    """How often the commonest one is there."""
    return max(Counter(names).values(), default=0)


def _is_about(shown: Mapping[str, Any], asked: Mapping[str, Any]) -> bool:
    """Whether our component takes an open question for its own; a plan's has no id."""
    words = str(shown.get("description") or "no words")
    return shown.get("id") == asked["id"] if asked.get("id") else words in asked["description"]


def _read_messages(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The messages as a server's JSON, without those that no front end shows."""
    given = values.get("messages", ())
    read = [one.model_dump() if isinstance(one, BaseMessage) else one for one in given]
    return [one for one in read if not str(one["id"]).startswith("do-not-render-")]


def read_ag_ui(messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A client's messages of AG-UI, in JSON, as the values of a thread."""
    said: list[dict[str, Any]] = []
    parts: list[dict[str, Any]] = []
    for one in messages:
        if one["role"] == "activity":
            place = {"message_id": said[-1]["id"] if said else ""}
            about = {"name": one["activityType"], "props": one["content"], "metadata": place}
            parts.append({"id": one["id"], **about})
            continue
        calls = [{"id": c["id"], **c["function"]} for c in one.get("toolCalls") or ()]
        about = {"tool_calls": calls, "tool_call_id": one.get("toolCallId")}
        said.append({"id": one["id"], "text": one.get("content"), **about})
    return {"messages": said, "ui": parts}


def chat_ui_draws(messages: Sequence[Any], *, hides_tool_calls: bool = False) -> bool:
    """Whether Chat UI has a place for a question: a last message that the assistant's side wrote.

    Where that side has written nothing at all, the question stands alone.

    Args:
        messages: The thread's, oldest first.
        hides_tool_calls: Its switch "Hide Tool Calls" is on.
    """
    if not any(m.type in {"ai", "tool"} for m in messages):
        return True
    last = messages[-1]
    hidden = str(last.id).startswith("do-not-render-") or (hides_tool_calls and last.type == "tool")
    return last.type != "human" and not hidden


def inbox_shows(payload: Any) -> bool:
    """Whether Inbox reads the payload as one of its own."""
    first = payload[0] if isinstance(payload, list) and payload else payload
    if not isinstance(first, dict) or not _named(first.get("action_request"), "action"):
        return False
    config = first.get("config")
    return (
        isinstance(first["action_request"].get("args"), dict | list)
        and isinstance(config, dict)
        and all(isinstance(config.get(switch), bool) for switch in _SWITCHES)
    )


def _named(value: Any, key: str) -> bool:
    return isinstance(value, dict) and isinstance(value.get(key), str)


def _review(payload: dict[str, Any]) -> dict[str, Any]:
    name = payload["action_requests"][0]["name"]
    reviews = payload["review_configs"]
    return next((one for one in reviews if one["action_name"] == name), reviews[0])


def chat_ui_sends(payload: dict[str, Any], kind: str, said: Any = None) -> dict[str, Any]:
    """What Chat UI resumes with after a click on approve, edit or reject.

    Args:
        payload: The question.
        kind: The button.
        said: The reason of a rejection, or the fields that were typed over: always text.
    """
    assert kind in _review(payload)["allowed_decisions"], "the button is not there"
    action = payload["action_requests"][0]
    decision: dict[str, Any] = {"type": kind}
    if kind == "reject":
        decision["message"] = said
    if kind == "edit":
        decision["edited_action"] = {"name": action["name"], "args": _typed(action["args"], said)}
    return {"decisions": [decision]}


def chat_ui_rejects(payload: dict[str, Any], reason: str) -> str | None:
    """Which kind of decision Chat UI's button "Submit rejection" sends, if any.

    It sends what was chosen last: until a reason is typed, the first kind that the question allows.
    """
    allowed = _review(payload)["allowed_decisions"]
    first = next((kind for kind in ("approve", "reject", "edit") if kind in allowed), None)
    chosen = "reject" if reason else first
    return None if chosen == "reject" and not reason.strip() else chosen


def inbox_sends(payload: dict[str, Any], kind: str, said: Any = None) -> list[dict[str, Any]]:
    """What Inbox resumes with after accept, edit, response or ignore."""
    verb = "respond" if kind == "response" else kind
    assert payload["config"][f"allow_{verb}"], "the button is not there"
    action = payload["action_request"]
    if kind == "accept":
        return [{"type": "accept", "args": action}]
    if kind == "edit":
        args = _typed(action["args"], said)
        return [{"type": "edit", "args": {"action": action["action"], "args": args}}]
    return [{"type": kind, "args": said}]


def new_inbox_sends(payload: dict[str, Any], kind: str, said: Any = None) -> dict[str, Any]:
    """What Inbox resumes with since it reads `action_requests` first: its verbs are translated."""
    (decision,) = inbox_sends(payload, kind, said)
    verb = {"accept": "approve", "response": "reject"}.get(kind, kind)
    return {"decisions": [{**decision, "type": verb}]}


def _typed(args: dict[str, Any], fields: dict[str, Any]) -> dict[str, Any]:
    """The action's arguments after typing: only fields that are there, and only text."""
    assert set(fields) <= set(args), "there is no such field to type in"
    texts = {
        key: value if isinstance(value, str) else json.dumps(value) for key, value in fields.items()
    }
    return args | texts

"""Agent Chat UI and Agent Inbox as a graph meets them: what they show, and what they send.

Written down from their published payload formats. `fixtures/front_ends.mjs` holds the same demands
in the language of the front ends.
"""

import json
from collections.abc import Sequence
from typing import Any

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

"""The payload of a question to a human, in the one shape both known front ends accept."""

from collections.abc import Mapping
from typing import Any, Final, Literal

Allowed = Literal["decide", "settle", "respond"]

DECISIONS: Final[Mapping[Allowed, tuple[str, ...]]] = {
    "decide": ("approve", "edit", "reject", "respond"),
    "settle": ("approve", "respond", "reject"),
    "respond": ("respond", "edit", "reject"),
}
"""The answers a question takes: whether to act, how an uncertain act ended, or words."""


def question(
    name: str,
    args: dict[str, Any],
    description: str,
    *,
    answers: Allowed = "decide",
    **extra: object,
) -> dict[str, Any]:
    """Build one question about one action.

    Agent Chat UI reads `action_requests` and `review_configs`, Agent Inbox reads `action_request`
    and `config`. Chat UI has no place for words but the fields of the action, so a question that
    wants words has an empty field `answer`.

    Args:
        name: The action.
        args: Its arguments, shown as fields.
        description: The question in words.
        answers: Which answers it takes, see `DECISIONS`.
        extra: Goes into the action request.
    """
    decisions = list(DECISIONS[answers])
    shown = {**args, "answer": ""} if answers == "respond" else args
    return {
        "action_requests": [{"name": name, "args": shown, "description": description, **extra}],
        "review_configs": [{"action_name": name, "allowed_decisions": decisions}],
        "action_request": {"action": name, "args": shown},
        "config": {
            "allow_accept": "approve" in decisions,
            "allow_edit": "edit" in decisions,
            "allow_respond": True,
            "allow_ignore": True,
        },
        "description": description,
    }

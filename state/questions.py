"""The payload of a question to a human, in the one shape both known front ends accept."""

from typing import Any, Literal

Allowed = Literal["decide", "respond"]


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
    and `config`. `answers="respond"` asks for words, `"decide"` for approve, edit or reject.
    """
    decisions = (
        ["approve", "edit", "reject", "respond"]
        if answers == "decide"
        else ["respond", "edit", "reject"]
    )
    return {
        "action_requests": [{"name": name, "args": args, "description": description, **extra}],
        "review_configs": [{"action_name": name, "allowed_decisions": decisions}],
        "action_request": {"action": name, "args": args},
        "config": {
            "allow_accept": "approve" in decisions,
            "allow_edit": True,
            "allow_respond": True,
            "allow_ignore": True,
        },
        "description": description,
    }

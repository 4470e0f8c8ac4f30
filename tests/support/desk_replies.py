"""Replies of others, and what code says of each."""

import json
from pathlib import Path
from typing import Any

from loopwright.policy.desk.reply import Grounds, Reply, settle_reply

REPLIES = Path(__file__).parents[1] / "fixtures" / "desk" / "replies.json"
UNSOURCED = frozenset({"figure without source", "id or link invented"})
"""Kinds of which code alone lets no figure in digits pass."""


def read_replies() -> list[dict[str, Any]]:
    """All replies, as they were written."""
    replies: list[dict[str, Any]] = json.loads(REPLIES.read_text(encoding="utf-8"))
    return replies


def judge(one: dict[str, Any]) -> Reply:
    """What code says of a reply, and how it would be shown."""
    articles = {a["id"]: f"{a['title']}\n{a['text']}" for a in one["articles"]}
    grounds = Grounds(
        articles=articles,
        records={name: record["data"] for name, record in one["records"].items()},
        said="\n".join(one["customer"]),
        told="\n".join(one["done"]),
        links=frozenset(a["url"] for a in one["articles"] if a.get("url")),
        language=one["language"],
    )
    return settle_reply(one["reply"], grounds)

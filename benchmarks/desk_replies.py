"""What of replies written by others gets to the customer: by code alone, and with a proofreader.

    python benchmarks/desk_replies.py

The replies stand in tests/fixtures/desk/replies.json, in five languages; they were written without
a look at the code that judges them. One proofreader says yes to everything, the other one knows
what its author knew. Prints a table by kind; exit code 1 if a wrong reply passes a right
proofreader, or a figure, link or id without a source passes at all.
"""

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from loopwright.policy.desk.references import REFERENCE
from loopwright.policy.desk.reply import Grounds, Reply, settle_reply

REPLIES = Path(__file__).parents[1] / "tests" / "fixtures" / "desk" / "replies.json"
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


def main() -> int:
    """Judge them all and print what came of it."""
    made, shown, reads = Counter[str](), Counter[str](), Counter[str]()
    bare: list[str] = []
    for one in read_replies():
        kind = f"{'right' if one['right'] else 'wrong'}: {one['kind']}"
        made[kind] += 1
        if judge(one).problems:
            continue
        shown[kind] += 1
        reads[kind] += bool(one["right"])
        if one["kind"] in UNSOURCED and any(
            c.isdigit() for span in one["wrong"] for c in REFERENCE.sub("", span)
        ):
            bare.append(one["reply"])
    lines = [
        "| replies | written | pass code | pass code and a right proofreader |",
        "|---|---|---|---|",
    ]
    lines += [f"| {k} | {made[k]} | {shown[k]} | {reads[k]} |" for k in sorted(made)]
    for which in ("right", "wrong"):
        total = [sum(n for k, n in c.items() if k.startswith(which)) for c in (made, shown, reads)]
        lines.append(f"| {which} in all | {total[0]} | {total[1]} | {total[2]} |")
    sys.stdout.write("\n".join([*lines, *(f"passed: {one}" for one in bare)]) + "\n")
    return int(bool(bare))


if __name__ == "__main__":
    sys.exit(main())

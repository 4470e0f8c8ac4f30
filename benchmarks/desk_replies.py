"""What of replies written by others gets to the customer: by code alone, and with a proofreader.

    PYTHONPATH=tests python benchmarks/desk_replies.py

The replies stand in tests/fixtures/desk/replies.json, in five languages; they were written without
a look at the code that judges them. One proofreader says yes to everything, the other one knows
what its author knew. Prints a table by kind; exit code 1 if a wrong reply passes a right
proofreader, or a figure, link or id without a source passes at all.
"""

import sys
from collections import Counter

from loopwright.policy.desk.references import REFERENCE
from support.desk_replies import UNSOURCED, judge, read_replies


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

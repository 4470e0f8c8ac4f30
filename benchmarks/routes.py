"""The router beside react on sixty fresh goals: model calls, routes, and goals without their tools.

    python benchmarks/routes.py

The model knows what each goal needs (tests/support/oracle.py), so the numbers show what the ways
cost and whether the router's own rules send a goal wrong, not how well a real model chooses. What
router is measured by is `react` with a model that sums up results, as it was built at 238923a.
"""

import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from loopwright import build_react, build_router
from support.oracle import GOALS, RIGHT, run_goal

GRAPHS = {
    "react": (build_react, {"observe": "model"}),
    "react(direct)": (build_react, {"observe": "direct"}),
    "router": (build_router, {}),
}


def compared() -> None:
    """Print calls, solved goals and wrong routes by kind."""
    write = sys.stdout.write
    found = {
        name: [(goal, run_goal(goal, build, **context)) for goal in GOALS]
        for name, (build, context) in GRAPHS.items()
    }
    write(f"{'':10}" + "".join(f"{name:>28}" for name in GRAPHS) + "\n")
    for kind in (*RIGHT, ""):
        row = f"{kind or 'all':10}"
        for ends in found.values():
            here = [one for goal, one in ends if kind in ("", goal["needs"])]
            solved = sum(one.outcome["status"] == "complete" and not one.missed for one in here)
            calls = sum(one.calls for one in here)
            row += f"{f'{solved} of {len(here)}, {calls} calls':>28}"
        write(row + "\n")
    total = {name: sum(one.calls for _, one in ends) for name, ends in found.items()}
    for name in ("react", "react(direct)"):
        write(f"router takes {total['router'] / total[name]:.0%} of the calls of {name}\n")
    ways = Counter((goal["needs"], " > ".join(t["graph"] for t in one.outcome.get("tried", [])))
                   for goal, one in found["router"])  # fmt: skip
    for (kind, way), count in sorted(ways.items()):
        right = "" if way == RIGHT[kind] else "  (wrong)"
        write(f"  {kind}: {way}, {count} times{right}\n")
    without = [goal["goal"] for goal, one in found["router"] if one.missed]
    write(f"answered without the tool they need: {len(without)}\n")


if __name__ == "__main__":
    compared()

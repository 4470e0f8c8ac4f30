"""What do imports cost? Prints the median of each beside that of langchain's agents.

Every import runs in a process of its own; the statements take turns, so that a busy moment of the
machine slows all of them. A process that imports nothing is measured too and subtracted.

    python benchmarks/import_time.py [rounds]
"""

import json
import statistics
import subprocess
import sys
import time

NOTHING = "pass"
YARDSTICK = "from langchain.agents import create_agent"
STATEMENTS = (
    NOTHING,
    YARDSTICK,
    "import loopwright",
    "from loopwright import build_plan_execute_verify",
    "from loopwright import *",
    "from langgraph.graph import StateGraph",
)


def seconds_of(statement: str) -> float:
    """Wall-clock seconds of a new interpreter that runs the statement and ends."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", statement], check=True)
    return time.perf_counter() - began


def main(rounds: int) -> None:
    """Measure, after one round that fills the file cache and writes the byte code."""
    for statement in STATEMENTS:
        seconds_of(statement)
    taken: dict[str, list[float]] = {statement: [] for statement in STATEMENTS}
    for _ in range(rounds):
        for statement in STATEMENTS:
            taken[statement].append(seconds_of(statement))
    medians = {statement: statistics.median(each) for statement, each in taken.items()}
    costs = {s: median - medians[NOTHING] for s, median in medians.items() if s != NOTHING}
    for statement, cost in costs.items():
        line = {
            "statement": statement,
            "median_ms": round(cost * 1_000, 1),
            "fastest_ms": round((min(taken[statement]) - min(taken[NOTHING])) * 1_000, 1),
            "of_create_agent": round(cost / costs[YARDSTICK], 3),
            "rounds": rounds,
        }
        sys.stdout.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 15)

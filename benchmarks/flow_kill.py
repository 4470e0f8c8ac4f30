"""Does a plan that is killed end as if nothing had happened? Counts it over many runs.

Thirty steps, the same random DAG in every run. Ten items are booked through an MCP server over
stdio: five by a step each, five by two steps with `forEach`. The others read, one of them for each
item of a list, and what they read is made from the results of the steps before them. Every third
has a condition under which it runs; one would book under a condition that never holds. The
process gets SIGKILL a random time after a random one of the bookings (or before the first); new
processes resume the thread until it ends. A person answers the questions about uncertain calls by
looking into the book: booked, so it ran; not booked, so run it again. The server checks nothing.

    python benchmarks/flow_kill.py [runs] [seed]

Prints one line of JSON; exit code 1 if an item was booked twice or never, a run did not end
complete, an uncertain call was not asked about, or a run ended with other results or another answer
than one that nobody killed. "read_again" counts the reads that were made once more: they were under
way, or their results not yet written down.
"""

import json
import random
import sys
import time
from pathlib import Path
from typing import Any

from flow_plans import GOAL, planning, roomy, step
from killing import ITEMS, go_on, is_good, killed_runs, ledger, one_run, preload
from langchain_core.tools import StructuredTool

from loopwright import build_prompt_flow, open_durability

READS = 20
DAG_SEED = 4
NEVER = 0
"""What is booked under a condition that does not hold."""
EACH = (ITEMS[5:8], ITEMS[8:])
"""What is booked for each item of a list that was read."""


def plan() -> dict[str, Any]:
    """The DAG: every step is made from, or merely follows, up to three steps before it."""
    draw = random.Random(DAG_SEED)
    kinds = draw.sample(["book"] * len(ITEMS[:5]) + ["look"] * READS, k=len(ITEMS[:5]) + READS)
    items = iter(ITEMS)
    steps: list[dict[str, Any]] = []
    for place, kind in enumerate(kinds):
        names = [other["id"] for other in steps]
        needs = draw.sample(names, min(place, draw.randrange(4)))
        if kind == "book":
            steps.append(step(f"s{place}", "book", needs, item=next(items)))
        else:
            given = [f"{{{{{name}}}}}" for name in needs]
            steps.append(step(f"s{place}", "look", number=place, given=given))
    for number in range(3, len(steps), 3):
        if before := _looks(steps[:number]):
            steps[number]["when"] = f"{before[-1]}.number >= 0 and {before[-1]}.length > 0"
    first, *_, last = _looks(steps)
    of_item = {"number": "{{item}}", "given": ["{{item}}"]}
    return {
        "steps": [
            *steps,
            step("each_look", "look", **of_item) | {"forEach": f"{{{{{first}.open[0]}}}}"},
            step("each", "book", item="{{item}}") | {"forEach": f"{{{{{first}.open[0]}}}}"},
            step("rest", "book", item="{{item}}") | {"forEach": f"{{{{{last}.open[1]}}}}"},
            step("never", "book", item=NEVER) | {"when": "each_look[0].number < 0"},
            step("told", "look", number=99, given=["{{each}}", "{{rest[0]}}"]),
        ]
    }


def _looks(steps: list[dict[str, Any]]) -> list[str]:
    return [step["id"] for step in steps if step["tool"] == "look" and "when" not in step]


def reader(folder: str) -> StructuredTool:
    """A tool that reads, and notes in the folder that it did."""

    def look(number: int, given: list[Any]) -> dict[str, Any]:
        """Look something up for what is given."""
        with Path(folder, "reads").open("a") as noted:
            noted.write(f"{number}\n")
        time.sleep(random.uniform(0, 0.02))
        return {"number": number, "length": len(json.dumps(given)), "open": [*map(list, EACH)]}

    return StructuredTool.from_function(look, metadata={"readOnlyHint": True})


def work(folder: str, answer: dict[str, Any] | None) -> None:
    """One process: begin the run, resume it, or resume it with an answer."""
    with open_durability(f"sqlite:///{folder}/threads.db") as durability:
        graph = build_prompt_flow(
            model=planning(plan()), tools=[reader(folder)], mcp=ledger(folder), policy="allow",
            durability=durability,
        )  # fmt: skip
        go_on(folder, graph, GOAL, answer, roomy())


def ending(outcome: dict[str, Any]) -> dict[str, Any]:
    """What must be the same however often a run was killed."""
    steps = {task["id"]: (task["status"], task["result"]) for task in outcome.get("tasks", [])}
    return {"answer": outcome.get("answer"), "steps": steps}


def main() -> int:
    """Run, count, print; the exit code."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    undisturbed = ending(one_run(work, None).outcome)
    ended, row = killed_runs(work, runs, int(sys.argv[2]) if len(sys.argv) > 2 else 9)
    row["read_again"] = sum(told.read.total() - len(told.read) for told in ended)
    row["done_never"] = sum(told.booked[NEVER] for told in ended)
    row["same_ending"] = sum(ending(told.outcome) == undisturbed for told in ended)
    print(json.dumps(row))  # noqa: T201 - the benchmark's result
    same = row["same_ending"] == runs and not row["done_never"]
    return 0 if is_good(row) and same else 1


if __name__ == "__main__":
    preload("loopwright.graphs.prompt_flow")
    sys.exit(main())

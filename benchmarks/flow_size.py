"""What do large plans cost? Prints milliseconds and bytes a step for plans of 1 to 1,000 steps.

Every step is one call of a tool that reads and answers at once; ten go beside each other, and each
refers to the result of the one ten places before. In memory and on SQLite, rounds interleaved.

    python benchmarks/flow_size.py [rounds] [steps …]

Read the columns downwards: what stays flat is linear in the steps. "check" is the proof that a plan
is sound, for 1,000 steps; "run" the phase in which the steps run, "turn" the whole turn with
planning, checking, adopting and answering, both for one step, in CPU time; "saved" is the database
for one step. The first row holds what a turn costs whatever its size.
"""

import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from flow_plans import GOAL, planning, roomy, step, thread
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from loopwright import build_prompt_flow, open_durability
from loopwright.calls.toolbox import Toolbox
from loopwright.flow.checks import find_plan_flaws
from loopwright.flow.execution_plan import ExecutionPlan

SIZES = (1, 10, 100, 1_000)
BESIDE = 10
KINDS = ("memory", "SQLite")


@tool
async def look(number: int, before: int = 0) -> dict[str, int]:
    """Look up a number."""
    return {"number": number, "before": before}


look.metadata = {"readOnlyHint": True}


class Cost(NamedTuple):
    """What a plan took: CPU seconds of its steps and of the turn, and bytes of the database."""

    run: float
    turn: float
    saved: int


def plan_of(steps: int) -> dict[str, Any]:
    """Ten chains beside each other."""
    return {
        "steps": [
            step(f"s{n}", "look", number=n, before=f"{{{{s{n - BESIDE}.number}}}}")
            if n >= BESIDE
            else step(f"s{n}", "look", number=n)
            for n in range(steps)
        ]
    }


async def check(steps: int) -> float:
    """Seconds that the proof of a plan takes."""
    plan = ExecutionPlan.model_validate(plan_of(steps))
    catalog = await Toolbox([look]).catalog()
    began = time.process_time()
    found = find_plan_flaws(plan, catalog, limit=steps)
    taken = time.process_time() - began
    assert found == []
    return taken


async def turn(graph: Any) -> tuple[float, float]:
    """CPU seconds from the end of the check to the end of the last step, and of the whole turn."""
    marks: dict[str, float] = {}
    began, last = time.process_time(), {}
    async for update in graph.astream(GOAL, thread(), context=roomy(), stream_mode="updates"):
        marks |= dict.fromkeys(update, time.process_time())
        last = update
    ended = last["finish"]["outcome"]
    assert ended["status"] == "complete", ended
    return marks["run_flow"] - marks["check_flow"], time.process_time() - began


def size(folder: str) -> int:
    """Bytes of the files in a folder."""
    return sum(file.stat().st_size for file in Path(folder).iterdir())


async def cost(steps: int, kind: str) -> Cost:
    """Run one plan on a new thread."""
    model = planning(plan_of(steps))
    if kind == "memory":
        graph = build_prompt_flow(model=model, tools=[look], checkpointer=InMemorySaver())
        return Cost(*await turn(graph), 0)
    with tempfile.TemporaryDirectory() as name:
        with open_durability(f"sqlite:///{name}/threads.db") as durability:
            graph = build_prompt_flow(model=model, tools=[look], durability=durability)
            taken = await turn(graph)
        return Cost(*taken, size(name))


async def measure(
    sizes: list[int], rounds: int
) -> tuple[dict[tuple[str, int], list[Cost]], dict[int, list[float]]]:
    """The cost of every plan in every round, and the seconds of its check."""
    await cost(BESIDE, "SQLite")  # warms up
    costs: dict[tuple[str, int], list[Cost]] = {}
    checks: dict[int, list[float]] = {}
    for _ in range(rounds):
        for steps in sizes:
            checks.setdefault(steps, []).append(await check(steps))
            for kind in KINDS:
                costs.setdefault((kind, steps), []).append(await cost(steps, kind))
    return costs, checks


def main() -> None:
    """Measure and print."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    sizes = [int(size) for size in sys.argv[2:]] or list(SIZES)
    costs, checks = asyncio.run(measure(sizes, rounds))
    write = sys.stdout.write
    write(f"a step of a plan, medians of {rounds} rounds\n")
    write(f"  {'steps':>6} {'':8} {'check/1000':>11} {'run':>9} {'turn':>9} {'saved':>10}\n")
    for kind in KINDS:
        for steps in sizes:
            run, turn_, saved = map(statistics.median, zip(*costs[kind, steps], strict=True))
            proof = statistics.median(checks[steps]) / steps * 1e6
            write(f"  {steps:6} {kind:8} {proof:8.1f} ms {run / steps * 1e3:6.2f} ms ")
            write(f"{turn_ / steps * 1e3:6.2f} ms {saved / steps:8.0f} B\n")


if __name__ == "__main__":
    main()

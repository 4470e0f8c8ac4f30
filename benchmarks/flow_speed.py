"""Do large plans of prompt_flow run at the speed of their critical path? Prints wall time.

Random DAGs of a hundred steps at two paces: from the end of the plan's check to the end of the
phase in which its steps run, against the lower bound max(critical path, work / concurrency). "bare"
is the same DAG in asyncio alone, with a semaphore. `costs.py dag` measures a whole run.

    python benchmarks/flow_speed.py [random DAGs]

Read the ratios, not the seconds: 1.00 is as fast as the plan allows. What "bare" has above it is
the order of the steps and the machine; what prompt_flow has above "bare" is what it costs. A step
costs a core some milliseconds, so the share of "CPU" says how near a pace comes to what one process
can start at all.
"""

import asyncio
import gc
import random
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from itertools import product
from typing import Any, NamedTuple

from flow_plans import (
    GOAL,
    Tasks,
    arguments_of,
    critical_path,
    drawn,
    plan_of,
    planning,
    roomy,
    take_time,
    thread,
    work,
)

from loopwright import build_prompt_flow, open_durability

CONCURRENCIES = (4, 8)
SLOWEST = (0.05, 0.25)
KINDS = ("bare", "memory", "SQLite")


class Makespan(NamedTuple):
    """What a random DAG took, as a multiple of its lower bound; `busy` is CPU by wall time."""

    ratio: float
    busy: float


Case = tuple[float, int, str]
"""Seconds of the slowest step, concurrency, and what runs it."""


async def bare(tasks: Tasks, slots: int) -> tuple[float, float]:
    """Wall and CPU seconds of a DAG in asyncio alone."""
    gate, running = asyncio.Semaphore(slots), dict[str, asyncio.Task[Any]]()

    async def one(name: str) -> None:
        for need in tasks[name][1]:
            await running[need]
        async with gate:
            await take_time(**arguments_of(tasks, name))

    began = time.perf_counter(), time.process_time()
    for name in tasks:
        running[name] = asyncio.create_task(one(name))
    await asyncio.gather(*running.values())
    return time.perf_counter() - began[0], time.process_time() - began[1]


async def steps_phase(tasks: Tasks, slots: int, url: str | None) -> tuple[float, float]:
    """Wall and CPU seconds of a DAG, from the end of its check to the end of its last step."""
    marks: dict[str, tuple[float, float]] = {}
    with ExitStack() as stack:
        kept = stack.enter_context(open_durability(url)) if url else None
        graph = build_prompt_flow(model=planning(plan_of(tasks)), tools=[work], durability=kept)
        async for update in graph.astream(
            GOAL, thread(), context=roomy(max_parallel_tasks=slots), stream_mode="updates"
        ):
            marks |= dict.fromkeys(update, (time.perf_counter(), time.process_time()))
    (wall, cpu), (wall_end, cpu_end) = marks["check_flow"], marks["run_flow"]
    return wall_end - wall, cpu_end - cpu


def makespan(tasks: Tasks, slots: int, kind: str) -> Makespan:
    """Run one DAG, nobody else's garbage on its bill."""
    gc.collect()
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/threads.db" if kind == "SQLite" else None
        run = bare(tasks, slots) if kind == "bare" else steps_phase(tasks, slots, url)
        wall, cpu = asyncio.run(run)
    bound = max(critical_path(tasks), sum(s for s, _ in tasks.values()) / slots)
    return Makespan(wall / bound, cpu / wall)


def random_dags(number: int) -> dict[Case, list[Makespan]]:
    """Every DAG at every pace with every concurrency: bare, in memory and on SQLite."""
    found: dict[Case, list[Makespan]] = {}
    for seed, slowest, slots, kind in product(range(number), SLOWEST, CONCURRENCIES, KINDS):
        tasks = drawn(random.Random(seed), slowest)
        found.setdefault((slowest, slots, kind), []).append(makespan(tasks, slots, kind))
    return found


def main() -> None:
    """Measure and print."""
    number, write = int(sys.argv[1]) if len(sys.argv) > 1 else 20, sys.stdout.write
    write(f"random DAGs of 100 steps, medians of {number}, as multiples of the lower bound\n")
    for (slowest, slots, kind), rows in random_dags(number).items():
        ratio, busy = map(statistics.median, zip(*rows, strict=True))
        pace = f"{slowest * 100:3.0f} to {slowest * 1000:.0f} ms, concurrency {slots}"
        most = max(row.ratio for row in rows)
        write(f"  {pace:28} {kind:8} {ratio:5.2f}   at most {most:5.2f}   CPU {busy:4.0%}\n")


if __name__ == "__main__":
    main()

"""Does prompt_flow run at the speed of its critical path? Prints wall time against it.

First a diamond of seven steps of 0.3 s under a model that takes 0.2 s: needed are its critical path
and two model calls, one for the plan and one for the answer. Next to it LangChain's `create_agent`
over the same tool, by a script that calls one step a turn, or all that are ready. Then random DAGs
of a hundred steps at two paces: from the end of the plan's check to the end of the phase in which
its steps run, against the lower bound max(critical path, work / concurrency). "bare" is the same
DAG in asyncio alone, a semaphore and nothing else. All rounds are interleaved.

    python benchmarks/flow_speed.py [rounds] [random DAGs]

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
from contextlib import AsyncExitStack, ExitStack
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from flow_plans import GOAL, Tasks, arguments_of, drawn, plan_of, planning, roomy, take_time, work
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from parallel_tasks import critical_path
from react_cost import Run, medians, thread

from loopwright import ScriptedModel, build_prompt_flow, open_durability
from loopwright.models.scripted import Slow

LATENCY = 0.2
DIAMOND: Tasks = {
    name: (0.3, needs)
    for name, needs in {
        "a": [], "b": ["a"], "c": ["a"], "d": ["a"], "e": ["b", "c"], "f": ["d"], "g": ["e", "f"],
    }.items()
}  # fmt: skip
CONCURRENCIES = (4, 8)
SLOWEST = (0.05, 0.25)
KINDS = ("bare", "memory", "SQLite")


def flow(folder: Path | None, stack: AsyncExitStack) -> Run:
    """prompt_flow over the diamond, in memory or on SQLite."""
    durability = None
    if folder is not None:
        durability = stack.enter_context(open_durability(f"sqlite:///{folder}/flow.db"))
    model = planning(plan_of(DIAMOND), LATENCY)
    graph = build_prompt_flow(model=model, tools=[work], durability=durability)

    async def run() -> None:
        ended = await graph.ainvoke(GOAL, thread())
        assert ended["outcome"]["status"] == "complete", ended["outcome"]

    return run


def acting(*, wide: bool) -> ScriptedModel:
    """A model that calls the next step a turn, or all that are ready, until all are done."""

    def script(messages: list[Any], offered: list[str]) -> Slow:  # noqa: ARG001 - the script's signature
        done = {message.tool_call_id for message in messages if message.type == "tool"}
        ready = [i for i, (_, needs) in DIAMOND.items() if i not in done and done >= {*needs}]
        calls = [
            {"name": "work", "id": name, "args": arguments_of(DIAMOND, name)}
            for name in (ready if wide else ready[:1])
        ]
        return Slow(LATENCY, calls or "All steps are done.")

    return ScriptedModel(script)


async def agent(folder: Path | None, stack: AsyncExitStack, *, wide: bool) -> Run:
    """`create_agent` over the diamond, without and with LangGraph's own SQLite saver."""
    saver = None
    if folder is not None:
        opened = AsyncSqliteSaver.from_conn_string(str(folder / f"agent-{wide}.db"))
        saver = await stack.enter_async_context(opened)
    graph = create_agent(acting(wide=wide), [work], checkpointer=saver, system_prompt="You work.")
    return lambda: graph.ainvoke({"messages": [HumanMessage("Do the steps.")]}, thread())


async def diamond(rounds: int) -> dict[str, float]:
    """Wall seconds of whole runs, medians."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        everybody: dict[str, Run] = {}
        for kind, place in (("", None), (", SQLite", folder)):
            everybody[f"prompt_flow{kind}"] = flow(place, stack)
            for wide, how in ((True, "all ready"), (False, "one step")):
                everybody[f"create_agent, {how}{kind}"] = await agent(place, stack, wide=wide)
        return await medians(everybody, rounds, time.perf_counter)


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
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    number = int(sys.argv[2]) if len(sys.argv) > 2 else 20
    write = sys.stdout.write
    needed = critical_path(DIAMOND) + 2 * LATENCY
    write(f"seven steps in a diamond, needed {needed:.2f} s, median of {rounds} rounds\n")
    for name, wall in asyncio.run(diamond(rounds)).items():
        write(f"  {name:32} {wall:6.3f} s   {wall / needed:5.2f} x needed\n")
    write(f"random DAGs of 100 steps, medians of {number}, as multiples of the lower bound\n")
    for (slowest, slots, kind), rows in random_dags(number).items():
        ratio, busy = map(statistics.median, zip(*rows, strict=True))
        pace = f"{slowest * 100:3.0f} to {slowest * 1000:.0f} ms, concurrency {slots}"
        most = max(row.ratio for row in rows)
        write(f"  {pace:28} {kind:8} {ratio:5.2f}   at most {most:5.2f}   CPU {busy:4.0%}\n")


if __name__ == "__main__":
    main()

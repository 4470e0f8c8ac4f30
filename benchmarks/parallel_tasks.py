"""Do tasks run at the speed of their critical path? Prints makespan against it.

Seven tasks in a diamond with tools of 0.1 to 0.7 s, and four independent tasks of 1 s. The scripted
model answers at once, so everything above the critical path is what the framework costs.

    python benchmarks/parallel_tasks.py [rounds]
"""

import asyncio
import json
import statistics
import sys
import tempfile
import time

from langgraph.checkpoint.memory import InMemorySaver

from loopwright import Context, ScriptedModel, build_plan_execute_verify, open_durability
from loopwright.prompts.prompt import read_json

# task: (seconds, depends on); the longest way is a → c → f → g with 0.1 + 0.7 + 0.3 + 0.3 s.
DIAMOND = {
    "a": (0.1, []), "b": (0.4, ["a"]), "c": (0.7, ["a"]), "d": (0.2, ["a"]),
    "e": (0.3, ["b"]), "f": (0.3, ["c", "d"]), "g": (0.3, ["e", "f"]),
}  # fmt: skip
FOUR = {name: (1.0, []) for name in "abcd"}


def critical_path(tasks: dict[str, tuple[float, list[str]]]) -> float:
    """Seconds of the longest way through the plan, which has dependencies first."""
    ends: dict[str, float] = {}
    for name, (seconds, needs) in tasks.items():
        ends[name] = seconds + max((ends[other] for other in needs), default=0.0)
    return max(ends.values())


def scripted(tasks: dict[str, tuple[float, list[str]]]) -> ScriptedModel:
    """A model that plans these tasks, makes one call for each and passes them."""
    todos = [
        {"id": i, "description": f"task {i}", "dependsOn": needs} for i, (_, needs) in tasks.items()
    ]

    def executor(messages: list, offered: list[str]) -> object:  # noqa: ARG001 - the script's signature
        name = read_json(messages[1].text, "task")["id"]
        if messages[-1].type == "tool":
            return {"taskCompleted": True, "summary": f"{name} took {messages[-1].text}"}
        return [{"name": "wait", "args": {"seconds": tasks[name][0]}}]

    verdict = {
        "allCompleted": True,
        "userNeedsSatisfied": True,
        "summary": "Every task took its time.",
        "tasks": [{"id": i, "completed": True, "evidence": [f"{i}.1.0"]} for i in tasks],
    }
    return ScriptedModel(
        {"planner": [{"todos": todos}], "executor": executor, "verifier": [verdict]}
    )


async def wait(seconds: float) -> str:
    """Take some time."""
    await asyncio.sleep(seconds)
    return f"{seconds} s"


async def makespan(tasks: dict[str, tuple[float, list[str]]], saver: object) -> float:
    """Seconds of one run, from the start of the work phase to its end."""
    graph = build_plan_execute_verify(model=scripted(tasks), tools=[wait], checkpointer=saver)
    config = {"configurable": {"thread_id": f"{time.monotonic_ns()}"}}
    marks: dict[str, float] = {}
    async for update in graph.astream(
        {"messages": [{"role": "user", "content": "go"}]}, config,
        context=Context(max_parallel_tasks=8), stream_mode="updates",
    ):  # fmt: skip
        for node in update:
            marks[node] = time.perf_counter()
    return marks["work"] - marks["planner"]


def main() -> None:
    """Measure both plans without and with SQLite, several rounds, and print medians."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    rows = []
    for plan, tasks in (("diamond of seven", DIAMOND), ("four independent", FOUR)):
        for kind in ("memory", "sqlite"):
            best = critical_path(tasks)
            with (
                tempfile.TemporaryDirectory() as folder,
                open_durability(f"sqlite:///{folder}/threads.db") as durability,
            ):
                saver = durability.checkpointer if kind == "sqlite" else InMemorySaver()
                times = [asyncio.run(makespan(tasks, saver)) for _ in range(rounds)]
            median = statistics.median(times)
            rows.append(
                {"plan": plan, "saver": kind, "critical_path_s": round(best, 2),
                 "makespan_s": round(median, 3), "ratio": round(median / best, 3)}
            )  # fmt: skip
    for row in rows:
        print(json.dumps(row))  # noqa: T201 - the benchmark's result


if __name__ == "__main__":
    main()

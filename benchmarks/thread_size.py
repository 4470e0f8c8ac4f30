"""What a long thread costs: file size, also pruned, time of a turn, time to read its state.

200 turns of plan_execute_verify in one SQLite thread, each with a message of 2 kB and one tool
call that reads; once with short answers, once with results and answers of 2 kB, too. The texts are
random words, so they compress about as well as prose.

    python benchmarks/thread_size.py [turns]
"""

import json
import random
import sys
import tempfile
import time
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from langchain_core.tools import StructuredTool

from loopwright import ScriptedModel, build_plan_execute_verify, open_durability
from loopwright.doors.threads import list_threads

THREAD: Any = {"configurable": {"thread_id": "long"}}
WORDS = ["".join(random.choices("etaoinshrdlucmfwyp", k=random.randint(2, 9))) for _ in range(3000)]


def text(size: int) -> str:
    """Random words, so many characters long."""
    return " ".join(random.choices(WORDS, k=size // 2))[:size]


def scripted(size: int) -> ScriptedModel:
    """One task, one call, an answer of so many characters."""

    def executor(messages: list[Any], offered: list[str]) -> Any:  # noqa: ARG001 - the script's signature
        if messages[-1].type == "tool":
            return {"taskCompleted": True, "summary": text(min(size, 300))}
        return [{"name": "look", "args": {}}]

    def verifier(messages: list[Any], offered: list[str]) -> Any:  # noqa: ARG001 - the script's signature
        proven = {"id": "1", "completed": True, "evidence": ["1.1.0"]}
        flags = {"allCompleted": True, "userNeedsSatisfied": True}
        return {**flags, "summary": text(size), "tasks": [proven]}

    todo = {"id": "1", "description": "Look it up"}
    plan = {"todos": [todo]}
    return ScriptedModel({"planner": lambda *_: plan, "executor": executor, "verifier": verifier})


def measure(folder: Path, turns: int, size: int) -> dict[str, Any]:
    """The figures of one thread."""
    durations, reads = [], []

    def look() -> str:
        """Look something up."""
        return text(size)

    reads_only = StructuredTool.from_function(look, metadata={"readOnlyHint": True})
    with open_durability(f"sqlite:///{folder}/threads.db") as database:
        graph = build_plan_execute_verify(
            model=scripted(size), tools=[reads_only], durability=database
        )
        for _ in range(turns):
            message = {"messages": [{"role": "user", "content": text(2000)}]}
            started = time.perf_counter()
            graph.invoke(message, THREAD)
            read = time.perf_counter()
            graph.get_state(THREAD)
            durations.append(read - started)
            reads.append(time.perf_counter() - read)
        started = time.perf_counter()
        list_threads(database)
        listed = time.perf_counter() - started
        pruned = database.prune(keep="latest")
    return {
        "turns": turns,
        "result and answer (characters)": size,
        "database (MB)": round(pruned.before / 1e6, 2),
        "pruned to the latest (MB)": round(pruned.after / 1e6, 2),
        "turn, median (ms)": round(median(durations) * 1000, 1),
        "get_state, median (ms)": round(median(reads) * 1000, 1),
        "get_state, 90 % (ms)": round(quantiles(reads, n=10)[-1] * 1000, 1),
        "list_threads (ms)": round(listed * 1000, 1),
    }


def main() -> None:
    """Print one line a thread."""
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    for size in (50, 2000):
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(measure(Path(folder), turns, size)))  # noqa: T201 - the benchmark's result


if __name__ == "__main__":
    random.seed(1)
    main()

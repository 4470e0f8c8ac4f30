"""What one long thread costs: file size, time to read its state, overhead of the doors.

Run with `python -m benchmarks.thread_size` or as a file; prints one line a figure.
"""

import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from langchain_core.messages import AIMessage
from langgraph.graph import START

from loopwright.doors.durability import list_threads, open_durability
from loopwright.doors.graph import LoopBuilder
from loopwright.state.messages import Messages

TURNS = 200
SIZES = (1000, 2000)  # of the question, and of the answer
THREAD: Any = {"configurable": {"thread_id": "long"}}


@dataclass(kw_only=True)
class Chat:
    """A conversation."""

    messages: Messages = field(default_factory=list)


async def reply(state: Chat) -> dict[str, Any]:
    """Answer with as much text as was said."""
    return {"messages": [AIMessage(state.messages[-1].text)]}


def milliseconds(call: Any, times: int) -> float:
    """The median duration of a call."""
    durations = []
    for _ in range(times):
        start = time.perf_counter()
        call()
        durations.append(time.perf_counter() - start)
    return median(durations) * 1000


def measure(folder: Path, size: int) -> dict[str, float]:
    """The figures of one thread of 200 turns."""
    builder = LoopBuilder(Chat)
    builder.add_node("reply", reply)
    builder.add_edge(START, "reply")
    with open_durability(f"sqlite:///{folder}/threads.db") as database:
        graph = builder.compile(database.checkpointer, writes=lambda: True)
        turn = {"messages": [{"role": "user", "content": "x" * size}]}
        figures = {"turn (ms)": milliseconds(lambda: graph.invoke(turn, THREAD), TURNS)}
        figures["get_state (ms)"] = milliseconds(lambda: graph.get_state(THREAD), 20)
        figures["list_threads (ms)"] = milliseconds(lambda: list_threads(database), 20)
    stored = sum(file.stat().st_size for file in folder.iterdir())
    return figures | {"database (MB)": stored / 1e6}


def main() -> None:
    """Measure in temporary folders and print."""
    for size in SIZES:
        with tempfile.TemporaryDirectory() as folder:
            for name, value in measure(Path(folder), size).items():
                print(f"{TURNS} turns of 2 x {size} characters, {name}: {value:.2f}")  # noqa: T201 - its output


if __name__ == "__main__":
    main()

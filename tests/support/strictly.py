"""Every graph with a question, its answer and a second turn, on a saver of each kind."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from loopwright import open_durability
from loopwright.graphs.registry import REGISTRY
from support.desk_writer import desk_writer

ON_T = {"configurable": {"thread_id": "t"}}


def run(folder: str) -> Iterator[tuple[str, str, list[str]]]:
    """Name of a graph, of its saver, and how its turns ended."""
    for name in REGISTRY:
        yield name, "memory", _turns(name, Path(folder), checkpointer=InMemorySaver())
        with open_durability(f"sqlite:///{folder}/{name}.db") as kept:
            yield name, "sqlite", _turns(name, Path(folder), durability=kept)


def _turns(name: str, folder: Path, **saver: Any) -> list[str]:
    def write_file(path: str, content: str) -> str:
        """Write a file."""
        (folder / path).write_text(content)
        return f"wrote {path}"

    desk = name == "customer_service"
    words = ["yes"] if desk else []  # before a write its customer is asked in words
    model = desk_writer() if desk else "offline"
    graph: Any = REGISTRY[name].build(model=model, tools=[write_file], policy="ask", **saver)
    goals = [f'Write "good morning" to {path}' for path in ("a.txt", "b.txt")]
    return [_turn(graph, goal, *words) for goal in goals]


def _turn(graph: Any, *words: str) -> str:
    said = [graph.invoke({"messages": [("user", text)]}, ON_T) for text in words][-1]
    assert said["__interrupt__"]
    assert graph.get_state(ON_T).interrupts
    return str(graph.invoke(Command(resume="approve"), ON_T)["outcome"]["status"])

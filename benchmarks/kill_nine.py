"""Is a write ever done twice, or lost, when the process is killed? Counts it over many runs.

Each run books ten items through an MCP server over stdio, one to four calls a model turn, on a
thread in a SQLite file. The process gets SIGKILL a random time after a random one of the bookings
(or before the first); new processes resume the thread until it ends. A person answers the questions
about uncertain calls by looking into the book: booked, so it ran; not booked, so run it again. The
server itself checks nothing.

    python benchmarks/kill_nine.py [runs] [seed]

Prints one line of JSON; exit code 1 if an item was booked twice or never, a run did not end, or
an uncertain call was not asked about.
"""

import json
import sys
from typing import Any

from killing import ITEMS, go_on, is_good, killed_runs, ledger, preload
from langchain_core.messages import BaseMessage

from loopwright import Context, ScriptedModel, build_react, open_durability

TURNS = ([1], [2, 3], [4, 5, 6], [7, 8, 9, 10])
GOAL: Any = {"messages": [{"role": "user", "content": "Book the items 1 to 10."}]}
assert [item for turn in TURNS for item in turn] == [*ITEMS]


def script(messages: list[BaseMessage], offered: list[str]) -> Any:
    """The model: books the items of the next turn until all are answered."""
    answered = sum(message.type == "tool" for message in messages)
    turn = next((t for t in TURNS if answered < t[-1]), None)
    if not offered:  # a thought may call no tool
        text = f"Next: {turn}." if turn else "All ten items are booked."
        return f'{text}\n<agent_meta>{{"shouldContinue": {str(bool(turn)).lower()}}}</agent_meta>'
    return [{"name": "book", "args": {"item": item}} for item in turn or []]


def work(folder: str, answer: dict[str, Any] | None) -> None:
    """One process: begin the run, resume it, or resume it with an answer."""
    with open_durability(f"sqlite:///{folder}/threads.db") as durability:
        graph = build_react(
            model=ScriptedModel(script), mcp=ledger(folder), policy="allow",
            foreign="allow", durability=durability, observe="direct",
        )  # fmt: skip
        go_on(folder, graph, GOAL, answer, Context(max_iterations=20))


def main() -> int:
    """Run, count, print; the exit code."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    _, row = killed_runs(work, runs, int(sys.argv[2]) if len(sys.argv) > 2 else 9)
    print(json.dumps(row))  # noqa: T201 - the benchmark's result
    return 0 if is_good(row) else 1


if __name__ == "__main__":
    preload("loopwright.graphs.react")
    sys.exit(main())

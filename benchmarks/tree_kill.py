"""Does a tree of agents that is killed end as if nothing had happened? Counts it over many runs.

Three levels of sub-agents under the graph's own agent, two branches side by side. Each agent books
items through an MCP server over stdio and delegates the rest; ten are booked in all. The process
gets SIGKILL a random time after a random one of the bookings (or before the first); new processes
resume the thread until it ends. A person answers the questions about uncertain calls by looking
into the book: booked, so it ran; not booked, so run it again. The server itself checks nothing.

    python benchmarks/tree_kill.py [runs] [seed]

Prints one line of JSON; exit code 1 if an item was booked twice or never, a run did not end, an
uncertain call was not asked about, or an agent did not tell its parent of all that was booked below
it, as it does in a run that nobody killed.
"""

import json
import sys
from typing import Any

from killing import ITEMS, go_on, is_good, killed_runs, ledger, one_run, preload
from langchain_core.messages import BaseMessage

from loopwright import AgentDefinition, Context, ScriptedModel, build_task_agent, open_durability

TREE: dict[str, Any] = {
    "book": [1, 2],
    "give": [
        {
            "agent": "first",
            "book": [3],
            "give": [
                {"agent": "second", "book": [5, 6], "give": [{"agent": "third", "book": [8, 9]}]}
            ],
        },
        {
            "agent": "first",
            "book": [4],
            "give": [{"agent": "second", "book": [7], "give": [{"agent": "third", "book": [10]}]}],
        },
    ],
}
GOAL: Any = {"messages": [{"role": "user", "content": json.dumps(TREE)}]}
BOOKED = {
    "type": "object",
    "properties": {"booked": {"type": "array", "items": {"type": "integer"}}},
    "required": ["booked"],
}
AGENTS = [
    AgentDefinition(name=name, description="Books.", agents=below, output=BOOKED)
    for name, below in (("first", ("second",)), ("second", ("third",)), ("third", ()))
]
CHIEF = AgentDefinition(output=BOOKED, agents=("first",))


def script(messages: list[BaseMessage], _: list[str]) -> Any:
    """The model: each agent does what its objective says, and tells what was booked below it."""
    work = json.loads(next(message.text for message in messages if message.type == "human"))
    told = [message for message in messages if message.type == "tool"]
    if not told:
        calls = [{"name": "book", "args": {"item": item}} for item in work["book"]]
        return calls + [_given(part) for part in work.get("give", [])]
    reports = [json.loads(m.text) for m in told if m.name == "delegate_to_agent"]
    below = [item for one in reports for item in one.get("output", {}).get("booked", [])]
    booked = [*work["book"], *below]
    args = {"summary": f"Booked {sorted(booked)}.", "output": {"booked": sorted(booked)}}
    return [{"name": "complete_task", "args": args}]


def _given(part: dict[str, Any]) -> dict[str, Any]:
    args = {"agent_name": part["agent"], "objective": json.dumps(part)}
    return {"name": "delegate_to_agent", "args": args}


def work(folder: str, answer: dict[str, Any] | None) -> None:
    """One process: begin the run, resume it, or resume it with an answer."""
    with open_durability(f"sqlite:///{folder}/threads.db") as durability:
        graph = build_task_agent(
            model=ScriptedModel(script), mcp=ledger(folder), policy="allow", definition=CHIEF,
            agents=AGENTS, foreign="allow", durability=durability,
        )  # fmt: skip
        go_on(folder, graph, GOAL, answer, Context())


def main() -> int:
    """Run, count, print; the exit code."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    undisturbed = one_run(work, None).outcome["result"]
    ended, row = killed_runs(work, runs, int(sys.argv[2]) if len(sys.argv) > 2 else 9)
    row["told_all"] = sum(told.outcome.get("result") == undisturbed for told in ended)
    print(json.dumps(row))  # noqa: T201 - the benchmark's result
    whole = undisturbed == {"booked": [*ITEMS]} and row["told_all"] == runs
    return 0 if is_good(row) and whole else 1


if __name__ == "__main__":
    preload("loopwright.graphs.task_agent")
    sys.exit(main())

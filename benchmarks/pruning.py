"""What pruning saves in PostgreSQL, beside workers that run: nothing may be lost.

    .venv/bin/python benchmarks/pruning.py [threads]

Two processes have three turns on each thread. In the third, another process prunes all threads
again and again, by the command, until they are done; then everything is counted.
"""

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))

from langchain_core.messages import HumanMessage

from loopwright import ScriptedModel, build_react, open_durability
from support import postgres
from support.scripts import call, thought

WORKERS, TURNS, AT_ONCE = 2, 3, 16
COMMAND = "from loopwright.cli import app; app(prog_name='loopwright')"


def look(name: str) -> str:
    """Look up a fact."""
    return f"{name}: " + "a fact of some length " * 20


def graph(kept: Any) -> Any:
    """Look once, then answer."""

    def think(messages: Any, _: Any) -> Any:
        looked = any(message.type == "tool" for message in messages[-4:])
        return thought("Ada owns it.") if looked else thought("I look.", more=True, reason="open")

    model = ScriptedModel(
        {
            "thought": think,
            "action": lambda *_: [call("look", name="it")],
            "observation": lambda *_: "The owner is Ada; answer now.",
        }
    )
    return build_react(model=model, tools=[look], durability=kept)


def on(number: int) -> Any:
    """The config of one thread."""
    return {"configurable": {"thread_id": f"thread {number:05}"}}


async def turns(url: str, numbers: range, words: str) -> None:
    """One turn on each of these threads, several at a time."""
    with open_durability(url) as kept:
        running, slots = graph(kept), asyncio.Semaphore(AT_ONCE)

        async def turn(number: int) -> None:
            async with slots:
                said = {"messages": [("user", words)]}
                done = await running.ainvoke(said, on(number), wait=60)
                assert done["outcome"]["status"] == "complete", done["outcome"]

        await asyncio.gather(*map(turn, numbers))


def begin(*args: str) -> "subprocess.Popen[str]":
    """Another process of this Python."""
    return subprocess.Popen([sys.executable, *args], stdout=subprocess.PIPE, text=True)


def work(url: str, threads: int, words: str) -> list["subprocess.Popen[str]"]:
    """The workers, each with its share of the threads."""
    return [
        begin(__file__, "--work", url, str(first), str(threads), words) for first in range(WORKERS)
    ]


def pruned(url: str) -> Any:
    """Prune all threads, by the command."""
    args = ("prune", "--keep", "latest", "--db", url, "--json")
    running = begin("-c", COMMAND, *args)
    told = json.loads(running.communicate()[0])
    assert running.returncode == 0
    return told


def main(threads: int) -> None:
    """Run the workers, prune beside them, and count."""
    with tempfile.TemporaryDirectory() as folder, postgres.server(Path(folder)) as server:
        url = server.database()
        for turn in range(TURNS - 1):
            for process in work(url, threads, f"turn {turn}"):
                assert process.wait() == 0
        with open_durability(url) as kept:
            before = sum(one.bytes or 0 for one in kept.threads(limit=200)) / min(200, threads)
        began, rounds, beside = time.monotonic(), 0, work(url, threads, f"turn {TURNS - 1}")
        removed = busy = 0
        while any(process.poll() is None for process in beside):
            told = pruned(url)
            rounds, removed = rounds + 1, removed + len(told["threads"])
            busy += sum(why == "a run holds it" for why in told["left"].values())
        assert [process.wait() for process in beside] == [0] * WORKERS
        took, last = time.monotonic() - began, time.monotonic()
        told = pruned(url)
        last, count = time.monotonic() - last, len(told["threads"])
        with open_durability(url) as kept:
            lost = sum(not whole(graph(kept), number) for number in range(threads))
            after = sum(one.bytes or 0 for one in kept.threads(limit=200)) / min(200, threads)
            left = len(kept.threads("unfinished"))
    tell(f"{threads} threads of {TURNS} turns, {WORKERS} workers: {lost} lost, {left} unfinished")
    tell(f"beside them {rounds} rounds in {took:.0f} s: {removed} pruned, {busy} met a run")
    tell(f"bytes a thread: {before:,.0f} after {TURNS - 1} turns, {after:,.0f} pruned")
    tell(f"the last round: {count} threads in {last:.1f} s, {told['bytes']}")


def tell(line: str) -> None:
    """Write a line of the report."""
    sys.stdout.write(f"{line}\n")


def whole(running: Any, number: int) -> bool:
    """Whether all that was said stands in a thread, and its last turn has ended."""
    values = running.get_state(on(number)).values
    said = [one.text for one in values["messages"] if isinstance(one, HumanMessage)]
    ended = values["outcome"]["status"] == "complete"
    return ended and said == [f"turn {turn}" for turn in range(TURNS)]


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        url, first, threads, words = sys.argv[2:]
        asyncio.run(turns(url, range(int(first), int(threads), WORKERS), words))
    else:
        main(int(sys.argv[1]) if sys.argv[1:] else 2_000)

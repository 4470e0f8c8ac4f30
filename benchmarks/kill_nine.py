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
import multiprocessing
import os
import random
import signal
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from langchain_core.messages import BaseMessage
from langgraph.types import Command

from loopwright import Context, ScriptedModel, build_react, open_durability

TURNS = ([1], [2, 3], [4, 5, 6], [7, 8, 9, 10])
ITEMS = [item for turn in TURNS for item in turn]
THREAD: Any = {"configurable": {"thread_id": "book"}}
RUN_SECONDS = 60.0
SIDE_BY_SIDE = 3
LONGEST_DELAY = 0.1
"""Seconds; about what the way from one booking to the next takes."""

_FORKS = multiprocessing.get_context("forkserver")


def script(messages: list[BaseMessage], offered: list[str]) -> Any:  # noqa: ARG001 - the script's signature
    """The model: books the items of the next turn until all are answered."""
    answered = sum(message.type == "tool" for message in messages)
    turn = next((t for t in TURNS if answered < t[-1]), None)
    if messages[0].text.startswith("You are the thought"):
        text = f"Next: {turn}." if turn else "All ten items are booked."
        return f'{text}\n<agent_meta>{{"shouldContinue": {str(bool(turn)).lower()}}}</agent_meta>'
    return [{"name": "book", "args": {"item": item}} for item in turn or []]


def work(folder: str, answer: dict[str, Any] | None) -> None:
    """One process: begin the run, resume it, or resume it with an answer."""
    os.setpgid(0, 0)
    server = {"command": sys.executable, "args": [str(SERVER), str(Path(folder, "book.db"))]}
    with open_durability(f"sqlite:///{folder}/threads.db") as durability:
        graph = build_react(
            model=ScriptedModel(script), mcp={"mcpServers": {"ledger": server}},
            policy="allow", durability=durability, observe="direct",
        )  # fmt: skip
        fresh = graph.get_state(THREAD).created_at is None
        goal = {"messages": [{"role": "user", "content": "Book the items 1 to 10."}]}
        given: Any = goal if fresh else Command(resume=answer) if answer else None
        result = graph.invoke(given, THREAD, context=Context(max_iterations=20))
        asked = [question.value for question in graph.get_state(THREAD).interrupts]
    told = {"asked": asked, "outcome": None if asked else result["outcome"]}
    Path(folder, "told.json").write_text(json.dumps(told, default=str))


SERVER = Path(__file__).with_name("ledger_server.py").resolve()


@dataclass
class Told:
    """What became of one run."""

    booked: Counter[int] = field(default_factory=Counter)
    killed: bool = False
    uncertain: int = 0
    asked: int = 0
    status: str = "did not end"

    @property
    def twice(self) -> int:
        """Items booked more than once."""
        return sum(self.booked[item] > 1 for item in ITEMS)

    @property
    def lost(self) -> int:
        """Items never booked."""
        return sum(self.booked[item] == 0 for item in ITEMS)


def one_run(kill: tuple[int, float]) -> Told:
    """Begin, kill so long after so many bookings, resume and answer until it ends."""
    told = Told()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with closing(sqlite3.connect(folder / "book.db")) as database:
            database.execute("PRAGMA journal_mode=WAL")
            database.execute("CREATE TABLE bookings (item INTEGER)")
        told.killed = not _ends(folder, None, kill)
        told.uncertain = _claimed(folder)
        answer: dict[str, Any] | None = None
        for _ in range(len(ITEMS) + 2):
            last = _last(folder)
            if last.get("outcome"):
                told.status = last["outcome"]["status"]
                break
            for question in last.get("asked", [])[:1]:
                told.asked += question["type"] == "uncertain_call"
                answer = _persons_answer(folder, question["action_request"]["args"]["item"])
            (folder / "told.json").unlink(missing_ok=True)
            _ends(folder, answer)
            answer = None
        told.booked = _book(folder)
    return told


def _ends(
    folder: Path, answer: dict[str, Any] | None, kill: tuple[int, float] | None = None
) -> bool:
    """Whether the process came to its own end; afterwards nothing of it is left."""
    process = _FORKS.Process(target=work, args=(str(folder), answer))
    process.start()
    if kill is not None:
        booked, delay = kill
        _wait_for_bookings(folder, process, booked)
        process.join(delay)
    else:
        process.join(RUN_SECONDS)
    alive = process.is_alive()
    if alive and process.pid:
        os.kill(process.pid, signal.SIGKILL)
    process.join()
    for pid in _servers(folder):
        _wait_for_end(pid)
    return not alive


def _wait_for_bookings(folder: Path, process: Any, booked: int) -> None:
    """Let the run get so far, at least to its server: before that there is nothing to lose."""
    while process.is_alive() and not list(folder.glob("server-*.pid")):
        time.sleep(0.005)
    while process.is_alive() and _book(folder).total() < booked:
        time.sleep(0.002)


def _servers(folder: Path) -> Iterator[int]:
    for file in folder.glob("server-*.pid"):
        yield int(file.stem.partition("-")[2])


def _wait_for_end(pid: int) -> None:
    """A call that reached the server may still take effect: the person looks when it has gone."""
    deadline = time.monotonic() + RUN_SECONDS
    while _is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.01)


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _last(folder: Path) -> dict[str, Any]:
    file = folder / "told.json"
    return dict(json.loads(file.read_text())) if file.exists() else {}


def _book(folder: Path) -> Counter[int]:
    with closing(sqlite3.connect(folder / "book.db", timeout=10)) as database:
        return Counter(item for (item,) in database.execute("SELECT item FROM bookings"))


def _persons_answer(folder: Path, item: int) -> dict[str, Any]:
    if _book(folder)[item]:
        return {"type": "respond", "message": f"booked item {item}"}
    return {"type": "approve"}


def _claimed(folder: Path) -> int:
    """Calls that were begun and have no end in the journal."""
    query = "SELECT count(*) FROM loopwright_calls WHERE state = 'claimed'"
    try:
        with closing(sqlite3.connect(folder / "threads.db", timeout=10)) as database:
            return int(database.execute(query).fetchone()[0])
    except sqlite3.OperationalError:
        return 0  # killed before there was a journal


def main() -> int:
    """Run, count, print; the exit code."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    draw = random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 9)
    began = time.monotonic()
    kills = [(draw.randrange(len(ITEMS)), draw.uniform(0, LONGEST_DELAY)) for _ in range(runs)]
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        ended = list(pool.map(one_run, kills))
    row = {
        "runs": runs,
        "killed": sum(told.killed for told in ended),
        "done_twice": sum(told.twice for told in ended),
        "lost": sum(told.lost for told in ended),
        "ended": sum(told.status == "complete" for told in ended),
        "uncertain": sum(told.uncertain for told in ended),
        "asked": sum(told.asked for told in ended),
        "seconds": round(time.monotonic() - began),
    }
    print(json.dumps(row))  # noqa: T201 - the benchmark's result
    good = row["ended"] == runs and row["asked"] == row["uncertain"]
    return 0 if good and not row["done_twice"] and not row["lost"] else 1


if __name__ == "__main__":
    _FORKS.set_forkserver_preload(["loopwright.graphs.react", "sqlite3"])
    sys.exit(main())

"""A booking run that is killed and resumed until it ends: what the benchmarks of kills share.

The work of a run is a function of a folder and of a person's answer. It keeps its thread in
`threads.db` and leaves in `told.json` what was asked or how it ended; its MCP server books items in
`book.db`, see `ledger_server.py`. What it reads it may note in `reads`, one line a time.
"""

import gc
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
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from langgraph.types import Command

ITEMS = range(1, 11)
THREAD: Any = {"configurable": {"thread_id": "book"}}
RUN_SECONDS = 60.0
SIDE_BY_SIDE = 3
LONGEST_DELAY = 0.1
"""Seconds; about what the way from one booking to the next takes."""

FORKS = multiprocessing.get_context("forkserver")
SERVER = Path(__file__).with_name("ledger_server.py").resolve()

Work = Callable[[str, dict[str, Any] | None], None]


@dataclass
class Told:
    """What became of one run."""

    booked: Counter[int] = field(default_factory=Counter)
    read: Counter[str] = field(default_factory=Counter)
    killed: bool = False
    uncertain: int = 0
    asked: int = 0
    outcome: dict[str, Any] = field(default_factory=dict)
    """Empty where the run did not end."""

    @property
    def complete(self) -> bool:
        """Whether the run met its goal."""
        return self.outcome.get("status") == "complete"

    @property
    def twice(self) -> int:
        """Items booked more than once."""
        return sum(self.booked[item] > 1 for item in ITEMS)

    @property
    def lost(self) -> int:
        """Items never booked."""
        return sum(self.booked[item] == 0 for item in ITEMS)


def preload(graph: str) -> None:
    """Have processes forked from one that has imported this module of a graph, and the client."""
    FORKS.set_forkserver_preload([graph, "loopwright.tools.mcp.session", "sqlite3"])


def ledger(folder: str) -> dict[str, Any]:
    """The MCP configuration of the folder's server."""
    args = [str(SERVER), str(Path(folder, "book.db"))]
    return {"mcpServers": {"ledger": {"command": sys.executable, "args": args}}}


def go_on(folder: str, graph: Any, goal: Any, answer: dict[str, Any] | None, context: Any) -> None:
    """Begin the run, resume it, or resume it with an answer; then tell how far it came."""
    fresh = graph.get_state(THREAD).created_at is None
    given: Any = goal if fresh else Command(resume=answer) if answer else None
    result = graph.invoke(given, THREAD, context=context)
    asked = [question.value for question in graph.get_state(THREAD).interrupts]
    told = {"asked": asked, "outcome": None if asked else result["outcome"]}
    Path(folder, "told.json").write_text(json.dumps(told, default=str))


def one_run(work: Work, kill: tuple[int, float] | None) -> Told:
    """Begin, kill so long after so many bookings, resume and answer until it ends."""
    told = Told()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with closing(sqlite3.connect(folder / "book.db")) as database:
            database.execute("PRAGMA journal_mode=WAL")
            database.execute("CREATE TABLE bookings (item INTEGER)")
        told.killed = not _ends(work, folder, None, kill)
        told.uncertain = _claimed(folder)
        answer: dict[str, Any] | None = None
        for _ in range(len(ITEMS) + 2):
            last = _last(folder)
            if last.get("outcome"):
                told.outcome = last["outcome"]
                break
            for question in last.get("asked", [])[:1]:
                told.asked += question["type"] == "uncertain_call"
                answer = _persons_answer(folder, question["action_request"]["args"]["item"])
            (folder / "told.json").unlink(missing_ok=True)
            _ends(work, folder, answer)
            answer = None
        told.booked = _book(folder)
        told.read = Counter(_lines(folder / "reads"))
    return told


def _ends(
    work: Work,
    folder: Path,
    answer: dict[str, Any] | None,
    kill: tuple[int, float] | None = None,
) -> bool:
    """Whether the process came to its own end; afterwards nothing of it is left."""
    process = FORKS.Process(target=_alone, args=(work, str(folder), answer))
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


def _alone(work: Work, folder: str, answer: dict[str, Any] | None) -> None:
    """One process, in a group of its own."""
    os.setpgid(0, 0)
    gc.freeze()  # to look for garbage in what is shared with the parent takes most of its time
    work(folder, answer)


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


def _lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


def _book(folder: Path) -> Counter[int]:
    with closing(sqlite3.connect(folder / "book.db", timeout=10)) as database:
        return Counter(item for (item,) in database.execute("SELECT item FROM bookings"))


def _persons_answer(folder: Path, item: int) -> dict[str, Any]:
    if _book(folder)[item]:
        return {"type": "respond", "message": f"booked item {item}"}
    return {"type": "approve"}


def _claimed(folder: Path) -> int:
    """Calls that were begun and have no end in the journal."""
    query = "SELECT count(*) FROM loopwright_journal WHERE state = 'claimed'"
    try:
        with closing(sqlite3.connect(folder / "threads.db", timeout=10)) as database:
            return int(database.execute(query).fetchone()[0])
    except sqlite3.OperationalError:
        return 0  # killed before there was a journal


def killed_runs(work: Work, runs: int, seed: int) -> tuple[list[Told], dict[str, Any]]:
    """Kill so many runs at random moments; what became of each, and the counts of all."""
    draw = random.Random(seed)
    began = time.monotonic()
    kills = [(draw.randrange(len(ITEMS)), draw.uniform(0, LONGEST_DELAY)) for _ in range(runs)]
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        ended = list(pool.map(lambda kill: one_run(work, kill), kills))
    row = {
        "runs": runs,
        "killed": sum(told.killed for told in ended),
        "done_twice": sum(told.twice for told in ended),
        "lost": sum(told.lost for told in ended),
        "ended": sum(told.complete for told in ended),
        "uncertain": sum(told.uncertain for told in ended),
        "asked": sum(told.asked for told in ended),
        "seconds": round(time.monotonic() - began),
    }
    return ended, row


def is_good(row: dict[str, Any]) -> bool:
    """Whether every run ended, no write was lost or made twice, and every doubt was asked about."""
    whole = row["ended"] == row["runs"] and row["asked"] == row["uncertain"]
    return whole and not row["done_twice"] and not row["lost"]

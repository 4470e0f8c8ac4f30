"""Many workers on one database, killed, frozen and cut off: is a turn ever lost, or run twice?

Each turn of each thread pays once: its tool writes a row into a ledger that checks nothing. Workers
are processes of `loopwright worker`. At random moments one gets SIGKILL (and another one is
started), one is frozen for longer than its lease and goes on, or connections are cut by the server.
A person answers the questions about calls that may have run by looking into the ledger, when no
worker is frozen.

    python benchmarks/workers.py [threads] [turns] [seed] [lease] [direct|bouncer] [calm]
    python benchmarks/workers.py curve [threads] [turns]

Prints one line of JSON; exit code 1 if a payment was made twice or never, a turn is missing, twice
or out of order in its thread, a turn did not end, or a thread rested longer than two leases after
its holder had died. `curve` prints turns a second of 1, 2 and 4 workers, without trouble.
"""

import asyncio
import json
import multiprocessing
import os
import random
import re
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from langchain_core.messages import BaseMessage
from langgraph.types import Command
from psycopg.rows import dict_row

from loopwright import ScriptedModel, build_react, open_durability
from loopwright.cli.settings import Settings
from loopwright.cli.terminal import Output
from loopwright.cli.worker import run_worker

FORKS = multiprocessing.get_context("forkserver")
PATIENCE = 3600.0
_NAME = re.compile(r"t\d+/\d+")
_OPEN = "status IN ('todo', 'doing')"
_KNOWN = (
    "SELECT j.args->>'thread' AS thread, j.args->>'kind' AS kind, r.state FROM procrastinate_jobs j"
    " LEFT JOIN loopwright_taken r ON r.thread = j.args->>'thread' AND r.name = j.args->>'turn'"
    f" WHERE {_OPEN}"
)


def build(durability: Any) -> Any:
    """The graph: three model calls and one payment a turn."""

    def pay(what: str) -> str:
        """Pay once."""
        time.sleep(random.uniform(0, 0.02))
        with psycopg.connect(os.environ["LEDGER"], autocommit=True) as ledger:
            ledger.execute("INSERT INTO ledger (what, pid) VALUES (%s, %s)", [what, os.getpid()])
        time.sleep(random.uniform(0, 0.02))
        return f"paid {what}"

    return build_react(
        model=ScriptedModel(_script), tools=[pay], policy="allow", durability=durability,
        observe="direct", name="shop",
    )  # fmt: skip


def _script(messages: list[BaseMessage], offered: list[str]) -> Any:
    asked = [m.text for m in messages if m.type == "human" and _NAME.fullmatch(m.text)][-1]
    done = any(m.type == "tool" and m.text == f"paid {asked}" for m in messages)
    if not offered:
        meta = json.dumps({"shouldContinue": not done})
        return f"{asked}\n<agent_meta>{meta}</agent_meta>"
    return [] if done else [{"name": "pay", "args": {"what": asked}}]


def worker(url: str, ledger: str, lease: float, log: str) -> None:
    """One worker, which writes what happens to it into a file."""
    os.setpgid(0, 0)
    os.environ["LEDGER"] = ledger
    with Path(log).open("a") as out:
        os.dup2(out.fileno(), 1)
        os.dup2(out.fileno(), 2)
    settings, output = Settings(database=url), Output(json=True)
    os._exit(run_worker(settings, output, None, ["workers:build"], 8, lease))


@dataclass
class Fleet:
    """Workers on one database, and what became of them."""

    url: str
    admin: str
    lease: float
    folder: Path
    draw: random.Random
    workers: list[Any] = field(default_factory=list)
    frozen_until: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    orphans: dict[str, tuple[int, float]] = field(default_factory=dict)
    longest_idle: float = 0.0
    over: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        """Start one more."""
        log = str(self.folder / f"{len(list(self.folder.glob('*.log')))}.log")
        process = FORKS.Process(
            target=worker, args=(self.url, self.admin, self.lease, log), daemon=True
        )
        process.start()
        Path(log).touch()
        self.workers.append(process)

    @contextmanager
    def asked(self) -> Iterator[Any]:
        """A connection of the referee's own, past any pool."""
        with psycopg.connect(
            self.admin, autocommit=True, row_factory=dict_row, application_name="referee"
        ) as connection:
            yield connection

    def trouble(self) -> None:
        """Make trouble until all is over, first as soon as one holds a thread."""
        while not self.over.wait(0.1) and not self._kill(self.draw.choice(self.workers)):
            pass
        while not self.over.wait(self.draw.uniform(0.5, 2.0)):
            what = self.draw.choice(["kill", "kill", "freeze", "cut"])
            self.counts[what] += what != "kill"
            for process in [one for one in self.workers if not one.is_alive()]:
                self.counts["ended_by_themselves"] += 1
                self.workers.remove(process)
                self.start()
            getattr(self, f"_{what}")(self.draw.choice(self.workers))

    def _kill(self, process: Any) -> bool:
        if not self._orphaned(process.pid) and not self.counts["kill"]:
            return False
        self.counts["kill"] += 1
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        self.workers.remove(process)
        self.start()
        return True

    def _freeze(self, process: Any) -> None:
        self.frozen_until = time.monotonic() + 1e9
        os.kill(process.pid, signal.SIGSTOP)
        self._orphaned(process.pid)
        self.over.wait(self.lease * self.draw.uniform(1.2, 2.0))
        os.kill(process.pid, signal.SIGCONT)
        self.frozen_until = time.monotonic() + 1.0

    def _cut(self, _: Any) -> None:
        with self.asked() as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM (SELECT pid FROM pg_stat_activity WHERE"
                " datname = current_database() AND application_name <> 'referee'"
                " ORDER BY random() LIMIT 4) AS few"
            )

    def _orphaned(self, pid: int) -> bool:
        """Note what a worker holds that dies or freezes now; whether that is anything."""
        with self.asked() as connection:
            held = connection.execute(
                "SELECT name, token FROM loopwright_threads"
                " WHERE owner LIKE %s AND until > clock_timestamp()", [f"process {pid} on %"],
            ).fetchall()  # fmt: skip
        now = time.monotonic()
        self.orphans |= {row["name"]: (row["token"], now) for row in held}
        return bool(held)

    def watch(self) -> None:
        """See how long a thread rests after its holder has gone, until all is over."""
        with self.asked() as connection:
            while not self.over.wait(0.2):
                if not self.orphans:
                    continue
                rows = connection.execute(
                    "SELECT t.name, t.token, t.state = 'asks' AS asks, EXISTS (SELECT FROM"
                    f" procrastinate_jobs WHERE args->>'thread' = t.name AND {_OPEN}) AS waits"
                    " FROM loopwright_threads t WHERE t.name = ANY(%s)",
                    [[*self.orphans]],
                ).fetchall()
                for row in rows:
                    token, since = self.orphans.get(row["name"], (row["token"], 0.0))
                    if row["token"] != token or row["asks"] or not row["waits"]:
                        self.orphans.pop(row["name"], None)
                        if row["token"] != token and since:
                            self._rested(time.monotonic() - since)

    def _rested(self, seconds: float) -> None:
        self.longest_idle = max(self.longest_idle, seconds)
        self.counts["takeovers"] += 1

    def events(self) -> Counter[str]:
        """What the workers told."""
        told: Counter[str] = Counter()
        for log in self.folder.glob("*.log"):
            for line in log.read_text(errors="replace").splitlines():
                told[f"  {line[:200]}"] += not line.startswith("{")
                with suppress(ValueError, TypeError, KeyError):
                    event = json.loads(line)
                    told[event["event"]] += 1
                    if event["event"] in {"failed", "away"}:
                        told[f"  {event.get('why', '')[:90]}"] += 1
        return told


async def person(fleet: Fleet, graph: Any) -> None:
    """Answer what is asked, by looking into the ledger, until no turn is open."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        await asyncio.sleep(0.3)
        with fleet.asked() as connection:
            rows = connection.execute(_KNOWN).fetchall()
            if not rows:
                return
            answered = {row["thread"] for row in rows if row["kind"] == "answer"}
            for row in rows:
                asks = row["state"] == "asks" and row["thread"] not in answered
                if asks and time.monotonic() > fleet.frozen_until:
                    with suppress(Exception):  # cut connections are the referee's, too
                        await _answer(fleet, graph, connection, row["thread"])


async def _answer(fleet: Fleet, graph: Any, connection: Any, thread: str) -> None:
    config = {"configurable": {"thread_id": thread}}
    for question in (await graph.aget_state(config)).interrupts:
        what = question.value["action_request"]["args"]["what"]
        sql = "SELECT count(*) AS n FROM ledger WHERE what = %s"
        paid = connection.execute(sql, [what]).fetchone()["n"]
        reply = {"type": "respond", "message": f"paid {what}"} if paid else {"type": "approve"}
        await graph.aenqueue(config, Command(resume={question.id: reply}))
        fleet.counts["answers"] += 1


def run(
    fleet: Fleet, threads: int, turns: int, *, workers: int = 4, calm: bool = False
) -> dict[str, Any]:
    """Enqueue, work, count."""
    with open_durability(fleet.admin, lease=fleet.lease) as durability:
        graph = build(durability)
        asyncio.run(_enqueue(graph, threads, turns))
        began = time.monotonic()
        for _ in range(workers):
            fleet.start()
        beside = [threading.Thread(target=fleet.watch)]
        beside += [] if calm else [threading.Thread(target=fleet.trouble)]
        for one in beside:
            one.start()
        asyncio.run(person(fleet, graph))
        seconds = time.monotonic() - began
        fleet.over.set()
        for one in beside:
            one.join()
        for process in fleet.workers:
            process.terminate()
        for process in fleet.workers:
            process.join(30)
    with open_durability(fleet.admin) as durability:  # its connections were cut with the others
        told = asyncio.run(_counted(fleet, build(durability), threads, turns))
    return {"seconds": round(seconds, 1), **told}


async def _enqueue(graph: Any, threads: int, turns: int) -> None:
    for turn in range(turns):
        for thread in range(threads):
            name = f"t{thread}/{turn}"
            config = {"configurable": {"thread_id": f"t{thread}"}}
            await graph.aenqueue(config, name, id=name, context={"max_iterations": 20})


async def _counted(fleet: Fleet, graph: Any, threads: int, turns: int) -> dict[str, Any]:
    with fleet.asked() as connection:
        ledger = connection.execute("SELECT what, count(*) AS n FROM ledger GROUP BY what")
        paid = {row["what"]: row["n"] for row in ledger.fetchall()}
        rows = connection.execute("SELECT name, state, outcome FROM loopwright_taken")
        states = {row["name"]: row for row in rows.fetchall()}
    wrong = 0
    for thread in range(threads):
        config = {"configurable": {"thread_id": f"t{thread}"}}
        messages = (await graph.aget_state(config)).values.get("messages", ())
        said = [m.text for m in messages if m.type == "human" and _NAME.fullmatch(m.text)]
        wrong += said != [f"t{thread}/{turn}" for turn in range(turns)]
    names = [f"t{thread}/{turn}" for thread in range(threads) for turn in range(turns)]
    events = fleet.events()
    return {
        "threads": threads, "turns": turns, "lease": fleet.lease,
        "doubled": sum(paid.get(name, 0) > 1 for name in names),
        "lost": sum(name not in paid for name in names),
        "wrong_threads": wrong,
        "not_ended": sum(states[name]["state"] != "ended" for name in names),
        "without_outcome": sum(states[name]["outcome"] is None for name in names),
        "longest_idle": round(fleet.longest_idle, 1),
        **fleet.counts, "told": dict((+events).most_common()),
    }  # fmt: skip


@contextmanager
def _fleet(lease: float, seed: int, through: str) -> Iterator[Fleet]:
    sys.path.append(str(Path(__file__).parents[1] / "tests"))
    from support import postgres  # noqa: PLC0415 - the tests start the same servers

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with (
            postgres.server(folder / "server") as server,
            postgres.bouncer(folder / "bouncer", server, size=20) as port,
        ):
            admin = server.database()
            url = admin if through == "direct" else admin.replace(f":{server.port}/", f":{port}/")
            (logs := folder / "logs").mkdir()
            fleet = Fleet(url, admin, lease, logs, random.Random(seed))
            with fleet.asked() as connection:
                connection.execute("CREATE TABLE ledger (what TEXT, pid INT)")
            try:
                yield fleet
            finally:
                for process in fleet.workers:
                    process.kill()


def _curve(threads: int, turns: int) -> int:
    for workers in (1, 2, 4):
        with _fleet(30.0, 0, "direct") as fleet:
            row = run(fleet, threads, turns, workers=workers, calm=True)
            row |= {
                "workers": workers,
                "turns_a_second": round(threads * turns / row["seconds"], 1),
            }
            print(json.dumps(row), flush=True)  # noqa: T201 - the benchmark's result
    return 0


def main(given: list[str]) -> int:
    """Run, count, print; the exit code."""
    if given[:1] == ["curve"]:
        numbers = [int(one) for one in given[1:]]
        return _curve(*(numbers + [60, 5][len(numbers) :]))
    words = [*given, *["60", "5", "1", "2", "direct"][len(given) :]]
    lease, through = float(words[3]), words[4]
    with _fleet(lease, int(words[2]), through) as fleet:
        row = run(fleet, int(words[0]), int(words[1]), calm="calm" in given)
    print(json.dumps({"through": through, **row}))  # noqa: T201 - the benchmark's result
    bad = ("doubled", "lost", "wrong_threads", "not_ended")
    return int(any(row[key] for key in bad) or row["longest_idle"] > max(2 * lease, lease + 20))


if __name__ == "__main__":
    FORKS.set_forkserver_preload(["loopwright.graphs.react", "loopwright.cli.worker", "psycopg"])
    sys.exit(main(sys.argv[1:]))

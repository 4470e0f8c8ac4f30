"""Turns delivered by other engines, whose workers are killed: is one ever lost, or run twice?

The recipes of docs/engines.md run as they stand (examples/engines). Each turn pays once: its tool
writes a row into a ledger that checks nothing. Workers get SIGKILL at random moments and are
restarted. A person answers the questions about calls that may have run by looking into the
ledger, through the same engine.

    make engines ENGINES="[dbos] [celery] [temporal] [threads=100] [turns=5] [seed=1]"

Prints one line of JSON an engine; exit code 1 if a payment was made twice or never, or if a turn
is missing, twice or out of order in its thread. The engines' packages are in .venv/engines.
"""

import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from side_environment import enter_environment

ROOT = Path(__file__).parents[1]
HOME = ROOT / ".venv" / "engines"
PACKAGES = ("dbos>=3.4,<4", "celery[redis]>=5.6,<6", "temporalio>=1.35,<2")
PATIENCE = 900.0
LEASE = 3.0
_GRAPH = f"""
import os
from workers import build
from loopwright import open_durability
graph = build(open_durability(os.environ["TURNS_URL"], lease={LEASE}))
"""
_ATTEMPT = """
import asyncio, json, os, sys
import my_graph
from temporal_turns import take
from temporalio.testing import ActivityEnvironment
print("ready", flush=True)
print(asyncio.run(ActivityEnvironment().run(take, *json.loads(sys.argv[1]))), flush=True)
os._exit(0)
"""
_WORKERS = 2
_ENDED = "SELECT name FROM loopwright_taken WHERE state = 'ended'"


class Fleet:
    """The workers of an engine, and what became of them."""

    def __init__(  # noqa: D107
        self, url: str, folder: Path, commands: Sequence[Sequence[str]], **more: str
    ) -> None:
        self.url, self.folder, self.commands = url, folder, commands
        paths = [str(ROOT / "examples" / "engines"), str(ROOT / "benchmarks"), str(folder)]
        paths += filter(None, [os.environ.get("PYTHONPATH")])
        self.environment = {
            **os.environ, **more, "PYTHONPATH": os.pathsep.join(paths),
            "LEDGER": url, "TURNS_URL": url,
        }  # fmt: skip
        (folder / "my_graph.py").write_text(_GRAPH)
        self.workers: dict[int, subprocess.Popen[bytes]] = {}
        self.counts: Counter[str] = Counter(kills=0, kills_while_held=0, answers=0)

    def start(self, place: int) -> None:
        """Start the worker of a place; each has a process group of its own."""
        with (self.folder / f"{place}.log").open("ab") as log:
            self.workers[place] = subprocess.Popen(
                self.commands[place], env={**self.environment, "DBOS__VMID": f"worker-{place}"},
                stdout=log, stderr=log, start_new_session=True, cwd=self.folder,
            )  # fmt: skip

    def kill(self, place: int) -> None:
        """End a worker and its children at once."""
        with suppress(ProcessLookupError):
            os.killpg(self.workers[place].pid, signal.SIGKILL)
        self.workers[place].wait()

    def trouble(self, draw: random.Random) -> None:
        """Kill one of them, and restart it."""
        place = draw.randrange(len(self.commands))
        held = ask(self.url, "SELECT 1 FROM loopwright_threads WHERE until > clock_timestamp()")
        self.counts["kills"] += 1
        self.counts["kills_while_held"] += bool(held)
        self.kill(place)
        self.start(place)

    def end(self) -> None:
        """Leave nothing behind."""
        for place in self.workers:
            self.kill(place)


def ask(url: str, sql: str, *values: Any) -> list[Any]:
    """The rows of a question to a database."""
    import psycopg  # noqa: PLC0415 - all below stands in the environment of its own

    with psycopg.connect(url, autocommit=True) as connection:
        found = connection.execute(sql, values)
        return found.fetchall() if found.description else []


def drive(
    fleet: Fleet, draw: random.Random, threads: int, turns: int, answer: Callable[..., None]
) -> dict[str, Any]:
    """Kill and answer until all turns have ended; then count."""
    names = [f"t{thread}/{turn}" for turn in range(turns) for thread in range(threads)]
    graph, began = open_graph(fleet.url), time.monotonic()
    calm, asked = began + 6, dict[str, str]()
    for place in range(len(fleet.commands)):
        fleet.start(place)
    while time.monotonic() < began + PATIENCE:
        time.sleep(0.3)
        ended = {name for (name,) in ask(fleet.url, _ENDED)}
        if not {*names} - ended:
            break
        if time.monotonic() > calm:
            fleet.trouble(draw)
            calm = time.monotonic() + draw.uniform(3, 7)
        for thread, name in ask(
            fleet.url, "SELECT thread, name FROM loopwright_taken WHERE state = 'asks'"
        ):
            config = {"configurable": {"thread_id": thread}}
            for one in graph.get_state(config).interrupts:
                if asked.get(one.id) is None:
                    asked[one.id] = reply(fleet.url, thread, name, one, answer)
                    fleet.counts["answers"] += 1
    seconds = time.monotonic() - began
    fleet.end()
    return {"seconds": round(seconds, 1), **fleet.counts, **count(fleet.url, graph, names, threads)}


def reply(url: str, thread: str, name: str, question: Any, answer: Callable[..., None]) -> str:
    """Answer a question about a call, as the ledger has it."""
    what = question.value["action_request"]["args"]["what"]
    paid = ask(url, "SELECT 1 FROM ledger WHERE what = %s", what)
    said = {"type": "respond", "message": f"paid {what}"} if paid else {"type": "approve"}
    answer(thread, name, {question.id: said}, f"answer-{question.id}")
    return name


def open_graph(url: str) -> Any:
    """The graph of the run, to look into it."""
    from workers import build  # noqa: PLC0415

    from loopwright import open_durability  # noqa: PLC0415

    return build(open_durability(url))


def count(url: str, graph: Any, names: Sequence[str], threads: int) -> dict[str, int]:
    """What is not as it must be; all are 0 where nothing is wrong."""
    paid: Counter[str] = Counter(what for (what,) in ask(url, "SELECT what FROM ledger"))
    ended = {name for (name,) in ask(url, _ENDED)}
    found = Counter(
        doubled=sum(paid[name] > 1 for name in names),
        lost=sum(not paid[name] for name in names), missing=0, twice=0, out_of_order=0,
        not_ended=len({*names} - ended),
    )  # fmt: skip
    for thread in range(threads):
        wanted = [name for name in names if name.startswith(f"t{thread}/")]
        state = graph.get_state({"configurable": {"thread_id": f"t{thread}"}})
        messages = state.values.get("messages", ())
        said = [m.text for m in messages if m.type == "human" and re.fullmatch(r"t\d+/\d+", m.text)]
        found["missing"] += len({*wanted} - {*said})
        found["twice"] += len(said) - len({*said})
        found["out_of_order"] += [*dict.fromkeys(said)] != [one for one in wanted if one in said]
    return dict(found)


@contextmanager
def place() -> Iterator[tuple[Any, str, Path]]:
    """A PostgreSQL server with an empty ledger in it, and a folder."""
    sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "benchmarks")]
    from support import postgres  # noqa: PLC0415 - the tests start the same server

    with tempfile.TemporaryDirectory() as name, postgres.server(Path(name) / "server") as server:
        url = server.database()
        ask(url, "CREATE TABLE ledger (what TEXT, pid INT)")
        os.environ["LEDGER"] = url
        (folder := Path(name) / "work").mkdir()
        open_graph(url).get_state({"configurable": {"thread_id": "none"}})
        yield server, url, folder


def run_dbos(threads: int, turns: int, draw: random.Random) -> dict[str, Any]:
    """A workflow a turn, a partition a thread."""
    with place() as (server, url, folder):
        system = server.database()
        file = str(ROOT / "examples" / "engines" / "dbos_turns.py")
        fleet = Fleet(url, folder, [[sys.executable, file]] * _WORKERS, DBOS_URL=system)
        migrate = [str(HOME / "bin" / "dbos"), "migrate", "--sys-db-url", system]
        subprocess.run(migrate, check=True, capture_output=True, cwd=folder)
        from dbos import DBOSClient  # noqa: PLC0415

        client = DBOSClient(system_database_url=system)
        for turn in range(turns):
            for thread in range(threads):
                name = f"t{thread}/{turn}"
                client.enqueue(
                    {"workflow_name": "turn", "queue_name": "turns", "workflow_id": name,
                     "queue_partition_key": f"t{thread}"},
                    f"t{thread}", name, name,
                )  # fmt: skip
        try:
            return drive(
                fleet, draw, threads, turns,
                lambda _, turn, said, key: client.send(turn, said, "answer", idempotency_key=key),
            )  # fmt: skip
        finally:
            fleet.end()
            client.destroy()


def run_celery(threads: int, turns: int, draw: random.Random) -> dict[str, Any]:
    """A list a thread in Redis, and a task a message."""
    with place() as (_, url, folder), redis(folder) as broker:
        os.environ |= {"REDIS_URL": broker, "VISIBLE": "5"}
        sys.path.append(str(ROOT / "examples" / "engines"))
        from celery_turns import inbox, work  # noqa: PLC0415

        made = [sys.executable, "-m", "celery", "-A", "celery_turns", "worker", "-c", "2", "-n"]
        fleet = Fleet(url, folder, [[*made, f"w{one}@here"] for one in range(_WORKERS)])
        for turn in range(turns):
            for thread in range(threads):
                name = f"t{thread}/{turn}"
                inbox.rpush(f"thread:t{thread}", json.dumps([name, name]))
                work.delay(f"t{thread}")
        try:
            return drive(
                fleet, draw, threads, turns,
                lambda thread, _, said, key: work.delay(thread, said, key),
            )  # fmt: skip
        finally:
            fleet.end()


def run_temporal(threads: int, turns: int, draw: random.Random) -> dict[str, Any]:
    """The activity alone, in Temporal's environment for tests: killed in its middle, run again."""
    threads, turns = min(threads, 4), min(turns, 3)
    names = [f"t{thread}/{turn}" for turn in range(turns) for thread in range(threads)]
    with place() as (_, url, folder):
        fleet = Fleet(url, folder, ())
        graph, began = open_graph(url), time.monotonic()
        for name in names:
            thread = name.partition("/")[0]
            waiting: list[tuple[Any, ...]] = [(thread, name, name)]
            while waiting:
                time.sleep(0.2)
                state = attempt(fleet, waiting[-1], draw.choice([0.05, 0.2, 60.0]))
                if state == "ended":
                    waiting.pop()
                elif state == "asks":
                    for one in graph.get_state({"configurable": {"thread_id": thread}}).interrupts:
                        reply(
                            url, thread, name, one,
                            lambda *said, to=waiting: to.append((said[0], said[3], said[2])),
                        )  # fmt: skip
                        fleet.counts["answers"] += 1
        row = {"threads": threads, "turns": turns, "seconds": round(time.monotonic() - began, 1)}
        return {**row, **fleet.counts, **count(url, graph, names, threads)}


def attempt(fleet: Fleet, turn: Sequence[Any], patience: float) -> str:
    """Run the activity in a process of its own, which is killed after a while; what it gave."""
    code = [sys.executable, "-c", _ATTEMPT, json.dumps(turn)]
    log = subprocess.DEVNULL  # what is busy is raised; it is run again
    with subprocess.Popen(
        code, env=fleet.environment, stdout=subprocess.PIPE, stderr=log, text=True
    ) as one:
        out = one.stdout
        assert out is not None
        out.readline()
        with suppress(subprocess.TimeoutExpired):
            one.wait(patience)
        owner = f"process {one.pid} on %"
        held = "SELECT 1 FROM loopwright_threads WHERE owner LIKE %s AND until > clock_timestamp()"
        fleet.counts["kills_while_held"] += bool(one.poll() is None and ask(fleet.url, held, owner))
        fleet.counts["kills"] += one.poll() is None
        one.kill()
        return out.readline().strip()


@contextmanager
def redis(folder: Path) -> Iterator[str]:
    """A Redis server of its own, for the length of a block."""
    program = shutil.which("redis-server")
    if program is None:
        sys.exit("There is no redis-server: apt-get install redis-server, or leave celery out.")
    with closing(socket.socket()) as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
    options = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
    server = subprocess.Popen([program, *options], stdout=subprocess.DEVNULL)
    try:
        time.sleep(1)
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        server.kill()
        server.wait()


def main(given: Sequence[str]) -> int:
    """Run, count, print; the exit code."""
    enter_environment(HOME, PACKAGES)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that nothing is left running
    numbers = {"threads": 100, "turns": 5, "seed": 1}
    numbers |= {key: int(value) for key, _, value in (one.partition("=") for one in given) if value}
    engines = {"dbos": run_dbos, "celery": run_celery, "temporal": run_temporal}
    bad = 0
    for name in [one for one in given if "=" not in one] or [*engines]:
        draw = random.Random(numbers["seed"])
        row = engines[name](numbers["threads"], numbers["turns"], draw)
        print(json.dumps({"engine": name, **numbers, **row}), flush=True)  # noqa: T201 - the result
        wrong = ("doubled", "lost", "missing", "twice", "out_of_order", "not_ended")
        bad += any(row[key] for key in wrong)
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

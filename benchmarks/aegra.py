"""Does Aegra lose a message, or repeat a write, where two instances share one database?

    python benchmarks/aegra.py [ENVIRONMENT] [SEED]

ENVIRONMENT is a virtual environment of Python 3.12 or newer; without one, `build/aegra` is made and
Aegra and this package are installed there. PostgreSQL and Redis are started for the length of the
run, with the graphs of `examples/aegra` and one of its own, which writes into a ledger.

1. Every graph of the package answers.
2. 20 threads, 50 messages under every multitask strategy, to either instance in turn: every message
   that was accepted stands in its thread once.
3. An instance gets SIGKILL in the middle of a write, while a message waits for the thread: the
   other one takes the thread over, asks whether the write took effect, and the ledger has it once.

Prints one line of JSON; exit code 1 if a message was lost, or a write was made twice or never.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from langgraph_sdk import get_sync_client

ROOT: Final = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from support import postgres  # noqa: E402 - the tests' own server

VERSION: Final = "0.11.*"
STRATEGIES: Final = ("enqueue", "reject", "interrupt", "rollback")
LATER: Final = (2,) * 10 + (1,) * 10
OVER: Final = {"success", "error", "interrupted", "timeout"}
FIRST, SECOND = "Visit Aral, Brno, Cork.", "Visit Aral, Dijon."
PATIENCE: Final = 600.0

LEDGER: Final = '''
import os
import time
from pathlib import Path

from loopwright import ScriptedModel, build_react, open_durability
from support.visiting import RULES

FOLDER = Path(os.environ["LEDGER"])


def visit(place: str) -> str:
    """See a place; who does so twice stands in the ledger twice."""
    with (FOLDER / "ledger").open("a") as ledger:
        ledger.write(f"{place} {os.getpid()}\\n")
    while place == "Brno" and not (FOLDER / "go").exists():
        time.sleep(0.05)
    return f"{place} is as it was"


kept = open_durability(os.environ["LOOPWRIGHT_DATABASE_URL"])
graph = build_react(
    model=ScriptedModel(RULES["react"]), tools=[visit],
    journal=kept.journal, locked_by=lambda: kept.locks,
)
'''


def installed(folder: Path) -> Path:
    """The programs of an environment that has Aegra."""
    programs = folder.absolute() / "bin"
    if not (programs / "aegra").exists():
        python = next(filter(None, map(shutil.which, ("python3.12", "python3.13"))), None)
        if python is None:
            sys.exit(
                "Aegra 0.11 needs Python 3.12 or newer, and neither python3.12 is here nor 3.13."
            )
        subprocess.run([python, "-m", "venv", str(folder)], check=True)
        wanted = [f"aegra-cli=={VERSION}", "-e", f"{ROOT}[postgres]"]
        subprocess.run([programs / "python", "-m", "pip", "install", "-q", *wanted], check=True)
    return programs


@contextmanager
def redis() -> Iterator[int]:
    """A Redis for the length of a block; gives its port."""
    port = postgres.free_port()
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", ""]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            yield port
        finally:
            process.terminate()


class Instance:
    """One of Aegra's processes, and a client of it."""

    def __init__(self, programs: Path, folder: Path, environ: Mapping[str, str]) -> None:
        """Start it in a folder."""
        self.port = postgres.free_port()
        self.log = folder / f"aegra-{self.port}.log"
        with self.log.open("wb") as log:
            command = [programs / "aegra", "serve", "--host", "127.0.0.1", "--port", str(self.port)]
            self.process = subprocess.Popen(
                command,
                cwd=folder,
                env=dict(environ),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.client = get_sync_client(url=f"http://127.0.0.1:{self.port}")

    def wait(self) -> None:
        """Until it answers."""
        until(
            lambda: self.process.poll() is not None or bool(_quietly(self.client.assistants.search))
        )
        if self.process.poll() is not None:
            sys.exit(f"Aegra did not start:\n{self.log.read_text(errors='replace')[-4000:]}")

    def end(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End its process group: a signal to `aegra serve` alone leaves the server under it."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, how)
        self.process.wait()


def _quietly(ask: Any) -> Any:
    try:
        return ask()
    except Exception:  # noqa: BLE001 - it does not answer yet
        return None


def until(holds: Any) -> None:
    """Wait until something holds."""
    end = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > end:
            msg = f"it did not come to that in {PATIENCE:.0f} s"
            raise TimeoutError(msg)
        time.sleep(0.1)


@contextmanager
def served(programs: Path, folder: Path) -> Iterator[list[Instance]]:
    """Two instances that share a database and a Redis, with the graphs of the example."""
    app = Path(shutil.copytree(ROOT / "examples" / "aegra", folder / "app"))
    (app / "ledger.py").write_text(LEDGER, encoding="utf-8")
    settings = json.loads((app / "aegra.json").read_text(encoding="utf-8"))
    settings["graphs"]["ledger"] = "./ledger.py:graph"
    (app / "aegra.json").write_text(json.dumps(settings), encoding="utf-8")
    with postgres.server(folder / "postgres") as database, redis() as port:
        lines = (app / "environment").read_text(encoding="utf-8").splitlines()
        given = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
        given |= {"DATABASE_URL": database.database(), "LEDGER": str(app)}
        given |= {"LOOPWRIGHT_DATABASE_URL": database.database()}
        given |= {"REDIS_URL": f"redis://127.0.0.1:{port}/0", "PYTHONPATH": str(ROOT / "tests")}
        environ = {**os.environ, **given}
        subprocess.run([programs / "aegra", "db", "upgrade"], cwd=app, env=environ, check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
        with ExitStack() as stack:
            both: list[Instance] = []
            for _ in range(2):  # one after the other: the first one makes the tables
                both.append(Instance(programs, app, environ))
                stack.callback(both[-1].end)
                both[-1].wait()
            yield both


def said(words: str) -> dict[str, Any]:
    """A message of the user's, as input."""
    return {"messages": [{"role": "user", "content": words}]}


def heard(client: Any, thread: str) -> list[str]:
    """What a thread has of the user's."""
    messages = client.threads.get_state(thread)["values"].get("messages", ())
    return [message["content"] for message in messages if message["type"] == "human"]


def ended(client: Any, thread: str) -> dict[str, str]:
    """How the runs of a thread ended, once all have."""
    until(lambda: all(run["status"] in OVER for run in client.runs.list(thread)))
    return {run["run_id"]: run["status"] for run in client.runs.list(thread)}


def answered(both: list[Instance]) -> dict[str, str]:
    """How a run of each graph of the package ended."""
    client, found = both[0].client, {}
    for name in json.loads((ROOT / "examples" / "aegra" / "aegra.json").read_text())["graphs"]:
        thread = client.threads.create()["thread_id"]
        client.runs.create(thread, name, input=said("Hello, who are you?"))
        ended(client, thread)
        state = client.threads.get_state(thread)
        outcome = state["values"].get("outcome") or {"status": "asks" if state["next"] else "none"}
        found[name] = outcome["status"]
    return found


@dataclass(frozen=True)
class Talks:
    """What became of many messages."""

    accepted: int
    lost: int
    twice: int
    failed: int


def talked(both: list[Instance], seed: int) -> Talks:
    """Send many messages to busy threads of either instance, under every strategy."""
    clients = [one.client for one in both]

    def talk(number: int) -> tuple[str, list[str]]:
        rng, words = random.Random(seed * 100 + number), []
        thread = clients[0].threads.create()["thread_id"]
        for later in range(1 + LATER[number]):
            words.append(f"Visit Aral, Cork. {number}.{later}")
            strategy = STRATEGIES[(number + later) % len(STRATEGIES)]
            rng.choice(clients).runs.create(
                thread, "ledger", input=said(words[-1]), multitask_strategy=strategy
            )
            time.sleep(rng.uniform(0, 0.3))
        return thread, words

    accepted = lost = twice = failed = 0
    with ThreadPoolExecutor(len(LATER)) as pool:
        talks = [*pool.map(talk, range(len(LATER)))]
    for thread, words in talks:
        failed += sum(status != "success" for status in ended(clients[0], thread).values())
        found = heard(clients[0], thread)
        accepted += len(words)
        lost += sum(found.count(one) == 0 for one in words)
        twice += sum(found.count(one) > 1 for one in words)
    return Talks(accepted, lost, twice, failed)


@dataclass(frozen=True)
class Killed:
    """What became of a thread whose instance was killed in a write."""

    seconds: float
    ledger: list[str]
    heard: list[str]
    status: str


def looked_up(question: dict[str, Any]) -> dict[str, str]:
    """What a person answers who looks into the ledger: Brno was visited, and nothing else is."""
    if question["action_requests"][0]["args"] == {"place": "Brno"}:
        return {"type": "respond", "message": "Brno is as it was"}
    return {"type": "approve"}


def killed(both: list[Instance], folder: Path, *, waits: bool) -> Killed:
    """Kill the instance that makes a write, maybe while a message waits for the thread."""
    ledger = folder / "app" / "ledger"
    ledger.write_text("")
    thread = both[0].client.threads.create()["thread_id"]
    both[0].client.runs.create(thread, "ledger", input=said(FIRST))
    until(lambda: "Brno" in ledger.read_text())
    if waits:
        both[1].client.runs.create(thread, "ledger", input=said(SECOND))
    process = int(ledger.read_text().split()[-1])
    (dead,) = [one for one in both if os.getpgid(process) == one.process.pid]
    (alive,) = [one for one in both if one is not dead]
    dead.end(signal.SIGKILL)
    began = time.monotonic()
    client = alive.client
    until(lambda: client.threads.get_state(thread)["interrupts"])
    seconds = time.monotonic() - began
    while ended(client, thread) and (asked := client.threads.get_state(thread)["interrupts"]):
        answer = {asked[0]["id"]: looked_up(asked[0]["value"])}
        client.runs.create(thread, "ledger", command={"resume": answer})
    state = client.threads.get_state(thread)
    places = [line.split()[0] for line in ledger.read_text().splitlines()]
    return Killed(
        round(seconds, 1), places, heard(client, thread), state["values"]["outcome"]["status"]
    )


def main() -> int:
    """Run, print; the exit code."""
    programs = installed(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "aegra")
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    told: dict[str, Any] = {}
    good = True
    for waits in (False, True):
        with tempfile.TemporaryDirectory() as name, served(programs, Path(name)) as both:
            if not waits:
                told["graphs"] = answered(both)
                talks = talked(both, seed)
                told["talks"] = vars(talks)
                good &= not (talks.lost or talks.twice or talks.failed)
            found = killed(both, Path(name), waits=waits)
            good &= found.heard == [FIRST, SECOND][: 1 + waits]
            told["killed, a message waits" if waits else "killed"] = vars(found)
            good &= found.ledger.count("Brno") == 1 and found.status == "complete"
    print(json.dumps(told, indent=1))  # noqa: T201 - the benchmark's result
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())

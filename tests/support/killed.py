"""A process that works on a thread in a SQLite file and may kill itself at a chosen place.

The model goes by rules, not by turns, so that whichever process asks gets the same answers. What
tools and models did is appended to files, which survive the process.
"""

import asyncio
import gc
import json
import multiprocessing
import os
import signal
import sqlite3
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler
from langgraph.types import Command

from loopwright import Context, ScriptedModel, build_plan_execute_verify, open_durability
from loopwright.prompts.prompt import read_json
from loopwright.state.channels import unpack_fields
from support.patience import PATIENCE
from support.scripts import call, failed, passed, plan, report, todo

THREAD = {"configurable": {"thread_id": "t"}}
FACTS = {"owner": "Ada", "price": "7 euro", "year": "1843"}
FIRST = [todo("1", "owner", []), todo("2", "price", []), todo("3", "save", ["1", "2"])]
SECOND = [*FIRST, todo("4", "year", ["3"])]

_SPAWN = multiprocessing.get_context("forkserver")
_SPAWN.set_forkserver_preload(
    [
        "loopwright.graphs.router",
        "anyio._backends._asyncio",
        "pytest",
        "sqlite3",
        "support.flow_killed",
    ]
)


class Killed(BaseCallbackHandler):
    """Ends the process without a last word, as the n-th start or end of a node comes."""

    run_inline = True
    raise_error = True

    def __init__(self, node: str = "", at: str = "start", nth: int = 1, **_: Any) -> None:
        self.node, self.at, self.left = node, at, nth
        self.runs: set[Any] = set()

    def on_chain_start(self, serialized, inputs, *, run_id, name=None, metadata=None, **_):
        if name == self.node and (metadata or {}).get("langgraph_node") == self.node:
            self.runs.add(run_id)
            self._count("start")

    def on_chain_end(self, outputs, *, run_id, **_):
        if run_id in self.runs:
            self._count("end")

    def _count(self, at: str) -> None:
        if at == self.at:
            self.left -= 1
            if not self.left:
                die()


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@contextmanager
def no_end_is_saved(durability: Any) -> Iterator[None]:
    """What a kill leaves that comes before the database has heard of any step's end."""
    saver = durability.checkpointer.inner
    real = saver.put_writes

    def put_writes(config: Any, writes: Any, *about: Any) -> Any:
        kept = [write for write in writes if write[0] != "__return__"]
        return real(config, kept, *about) if kept else None

    saver.put_writes = put_writes
    try:
        yield
    finally:
        saver.put_writes = real


async def cut_off(graph: Any, given: Any, reached: threading.Event) -> None:
    """Cancel a run once something in it is reached."""
    run = asyncio.create_task(graph.ainvoke(given, THREAD))
    was_reached = await asyncio.to_thread(reached.wait, PATIENCE)
    run.cancel()
    await asyncio.wait([run])
    assert (was_reached, run.cancelled()) == (True, True)


async def cut_off_twice(graph: Any, given: Any, began: asyncio.Event) -> None:
    """Cancel a run once a tool of it began, and again while that takes its time to stop."""
    run = asyncio.create_task(graph.ainvoke(given, THREAD))
    await began.wait()
    for _ in range(3):
        run.cancel()
        await asyncio.sleep(0.05)
    await asyncio.wait([run])
    assert run.cancelled()


class World:
    """The files of one run: what its processes did, in order, and under which process id."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.url = f"sqlite:///{self.folder / 'threads.db'}"

    def tell(self, book: str, line: str) -> None:
        with (self.folder / book).open("a") as file:
            file.write(f"{os.getpid()} {line}\n")

    def lines(self, book: str) -> list[tuple[int, str]]:
        path = self.folder / book
        told = path.read_text().splitlines() if path.exists() else []
        return [(int(pid), line) for pid, line in (one.split(" ", 1) for one in told)]

    def recorded(self) -> int:
        """How many plan tasks have their end in the database."""
        with closing(sqlite3.connect(self.folder / "threads.db", timeout=10)) as database:
            query = "SELECT count(*) FROM writes WHERE channel = '__return__'"
            return int(database.execute(query).fetchone()[0])

    def wait_for_recorded(self, tasks: int) -> None:
        deadline = time.monotonic() + PATIENCE
        while self.recorded() < tasks and time.monotonic() < deadline:
            time.sleep(0.01)


def tools_of(world: World, kill: dict[str, Any]) -> list[Any]:
    def look(name: str) -> str:
        """Look up a fact."""
        world.tell("calls", name)
        if kill.get("tool") == name:
            world.wait_for_recorded(kill.get("recorded", 0))
            die()
        return FACTS[name]

    def save(text: str) -> str:
        """Save a text."""
        world.tell("calls", f"save {text}")
        if kill.get("tool") == "save":
            die()
        return "saved"

    return [look, save]


def model_of(world: World, kill: dict[str, Any]) -> ScriptedModel:
    def answer(messages: list[Any], offered: list[str]) -> Any:
        role = messages[0].text.split()[3].rstrip(".")
        human = next(m.text for m in messages if m.type == "human")
        task = read_json(human, "task")["description"] if role == "executor" else ""
        world.tell("asks", f"{role} {task}".strip())
        if kill.get("model") == f"{role} {task}".strip():
            return _last_thought(world, kill)
        return {"planner": _planned, "executor": _executed, "verifier": _judged}[role](
            human, messages
        )

    return ScriptedModel(answer)


async def _last_thought(world: World, kill: dict[str, Any]) -> None:
    await asyncio.to_thread(world.wait_for_recorded, kill.get("recorded", 0))
    die()


def _planned(human: str, messages: list[Any]) -> dict[str, Any]:
    if not read_json(human, "answers"):
        return {"needsMorePlanning": True, "missingInformation": ["Which shelf?"]}
    return plan(*(SECOND if read_json(human, "improvements") else FIRST))


def _executed(human: str, messages: list[Any]) -> Any:
    wanted = read_json(human, "task")["description"]
    found = [m.text for m in messages if m.type == "tool"]
    if found:
        return report(f"{wanted}: {found[-1]}")
    if wanted == "save":
        text = "; ".join(entry["result"] for entry in read_json(human, "results_so_far"))
        return [call("save", text=text)]
    return [call("look", name=wanted)]


def _judged(human: str, messages: list[Any]) -> dict[str, Any]:
    evidence, tasks = read_json(human, "evidence"), read_json(human, "tasks")
    cited = {f"t{e['task']}": [e["id"]] for e in evidence if e["status"] == "success"}
    if len(tasks) < len(SECOND):
        return failed("the year too", **{f"t{t['id']}": False for t in tasks if t["id"] == "9"})
    return passed("; ".join(str(t["result"]) for t in tasks), **cited)


def in_doubt(question: dict[str, Any]) -> str:
    """`uncertain` and the line of the book of calls that the question is about, or ""."""
    if question.get("type") != "uncertain_call":
        return ""
    args = question["action_requests"][0]["args"]
    return f"uncertain {args['name'] if 'name' in args else 'save ' + args['text']}"


def answer_to(name: str) -> dict[str, Any]:
    return (
        {"type": "respond", "message": "The top one."}
        if name == "ask_user"
        else {"type": "approve"}
    )


def drive(graph: Any, world: World, config: dict[str, Any], context: Context) -> dict[str, Any]:
    """Begin the thread, or go on with it, answering its questions, to the outcome."""
    state = graph.get_state(THREAD)
    given: Any = {"messages": [{"role": "user", "content": "Collect the facts."}]}
    if state.created_at:
        given = None
    while True:
        if state.interrupts:
            question = state.interrupts[0]
            name = question.value["action_requests"][0]["name"]
            world.tell("questions", in_doubt(question.value) or name)
            given = Command(resume={question.id: answer_to(name)})
        result = graph.invoke(given, config, context=context)
        state = graph.get_state(THREAD)
        if not state.interrupts:
            return {"outcome": result["outcome"], "values": plain(unpack_fields(state.values))}


def plain(values: dict[str, Any]) -> dict[str, Any]:
    kept = ("turn", "planning_rounds", "cycles", "todos", "evidence", "answers")
    # Without the calls that were asked about: after a kill those are more.
    said = [m for m in values["messages"] if "evidence" not in m.additional_kwargs]
    return {key: values[key] for key in kept} | {"messages": len(said)}


def graph_of(world: World, kill: dict[str, Any], durability: Any) -> Any:
    return build_plan_execute_verify(
        model=model_of(world, kill),
        tools=tools_of(world, kill),
        policy=[{"tool": "save", "action": "ask"}],
        durability=durability,
    )


def run(folder: str, kill: dict[str, Any], settings: dict[str, Any]) -> None:
    """What the process does; its result goes to a file."""
    run_in_files(folder, kill, settings, graph_of, drive)


def run_in_files(
    folder: str, kill: dict[str, Any], settings: dict[str, Any], graph_of: Any, drive: Any
) -> None:
    """Drive a graph that may be killed: what it says and gives goes to files.

    Args:
        folder: Of the files.
        kill: Where the process is killed; see `Killed`.
        settings: Of the run's Context, over those that suit a run nobody watches.
        graph_of: Builds the graph from the world, `kill` and a durability.
        drive: Takes the graph, the world, a config and the context to the end.
    """
    world = World(folder)
    with (world.folder / "stderr").open("a") as file:
        os.dup2(file.fileno(), 2)
    try:
        with open_durability(world.url) as durability:
            graph = graph_of(world, kill, durability)
            config = {**THREAD, "callbacks": [Killed(**kill)]}
            context = Context(**{"review_plan": True, "model_retries": 0, **settings})
            result = drive(graph, world, config, context)
    except BaseException:  # noqa: BLE001 - told in a file: nobody is there to catch it
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    (world.folder / "result.json").write_text(json.dumps(result))


def start(folder: str | Path, kill: dict[str, Any] | None = None, **settings: Any) -> Any:
    """Start the process; it is new each time, forked from one that has only imported things."""
    Path(folder).mkdir(exist_ok=True)
    return spawn(run, str(folder), kill or {}, settings)


def spawn(target: Any, *args: Any) -> Any:
    """Start a process that does this and nothing else."""
    process = _SPAWN.Process(target=_only, args=(target, *args))
    process.start()
    return process


def _only(target: Any, *args: Any) -> None:
    # Most of the process's time went into looking for garbage in what it shares with its parent.
    gc.freeze()
    target(*args)


def finish(process: Any, folder: str | Path) -> dict[str, Any] | None:
    """Wait for the end: None where it was killed, else its result.

    Raises:
        AssertionError: It ended in another way, with what it said.
    """
    process.join(PATIENCE)
    if process.exitcode == -signal.SIGKILL:
        return None
    said = (Path(folder) / "stderr").read_text()
    assert process.exitcode == 0, said
    assert "never retrieved" not in said, said
    result: dict[str, Any] = json.loads((Path(folder) / "result.json").read_text())
    return result

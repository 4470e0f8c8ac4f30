"""Processes that hand a thread over and are killed on the way, or talk on it all at once."""

import os
import signal
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, Final

from langchain_core.tools import tool
from langgraph.types import Command

from loopwright import ScriptedModel, ThreadBusy, build_customer_service, open_durability

THREAD = {"configurable": {"thread_id": "t"}}
HUMAN = {"messages": [{"role": "user", "content": "I want a human"}]}
REPLY: Final[Command[str]] = Command(resume="respond: I am Eve.")
STEPS = 6
"""Of a hand-over by a tool: intake, understand, strategy, hand_off, call_tools, hand_off."""
SAYS = 8


def queue(path: Path, *, dies: bool = False) -> Any:
    """The tool that hands over into a file; one that dies does so once the effect is there."""

    @tool
    def transfer_to_human(reason: str) -> dict[str, str]:
        """Put the case into the queue."""
        with closing(sqlite3.connect(path)) as db, db:
            db.execute("CREATE TABLE IF NOT EXISTS waiting (reason)")
            db.execute("INSERT INTO waiting VALUES (?)", [reason])
        if dies:
            os.kill(os.getpid(), signal.SIGKILL)
        return {"transfer_id": "H-1"}

    return transfer_to_human


def desk(folder: Path, name: str, *, dies: bool = False) -> Any:
    """The graph with its database and its queue."""
    kept = open_durability(f"sqlite:///{folder}/{name}.db")
    tools = [queue(folder / f"{name}.queue", dies=dies)]
    return build_customer_service(model=ScriptedModel({}), tools=tools, durability=kept), kept


def dies_at(folder: Path, step: int) -> None:
    """Hand over, killed in the tool (0), after a step, or while the human's reply is taken."""
    graph, kept = desk(folder, str(step), dies=step == 0)
    with kept:
        if step > STEPS:
            graph.invoke(HUMAN, THREAD)
        given, left = (REPLY, 1) if step > STEPS else (HUMAN, step)
        for _ in graph.stream(given, THREAD, stream_mode="updates"):
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


def talks(folder: Path, name: str) -> None:
    """Say something again and again, as soon as the thread is free."""
    graph, kept = desk(folder, "talk")
    with kept:
        for number in range(SAYS):
            words = f"{name} {number}"
            mine = kept.handed_over()[0].reply(words) if name == "operator" else said(words)
            while True:
                try:
                    graph.invoke(mine, THREAD)
                except ThreadBusy:
                    continue
                break


def said(words: str) -> dict[str, list[dict[str, str]]]:
    return {"messages": [{"role": "user", "content": words}]}


def forked(action: Callable[[], None]) -> int:
    """The process id of a copy of this process that does this and ends."""
    if (pid := os.fork()) == 0:
        try:
            action()
        except BaseException as error:  # noqa: BLE001 - the parent must hear of it
            sys.stderr.write(f"{error!r}\n")
            os._exit(1)
        os._exit(0)
    return pid


def main(folder: Path) -> None:
    """Have processes killed, then two talk at once."""
    for step in range(STEPS + 2):
        _, status = os.waitpid(forked(partial(dies_at, folder, step)), 0)
        _told(step, os.waitstatus_to_exitcode(status))
    os.waitpid(forked(partial(_begin, folder)), 0)
    both = [forked(partial(talks, folder, name)) for name in ("operator", "customer")]
    _told(*[os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in both])


def _told(*ended: int) -> None:
    sys.stdout.write(" ".join(map(str, ended)) + "\n")
    sys.stdout.flush()


def _begin(folder: Path) -> None:
    graph, kept = desk(folder, "talk")
    with kept:
        graph.invoke(HUMAN, THREAD)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

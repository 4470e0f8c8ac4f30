"""A process that kills itself while a sub-agent works in the background, and one that goes on."""

import os
import signal
from pathlib import Path
from typing import Any

from langgraph.types import Command

from loopwright import open_durability
from support import killed
from support.office import Office, done, give
from support.reacting import said
from support.scripts import call

THREAD: Any = {"configurable": {"thread_id": "t"}}


def written(folder: str) -> list[str]:
    """What was written, by whomever."""
    path = Path(folder, "written")
    return path.read_text().split() if path.exists() else []


def heard(messages: list[Any]) -> str:
    """What an agent was told."""
    return "\n".join(message.text for message in messages if message.type != "ai")


ASKS = [{"tool": "write", "arguments": {"word": "deep0"}, "action": "ask"}]


def office(*, background: bool, dies: bool) -> Office:
    """Two in the background, one with another one below it; each writes, and their parent, too."""

    def chief(messages: list[Any], _: list[str]) -> Any:
        turns = [
            give("first", "second", background=background),
            [call("write", word="chief1")],
            [call("write", word="chief2")],
            done("?"),
        ]
        made = sum(message.type == "ai" for message in messages)
        told = heard(messages)
        known = all(f"{name} is done." in told for name in ("first", "second"))
        return done("All.", unmet=[]) if known and made >= len(turns) - 1 else turns[min(made, 3)]

    def first(messages: list[Any], _: list[str]) -> Any:
        turns = [
            [call("write", word="first1")],
            give("deep", background=background),
            [call("write", word="first2")],
            done("?"),
        ]
        made = sum(message.type == "ai" for message in messages)
        knows = "deep is done." in heard(messages)
        return done("first is done.") if knows and made >= 3 else turns[min(made, 3)]

    def writer(name: str) -> Any:
        def turn(messages: list[Any], _: list[str]) -> Any:
            made = sum(message.type == "ai" for message in messages)
            if dies and name == "deep" and made == 1:  # the answer has been taken, and saved
                os.kill(os.getpid(), signal.SIGKILL)
            return [call("write", word=f"{name}{made}")] if made < 3 else done(f"{name} is done.")

        return turn

    return Office(chief=chief, first=first, second=writer("second"), deep=writer("deep"))


def go_on(
    folder: str,
    place: dict[str, Any] | None = None,
    *,
    background: bool = True,
    asks: bool = False,
    dies: bool = False,
) -> dict[str, Any]:
    """Begin the thread, or go on with it, to its outcome; at the place the process dies."""

    def write(word: str) -> str:
        """Write a word."""
        with Path(folder, "written").open("a") as book:
            book.write(f"{word}\n")
        return f"{word} is written"

    config: Any = {**THREAD, "callbacks": [killed.Killed(**place)]} if place else THREAD
    with open_durability(f"sqlite:///{folder}/threads.db") as durability:
        team = {"first": {"agents": ("deep",)}}
        policy: Any = ASKS if asks else "allow"
        graph = office(background=background, dies=dies).graph(
            durability, [write], team, policy=policy, foreign="allow"
        )
        given: Any = None if graph.get_state(THREAD).created_at else said()
        while True:
            if asked := graph.get_state(THREAD).interrupts:
                assert dies or not asks, "the answer was taken"
                ran = asked[0].value["action_requests"][0]["args"]["word"] in written(folder)
                word = "respond: it ran" if ran else "approve"
                given = Command(resume={asked[0].id: word})
            values: dict[str, Any] = graph.invoke(given, config)
            if not graph.get_state(THREAD).interrupts:
                return values
            given = None


def die(folder: str, place: dict[str, Any]) -> None:
    """Until the process dies."""
    go_on(folder, place)


def die_answered(folder: str, background: bool) -> None:
    """Until the process dies, when the lowest agent has heard what it had asked for."""
    go_on(folder, background=background, asks=True, dies=True)

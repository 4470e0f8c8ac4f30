"""A process whose agent steers one in the background and cancels another, and that kills itself."""

import asyncio
from typing import Any

from langchain_core.tools import StructuredTool

from loopwright import open_durability
from support import killed
from support.office import Office, done, give
from support.reacting import THREAD, said
from support.scripts import call

WAITS = 0.1
"""Seconds of a round of work."""


def go_on(
    folder: str, place: dict[str, Any] | None = None
) -> tuple[dict[str, Any], list[str], str]:
    """Begin the thread, or go on with it: the outcome, what the steered one had read, the ends."""
    read: list[str] = []
    told: list[str] = []

    async def work(name: str, round_: int) -> str:
        """Work a while."""
        await asyncio.sleep(WAITS)
        return f"{name} worked in round {round_}"

    def worker(messages: list[Any], name: str) -> Any:
        return [call("work", name=name, round_=len(messages))]

    def painter(messages: list[Any], _: Any) -> Any:
        read[:] = [m.text for m in messages]
        knows = any("Paint it blue." in text for text in read)
        return done("It is painted blue.") if knows else worker(messages, "painter")

    def chief(messages: list[Any], _: Any) -> Any:
        told[:] = [m.text for m in messages if m.type == "human" and "background" in m.text]
        made = sum(m.type == "ai" for m in messages)
        turns = [
            give("painter", "idler", background=True),
            [
                call("order_background", "a", handle="agent/painter.1.0", message="Paint it blue."),
                call("order_background", "b", handle="agent/idler.1.1", cancel=True),
            ],
        ]
        return turns[made] if made < len(turns) else done("The house is blue now.")

    with open_durability(f"sqlite:///{folder}/threads.db") as kept:
        office = Office(chief=chief, painter=painter, idler=lambda m, _: worker(m, "idler"))
        tool = StructuredTool.from_function(coroutine=work, metadata={"readOnlyHint": True})
        graph = office.graph(kept, [tool], policy="allow")
        config: Any = {**THREAD, "callbacks": [killed.Killed(**place)]} if place else THREAD
        given: Any = None if graph.get_state(THREAD).created_at else said()
        return graph.invoke(given, config)["outcome"], read, "\n".join(told)


def die(folder: str, place: dict[str, Any]) -> None:
    """Until the process dies."""
    go_on(folder, place)

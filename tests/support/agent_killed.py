"""A process that works as an agent on a thread in a SQLite file and kills itself in a node."""

from typing import Any

from langgraph.types import Command

from loopwright import AgentDefinition, AgentLimits, open_durability
from support import killed
from support.visiting import FIRST, THREAD, Book, graph_of, said


def graph(book: Book, turns: int, durability: Any) -> Any:
    """Every visit is asked about; after so many turns the limit ends the work."""
    definition = AgentDefinition(limits=AgentLimits(turns=turns))
    return graph_of("agent", book, durability=durability, policy="ask", definition=definition)


def go_on(folder: str, turns: int, place: dict[str, Any] | None = None) -> dict[str, Any]:
    """Begin the thread, or go on with it, to its outcome; at the place the process dies."""
    with open_durability(f"sqlite:///{folder}/threads.db") as durability:
        built = graph(Book(folder), turns, durability)
        config = {**THREAD, "callbacks": [killed.Killed(**place)]} if place else THREAD
        state = built.get_state(THREAD)
        given: Any = None if state.created_at else said(FIRST)
        while True:
            asked = built.get_state(THREAD).interrupts
            if asked:
                kind = asked[0].value["type"]
                word = "respond: it ran" if kind == "uncertain_call" else "approve"
                given = Command(resume={asked[0].id: word})
            values: dict[str, Any] = built.invoke(given, config)
            if not built.get_state(THREAD).interrupts:
                return values
            given = None


def die(folder: str, turns: int, place: dict[str, Any]) -> None:
    """Until the process dies."""
    go_on(folder, turns, place)

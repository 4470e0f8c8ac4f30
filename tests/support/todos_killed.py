"""A process that works by a reviewed list, says the same again, and kills itself in a node."""

from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage
from langgraph.types import Command

from loopwright import Context, ScriptedModel, build_task_agent, open_durability
from support import killed
from support.reacting import said
from support.scripts import call

THREAD: Any = {"configurable": {"thread_id": "t"}}
CHANT = "The lamp must stand elsewhere by now, so I look there. " * 11


def items(status: str) -> list[dict[str, str]]:
    return [{"description": what, "status": status} for what in ("Look", "Move", "Tell")]


def answer(messages: list[Any], _: list[str]) -> Any:
    """The next turn, by the turns there are."""
    move = call("move", "m", thing="lamp")
    turns: list[Any] = [
        [call("write_todos", "w", todos=items("pending")), move],
        AIMessage(CHANT, tool_calls=[move]),
        [call("write_todos", "w", todos=items("completed"))],
        [call("complete_task", "c", summary="It stands elsewhere.")],
    ]
    return turns[sum(message.type == "ai" for message in messages)]


def go_on(folder: str, place: dict[str, Any] | None = None) -> dict[str, Any]:
    """Begin the thread, or go on with it, to its outcome; at the place the process dies."""

    def move(thing: str) -> str:
        """Move a thing."""
        with Path(folder, "moved").open("a") as moved:
            moved.write(f"{thing}\n")
        return f"{thing} stands elsewhere"

    config: Any = {**THREAD, "callbacks": [killed.Killed(**place)]} if place else THREAD
    with open_durability(f"sqlite:///{folder}/threads.db") as durability:
        model = ScriptedModel(answer)
        graph = build_task_agent(model=model, tools=[move], policy="allow", durability=durability)
        given: Any = None if graph.get_state(THREAD).created_at else said()
        while True:
            if asked := graph.get_state(THREAD).interrupts:
                given = Command(resume={asked[0].id: "approve"})
            values: dict[str, Any] = graph.invoke(given, config, context=Context(review_plan=True))
            if not graph.get_state(THREAD).interrupts:
                return values
            given = None


def die(folder: str, place: dict[str, Any]) -> None:
    """Until the process dies."""
    go_on(folder, place)

"""A process whose agent asks the user, and that kills itself around the answer."""

from functools import partial
from pathlib import Path
from typing import Any

from langgraph.types import Command

from loopwright import AgentDefinition, ScriptedModel, build_task_agent, open_durability
from support import killed
from support.office import done, give, told_to
from support.reacting import said
from support.scripts import call

THREAD: Any = {"configurable": {"thread_id": "t"}}


def turn(folder: str, messages: Any, _: Any) -> Any:
    """By rules, so that whichever process asks gets the same answers."""
    if "I am chief." in messages[0].text:
        reports = told_to(messages)
        return done(reports[0]["summary"]) if reports else give("scout")
    heard = [m.text for m in messages if m.type == "tool" and m.name == "ask_user"]
    if heard:
        return done(f"It is {heard[0]}.")
    with Path(folder, "models").open("a") as file:
        file.write("asks\n")
    return [call("ask_user", question="Which colour?")]


def go_on(
    folder: str,
    place: dict[str, Any] | None = None,
    *,
    nested: bool = False,
    asks_alone: bool = False,
) -> tuple[dict[str, Any], int]:
    """Go on to the outcome, and how many questions were answered on the way.

    At the `place` the process dies; with `asks_alone` as soon as it has asked.
    """
    asks = AgentDefinition(name="scout", prompt="I ask.", questions=True)
    chief = AgentDefinition(prompt="I am chief.") if nested else asks
    with open_durability(f"sqlite:///{folder}/threads.db") as kept:
        graph = build_task_agent(
            ScriptedModel(partial(turn, folder)),
            definition=chief,
            agents=[asks] if nested else [],
            durability=kept,
        )
        config: Any = {**THREAD, "callbacks": [killed.Killed(**place)]} if place else THREAD
        given: Any = None if graph.get_state(THREAD).created_at else said()
        answered = 0
        while True:
            values: dict[str, Any] = graph.invoke(given, config)
            if not (asked := graph.get_state(THREAD).interrupts):
                return values, answered
            if asks_alone:
                killed.die()
            answered += 1
            given = Command(resume={asked[0].id: "blue"})


def die(folder: str, place: dict[str, Any] | None, nested: bool) -> None:
    """Until the process dies: at the place, or as soon as it has asked."""
    go_on(folder, place, nested=nested, asks_alone=place is None)

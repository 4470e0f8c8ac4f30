"""Graphs that visit places a user names, each visit a write, with a model that goes by rules.

The rules read what a request holds, so whoever asks gets the same answers: the first run, one that
was steered, and one of another process. What was visited and asked is appended to files.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from loopwright import (
    Context,
    Hook,
    ScriptedModel,
    build_plan_execute_verify,
    build_prompt_flow,
    build_react,
    build_task_agent,
    open_durability,
)
from loopwright.prompts.prompt import read_json, read_section
from support import killed
from support.flows import step
from support.scripts import call, passed, plan, report, thought, todo

THREAD = {"configurable": {"thread_id": "t"}}
FIRST, SECOND = "Visit Aral, Brno, Cork.", "Visit Aral, Dijon."
CALM = Context(max_parallel_tasks=1)
"""So that the events of a run have one order."""
EVENTS = ("BeforeModel", "AfterModel", "BeforeTool", "AfterTool")
BUILDERS: dict[str, Callable[..., Any]] = {
    "react": build_react,
    "agent": build_task_agent,
    "plan": build_plan_execute_verify,
    "flow": build_prompt_flow,
}


class Book:
    """What the processes of a run did, in order."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def tell(self, name: str, line: str) -> None:
        with (self.folder / name).open("a") as file:
            file.write(f"{line}\n")

    def told(self, name: str) -> list[str]:
        path = self.folder / name
        return path.read_text().splitlines() if path.exists() else []


def places(text: str) -> list[str]:
    return re.findall(r"\b[A-Z][a-z]{3,5}\b", text.partition("Visit")[2])


def _human(messages: Any) -> str:
    return str(next(m.text for m in messages if m.type == "human"))


def _planned(messages: Any, _: Any) -> Any:
    asked = read_section(_human(messages), "request") or ""
    return plan(*(todo(place, f"see {place}", []) for place in places(asked)))


def _executed(messages: Any, _: Any) -> Any:
    found = [m.text for m in messages if m.type == "tool"]
    if found:
        return report(f"The visit gave: {found[-1]}")
    place = read_json(_human(messages), "task")["id"]
    return [call("visit", place=place)]


def _judged(messages: Any, _: Any) -> Any:
    evidence = read_json(_human(messages), "evidence")
    cited = {f"t{e['task']}": [e["id"]] for e in evidence if e["status"] == "success"}
    return passed("All the places were seen.", **cited)


def _flow_planned(messages: Any, _: Any) -> Any:
    asked = read_section(_human(messages), "request") or ""
    steps = [step(place, "visit", arguments={"place": place}) for place in places(asked)]
    return {"goal": asked, "planId": "p", "steps": steps}


def _answered(messages: Any, _: Any) -> str:
    done = [s["id"] for s in read_json(_human(messages), "steps") if s["status"] == "completed"]
    return "Seen: " + " ".join(f"[{name}]" for name in done)


def _left(messages: Any) -> list[str]:
    asked = [m.text for m in messages if m.type == "human" and m.text.startswith("Visit")][-1]
    seen = {m.text.split()[0] for m in messages if m.type == "tool" and " is " in m.text}
    return [place for place in places(asked) if place not in seen]


def _thought(messages: Any, _: Any) -> str:
    left = _left(messages)
    if not left:
        return thought("All the places were seen.")
    return thought(f"I go to {left[0]} with visit.", more=True, reason="it is left")


def _acted(messages: Any, _: Any) -> Any:
    return [call("visit", place=_left(messages)[0])]


def _worked(messages: Any, _: Any) -> Any:
    if left := _left(messages):
        return [call("visit", place=left[0])]
    return [call("complete_task", summary="All the places were seen.")]


RULES: dict[str, dict[str, Any]] = {
    "react": {"thought": _thought, "action": _acted, "observation": lambda *_: "It was seen."},
    "agent": {"agent": _worked},
    "plan": {"planner": _planned, "executor": _executed, "verifier": _judged},
    "flow": {"flow_planner": _flow_planned, "answerer": _answered},
}


def graph_of(
    kind: str,
    book: Book,
    *,
    at: Callable[[Any, int, str], Any] | None = None,
    down: Callable[[], bool] = lambda: False,
    **options: Any,
) -> Any:
    """A graph that visits; `at` is told the graph and the number and name of each event.

    Where `down` says so its model cannot be reached.
    """
    built: list[Any] = []
    count = iter(range(10_000))

    def visit(place: str) -> str:
        """See a place."""
        book.tell("visits", place)
        return f"{place} is as it was"

    def noting(name: str) -> Hook:
        async def noted(given: dict[str, Any]) -> None:
            number = next(count)
            book.tell("events", name)
            if at is not None and (done := at(built[0], number, name)) is not None:
                await done

        return Hook(event=name, run=noted, on_error="closed")  # type: ignore[arg-type]  # a name

    def reached(rule: Callable[..., Any]) -> Callable[..., Any]:
        def answered(messages: Any, offered: Any) -> Any:
            if down():
                raise ConnectionError("nobody is there")
            return rule(messages, offered)

        return answered

    hooks = [noting(name) for name in EVENTS]
    model = ScriptedModel({role: reached(rule) for role, rule in RULES[kind].items()})
    built.append(BUILDERS[kind](model=model, tools=[visit], hooks=hooks, **options))
    return built[0]


def said(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


def run(kind: str, folder: str, steer_at: int, kill_at: int) -> None:
    """Run the first request; hand over the second one and die, each at an event of its own."""
    book = Book(folder)

    async def act(graph: Any, number: int) -> None:
        if number == steer_at:
            assert await graph.asteer(THREAD, SECOND)
            book.tell("steered", str(number))
        if number >= kill_at and book.told("steered"):
            killed.die()

    with open_durability(f"sqlite:///{folder}/threads.db") as durability:
        graph = graph_of(
            kind, book, at=lambda graph, number, _: act(graph, number), durability=durability
        )
        graph.invoke(said(FIRST), THREAD, context=CALM)


def stop_there(url):
    """What another process does that stops the run."""
    with open_durability(url) as durability:
        graph = graph_of("plan", Book("."), durability=durability)
        assert graph.stop(THREAD) is None

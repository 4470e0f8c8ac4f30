"""The router beside always-react and always-plan_execute_verify: calls, what is solved, thresholds.

    python benchmarks/routes.py

The goals are those that the offline model is tested with, small talk in two languages, and some of
many parts. The model goes by rules: the offline one, which here also knows a bit of small talk and
judges by the number of parts which graph a request needs. So the numbers show what the ways cost,
not how well a real model chooses.
"""

import re
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from langchain_core.messages import BaseMessage
from unit.models.test_offline import NOTES, Desk

from loopwright import Context, ScriptedModel
from loopwright.calls.toolbox import Toolbox
from loopwright.graphs.registry import REGISTRY
from loopwright.models.offline.model import OfflineModel
from loopwright.run.background import run_blocking
from loopwright.state.roles import TIERS
from loopwright.state.route import Features, choose_by_rule, strip_generic_words
from support.routed import TRIVIAL
from support.scripts import passed, plan, report, thought, todo

DIRECT: Final = "react(direct)"
GRAPHS: Final = ("plan_execute_verify", "react", DIRECT, "router")
ITERATIONS: Final = 4
"""What react may take: goals of many parts are beyond it, as long work is beyond a real loop."""
ANSWER: Final = "Here you are."


@dataclass(frozen=True)
class Goal:
    """What is asked, of which kind it is, and the calls that solve it."""

    kind: str
    words: str
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()


def _read(*paths: str) -> tuple[tuple[str, dict[str, Any]], ...]:
    return tuple(("open_document", {"path": path}) for path in paths)


GOALS: Final = [
    *(Goal("small talk", words) for words in TRIVIAL),
    Goal("one call", "Read docs/notes.md", _read("docs/notes.md")),
    Goal("one call", "Read docs/letter.txt", _read("docs/letter.txt")),
    Goal("one call", "How many pieces of Juno are in stock?", (("stock", {"article": "Juno"}),)),
    Goal("one call", "How many pieces of Luna are in stock?", (("stock", {"article": "Luna"}),)),
    Goal("one call", "What is the weather in Oslo?", (("forecast", {"city": "Oslo"}),)),
    Goal("one call", "What is the weather in Bergen?", (("forecast", {"city": "Bergen"}),)),
    Goal("one call", "Please pay 5 EUR.", (("pay", {"amount": 5}),)),
    Goal("one call", "Please pay 7 EUR.", (("pay", {"amount": 7}),)),
    Goal("parts", "Read docs/notes.md and docs/b.md", _read("docs/notes.md", "docs/b.md")),
    Goal(
        "parts",
        "Read docs/notes.md, then write it to docs/b.md",
        (*_read("docs/notes.md"), ("store_document", {"path": "docs/b.md", "content": NOTES})),
    ),
    Goal(
        "parts",
        "Read docs/a.txt, then read docs/b.txt, then read docs/c.txt, then read docs/d.txt",
        _read("docs/a.txt", "docs/b.txt", "docs/c.txt", "docs/d.txt"),
    ),
    Goal(
        "parts",
        "Get the weather in Oslo, then get the weather in Rome, then read docs/a.txt, then read"
        " docs/b.txt, then read docs/c.txt",
        (
            ("forecast", {"city": "Oslo"}),
            ("forecast", {"city": "Rome"}),
            *_read("docs/a.txt", "docs/b.txt", "docs/c.txt"),
        ),
    ),
    Goal(
        "parts",
        'Read docs/notes.md, then pay 5 EUR, then write "paid" to docs/log.txt',
        (
            *_read("docs/notes.md"),
            ("pay", {"amount": 5}),
            ("store_document", {"path": "docs/log.txt", "content": "paid"}),
        ),
    ),
]
RIGHT: Final = {"small talk": "direct", "one call": "react"}
"""What a rule may say of a kind; of any other somebody must judge."""


def small_talk(role: str, cited: str) -> Any:
    """What each role says to it."""
    return {
        "responder": ANSWER,
        "dispatcher": {"graph": "direct", "why": "small talk"},
        "thought": thought(ANSWER),
        "planner": plan(todo("1", "answer the user")),
        "executor": report(ANSWER),
        "verifier": passed(ANSWER, t1=[cited]),
    }[role]


def rules(words: str) -> dict[str, Any]:
    """The model of each role."""
    if words in TRIVIAL:
        roles = ("responder", "dispatcher", "thought", "planner", "executor", "verifier")
        return {role: ScriptedModel({role: [small_talk(role, "1.report")]}) for role in roles}

    def dispatched(_: list[BaseMessage], __: list[str]) -> dict[str, str]:
        parts = len(re.findall(r"\b(?:then|and)\b", words))
        return {"graph": "prompt_flow" if parts else "react", "why": f"{parts + 1} parts"}

    return {"dispatcher": ScriptedModel(dispatched), **dict.fromkeys(TIERS, OfflineModel())}


def tried(graph: str, goal: Goal) -> tuple[bool, int, str]:
    """Whether the goal was solved, in how many calls, and by which graphs."""
    desk = Desk()
    name, observe = ("react", "direct") if graph == DIRECT else (graph, None)
    built = REGISTRY[name].build(tools=desk.tools, model=rules(goal.words))
    settings = Context(max_iterations=ITERATIONS, observe=observe)
    outcome = built.invoke({"messages": [("user", goal.words)]}, context=settings)["outcome"]
    made = Counter(_spelled(name, arguments) for name, arguments in desk.calls)
    wanted = Counter(_spelled(name, arguments) for name, arguments in goal.calls)
    ways = " > ".join(one["graph"] for one in outcome.get("tried", []))
    solved = outcome["status"] == "complete" and made == wanted
    return solved, outcome["spend"]["model_calls"], ways


def _spelled(name: str, arguments: dict[str, Any]) -> str:
    told = {key: str(value).strip() for key, value in sorted(arguments.items())}
    return f"{name}{told}"


def compared() -> None:
    """Print calls and solved goals by kind."""
    write = sys.stdout.write
    found = [(graph, goal.kind, *tried(graph, goal)) for graph in GRAPHS for goal in GOALS]
    write(f"{'':12}" + "".join(f"{graph:>28}" for graph in GRAPHS) + "\n")
    kinds = [*dict.fromkeys(goal.kind for goal in GOALS), ""]
    for kind in kinds:
        row = f"{kind or 'all':12}"
        for graph in GRAPHS:
            ends = [one for one in found if one[0] == graph and kind in ("", one[1])]
            solved, calls = sum(one[2] for one in ends), sum(one[3] for one in ends)
            row += f"{f'{solved} of {len(ends)}, {calls} calls':>28}"
        write(row + "\n")
    total = {graph: sum(one[3] for one in found if one[0] == graph) for graph in GRAPHS}
    for graph in GRAPHS[:3]:
        write(f"router takes {total['router'] / total[graph]:.0%} of the calls of {graph}\n")
    ways = Counter((one[1], one[4]) for one in found if one[0] == "router")
    for (kind, way), count in sorted(ways.items()):
        write(f"  {kind}: {way}, {count} times\n")


def thresholds() -> None:
    """Print how many requests rules route, and how many wrongly, by the settings."""
    catalog = run_blocking(Toolbox(Desk().tools).catalog())
    seen = [
        (
            goal,
            Features.of(
                goal.words,
                attached=False,
                tools=len(catalog.tools),
                likely=len(catalog.deferred_tools.find(strip_generic_words(goal.words), 50)),
            ),
        )
        for goal in GOALS
    ]
    sys.stdout.write("route_asks route_tools route_length: by rule, of these wrong\n")
    for asks, tools, length in (
        (0, 3, 240), (1, 1, 240), (1, 2, 240), (1, 3, 240), (1, 5, 240), (2, 3, 240), (3, 3, 240),
        (1, 3, 20), (1, 3, 60), (1, 3, 1_000),
    ):  # fmt: skip
        context = Context(route_asks=asks, route_tools=tools, route_length=length)
        ruled = [(goal, choose_by_rule(one, context)) for goal, one in seen]
        told = [(goal, rule[0]) for goal, rule in ruled if rule is not None]
        wrong = sum(RIGHT.get(goal.kind) != way for goal, way in told)
        sys.stdout.write(f"{asks:10} {tools:11} {length:12}: {len(told)} of {len(seen)}, {wrong}\n")


if __name__ == "__main__":
    compared()
    thresholds()

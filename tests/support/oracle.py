"""The sixty fresh goals, and a model that knows what each of them needs.

It makes the calls that a goal names, each once and in their order, equal ones side by side. What is
measured with it is what a graph costs, and whether its own rules let a goal's tools be reached.
"""

import json
from collections import Counter
from itertools import groupby
from pathlib import Path
from typing import Any, Final, NamedTuple

from langchain_core.tools import StructuredTool

from loopwright import ScriptedModel

from .scripts import call, passed, plan, report, thought, todo

_FRESH: Final = json.loads(
    (Path(__file__).parent.parent / "fixtures" / "fresh" / "goals.json").read_text("utf-8")
)
GOALS: Final[list[dict[str, Any]]] = _FRESH["goals"]
_SPECS: Final = {spec["name"]: spec for spec in _FRESH["tools"]}
ANSWER: Final = "It is forty-two metres."
RIGHT: Final = {
    "none": "direct", "one": "react", "several": "prompt_flow", "plan": "plan_execute_verify",
}  # fmt: skip
"""The graph for each kind of goal."""
REACT_CALLS: Final = 321
"""Calls of the model that react needs for all of them as of 238923a: measured, 1 and 3 a step."""


class Tried(NamedTuple):
    """What a graph did with a goal."""

    outcome: dict[str, Any]
    calls: int
    """How often a model was asked."""
    missed: Counter[str]
    """Calls that the goal needs, and that were not made."""


def run_goal(goal: dict[str, Any], build: Any, **context: Any) -> Tried:
    """Have a graph do a goal, with the model and tools of this file."""
    made: list[str] = []
    models = by_need(goal)
    graph = build(tools=[_tool(spec, made) for spec in _SPECS.values()], model=models)
    outcome = graph.invoke({"messages": [("user", goal["goal"])]}, context=context)["outcome"]
    asked = sum(len(model.asked) for model in models.values())
    return Tried(outcome, asked, Counter(goal["tools"]) - Counter(made))


def by_need(goal: dict[str, Any]) -> dict[str, ScriptedModel]:
    """One model a role, which goes by what the goal needs."""
    steps = [list(group) for _, group in groupby(goal["tools"])]
    said = {"step": f"I use {goal['tools'][0]}."} if steps else {"answer": ANSWER}
    chosen = {"graph": RIGHT[goal["needs"]]} | said
    tasks = [todo(str(n), f"task {n}", []) for n in range(1, len(steps) + 1)]
    cited = {f"t{n}": [f"{n}.1.0"] for n in range(1, len(steps) + 1)}
    drawn = _draw(goal["tools"])

    def think(messages: list[Any], _: list[str]) -> str:
        left = len(steps) > _done(messages)
        return thought("The next call is due.", more=True) if left else thought(ANSWER)

    def execute(messages: list[Any], _: list[str]) -> Any:
        task = next(t for t in tasks if t["description"] in messages[1].text)
        return report(ANSWER) if _done(messages) else _calls(steps[int(task["id"]) - 1])

    scripts: dict[str, Any] = {
        "dispatcher": lambda *_: chosen,
        "responder": lambda *_: thought("", more=True, reason="a tool") if steps else ANSWER,
        "thought": think,
        "action": lambda messages, _: _calls(steps[_done(messages)]),
        "observation": lambda *_: "The call brought what was wanted.",
        "flow_planner": lambda *_: {"goal": "it", "steps": drawn},
        "answerer": lambda *_: ANSWER + "".join(f"[{one['id']}]" for one in drawn),
        "planner": lambda *_: plan(*tasks),
        "executor": execute,
        "verifier": lambda *_: passed(ANSWER, **cited),
    }  # fmt: skip
    return {role: ScriptedModel(script) for role, script in scripts.items()}


def _done(messages: list[Any]) -> int:
    """How many steps have their calls; what is shown of tools ends with the newest request."""
    return sum(bool(getattr(message, "tool_calls", ())) for message in messages)


def _calls(tools: list[str]) -> list[dict[str, Any]]:
    return [call(name, f"{name}_{n}", **_arguments(name, n)) for n, name in enumerate(tools)]


def _draw(tools: list[str]) -> list[dict[str, Any]]:
    return [
        {"id": f"s{n}", "description": name, "tool": name, "arguments": _arguments(name, n)}
        for n, name in enumerate(tools, 1)
    ]


def _arguments(name: str, n: int) -> dict[str, Any]:
    fields = _SPECS[name]["parameters"]["properties"]
    return {key: n if about["type"] in ("number", "integer") else f"{key} {n}"
            for key, about in fields.items()}  # fmt: skip


def _tool(spec: dict[str, Any], made: list[str]) -> StructuredTool:
    def use(**_: Any) -> str:
        made.append(spec["name"])
        return "forty-two metres"

    return StructuredTool.from_function(
        use, name=spec["name"], description=spec["description"], args_schema=spec["parameters"],
        metadata={"readOnlyHint": spec["read_only"]},
    )  # fmt: skip

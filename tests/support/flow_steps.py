"""Plans of tool calls and their steps as state keeps them: by hand, and any acyclic ones."""

from collections.abc import Iterable, Mapping
from typing import Any, cast

from hypothesis import strategies as st

from loopwright.flow.checks import find_plan_flaws
from loopwright.flow.execution_plan import ExecutionPlan
from loopwright.flow.order import build_steps
from loopwright.state.flow import FlowStep
from loopwright.tools.catalog import build_catalog
from loopwright.tools.mcp.config import ServerConfig
from loopwright.tools.mcp.server import Listing
from support.flows import step

EVERY_FIELD: dict[str, Any] = {
    "id": "s7",
    "description": "Count the parts",
    "tool": "look",
    "arguments": {"what": ["{{s1.rows}}", {"n": 1}]},
    "dependencies": ["s1", "s2"],
    "expectedOutput": "a number",
    "expect": "n > 0",
    "when": "s1.n > 0",
    "forEach": "{{s2.rows}}",
    "maxItems": 7,
    "retryCount": 2,
    "optional": True,
    "timeout": 7.5,
}
"""A step that a model has written in full, every field other than its default."""


def call(name: str, *needs: str, tool: str = "get", **more: Any) -> dict[str, Any]:
    """A planned step in short; what is no field of its own is an argument."""
    fields = {"description", "optional", "expect", "retryCount", "timeout", "expectedOutput"}
    own = {key: value for key, value in more.items() if key in fields}
    arguments = {key: value for key, value in more.items() if key not in fields}
    about = {"description": "", "arguments": arguments}
    return {**step(name, tool, list(needs)), **about, **own}


def plan(*planned: Mapping[str, Any], **variables: Any) -> ExecutionPlan:
    return ExecutionPlan.model_validate({"steps": planned, "globalVariables": variables})


def flaws(given: ExecutionPlan, *, kept: Iterable[str] = (), limit: int) -> list[str]:
    """What is wrong with a plan, were there tools of all its names that take anything."""
    tools = tuple({"name": name} for name in {step.tool for step in given.steps} - {""})
    catalog = build_catalog([], [Listing(ServerConfig(name="all"), tools, "")])
    done: Any = [{"id": name, "shape": "stored"} for name in kept]
    return find_plan_flaws(given, catalog, kept=done, limit=limit)


def steps(*planned: Mapping[str, Any], done: Mapping[str, Any] | None = None) -> list[FlowStep]:
    """The steps of a plan as state keeps them; `done` has the results of finished ones by id."""
    results = done or {}
    return [
        called(one, result=results[one["id"]]) if one["id"] in results else one
        for one in build_steps(plan(*planned))
    ]


def called(planned: FlowStep, status: str = "completed", /, **more: Any) -> FlowStep:
    """The step after its call; without a result given, a completed one has one of its own."""
    name = planned["id"]
    was_called: Any = {"status": status, "attempts": 1, "rounds": 1, "seconds": 0.5}
    if status == "completed":
        was_called |= {
            "result": f"result of {name}", "shape": "text", "evidence": [f"{name}.1.0"]
        }  # fmt: skip
    after: Any = {**planned, **was_called, **more}
    return cast("FlowStep", after)


def flow_step(id_: str, status: str = "completed", /, **more: Any) -> FlowStep:
    """A step in state, as run_flow leaves it; every field can be given."""
    (planned,) = steps(step(id_, arguments={"what": id_}))
    return called(planned, status, **more)


def broken(id_: str, why: str = "no such part", /, **more: Any) -> FlowStep:
    """A step that failed."""
    return flow_step(id_, "failed", **{"failure": "tool_error", "feedback": why, **more})


@st.composite
def acyclic(draw: st.DrawFn, most: int = 6) -> list[dict[str, Any]]:
    """Steps of a sound plan in any order, with references, lists, conditions, and like calls."""
    names = draw(st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=most, unique=True))
    planned: list[dict[str, Any]] = []
    for place, name in enumerate(names):
        before = st.sets(st.sampled_from(names[:place]), max_size=2) if place else st.just(set())
        each = {other["id"] for other in planned if "forEach" in other}
        texts = [f"{{{{{i}{'[0]' * (i in each)}.x}}}}" for i in sorted(draw(before))]
        arguments = {"q": draw(st.integers(0, 1)), "of": texts}
        one = call(name, *sorted(draw(before)), tool=draw(st.sampled_from(["get", "put"])))
        one |= {"arguments": arguments}
        if draw(st.integers(0, 3)) == 0:
            lists = [
                [0, {"x": 1}, 0],
                *(f"{{{{{i}{'[0]' * (i in each)}.rows}}}}" for i in names[:place]),
            ]
            one |= {"forEach": draw(st.sampled_from(lists))}
            arguments["item"] = "{{item}}"
        if place and draw(st.integers(0, 3)) == 0:
            one |= {"when": f"{draw(st.sampled_from(names[:place]))} exists"}
        planned.append(one)
    return draw(st.permutations(planned))

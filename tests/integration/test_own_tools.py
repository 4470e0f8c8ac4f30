"""Every tool of the package with arguments of any shape, in whole runs of every graph."""

import json
from functools import reduce
from itertools import count
from operator import getitem
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from langchain_core.messages import AIMessage
from langgraph.types import Command

from loopwright import (
    AgentDefinition,
    Context,
    ScriptedModel,
    build_customer_service,
    build_plan_execute_verify,
    build_prompt_flow,
    build_react,
    build_router,
    build_task_agent,
    open_durability,
)
from loopwright.tools.arguments import check_arguments
from support.flows import citing, decide, declared, flow, step
from support.public_tools import many
from support.reacting import DONE, LOOK, said
from support.scripts import call, failed, plan, report, todo


def look(what: str) -> str:
    """Look."""
    return what


KIT = {"type": "object", "properties": {"parts": {"type": "array"}}, "required": ["parts"]}
SCOUT = AgentDefinition(name="scout", description="Scouts.", prompt="I am scout.", input=KIT)
OTHERS = [*many(40), declared(look, readOnlyHint=True)]
RUNS: dict[Any, dict[str, Any]] = {
    build_task_agent: {"agents": [SCOUT], "definition": AgentDefinition(output=KIT)},
    build_customer_service: {"agents": [SCOUT]},
    build_router: {},
    build_react: {},
    build_plan_execute_verify: {},
    build_prompt_flow: {},
}
ASK = [{"tool": "look", "action": "ask"}, {"tool": "*", "action": "allow"}]


class Model(ScriptedModel):
    """Whoever may call tools says this first; each role comes to an end. Keeps what is offered."""

    def __init__(self, first: Any) -> None:
        called = iter([first])
        end = [call("complete_task", "end", summary="Over.", status="partial")]

        def agent(messages: Any, offered: list[str]) -> Any:
            last = offered == ["complete_task"] and isinstance(first, AIMessage)
            scout = SCOUT.prompt in messages[0].text
            return end if scout else first if last else next(called, end)

        super().__init__({
            "agent": agent,
            "thought": lambda m, _: DONE if any(one.type == "tool" for one in m) else LOOK,
            "action": lambda *_: next(called, "Nothing."),
            "observation": lambda *_: "Nothing.",
            "planner": lambda *_: plan(todo("1", "Do it")),
            "executor": lambda *_: next(called, report("Done.")),
            "verifier": lambda *_: failed("do it", t1=False),
            "listener": lambda *_: {"intent": "question", "mood": "calm", "score": 0},
            "support": lambda *_: next(called, "It is so."),
            "dispatcher": lambda *_: {"graph": "react", "why": "small"},
            "flow_planner": lambda *_: next(called, flow(step("s", arguments={"what": "x"}))),
            "recovery": lambda *_: decide("replan_from_failure"),
            "answerer": citing,
        })  # fmt: skip
        self._offered: dict[str, Any] = {}

    def bind_tools(self, tools: Any, **more: Any) -> Any:
        functions = [tool["function"] for tool in tools]
        self._offered |= {one["name"]: one["parameters"] for one in functions}
        return super().bind_tools(tools, **more)


class World:
    """Graphs over one database, and the tools of the package that each offers."""

    def __init__(self, folder: Any, kept: Any) -> None:
        (folder / "owners").mkdir()
        (folder / "owners" / "SKILL.md").write_text("---\nname: o\ndescription: d\n---\nAsk.")
        self.options: dict[str, Any] = {
            "tools": OTHERS,
            "instructions": folder,
            "durability": kept,
            "policy": ASK,
        }
        self.threads, theirs = count(), {tool.name for tool in OTHERS}
        self.own: dict[Any, dict[str, Any]] = {}
        for build in RUNS:
            self.run(build, model := Model(""), {})
            self.own[build] = {k: v for k, v in model._offered.items() if k not in theirs}
        assert len(self.own[build_task_agent]) >= 9
        # A planner of steps is offered no calls: it plans them.
        self.own[build_prompt_flow] = self.own[build_react]

    def run(self, build: Any, model: Model, context: dict[str, Any]) -> list[Any]:
        """Run it to its end, each time anew where it asks; every message it or a model had."""
        thread = {"configurable": {"thread_id": str(next(self.threads))}}
        given: Any = said("Find it")
        values: dict[str, Any] = {}
        while given:
            graph = build(model=model, **RUNS[build], **self.options)
            for mode, value in graph.stream(
                given, thread, context=Context(**context), stream_mode=["values", "messages"]
            ):
                values = value if mode == "values" else values
            asks = graph.get_state(thread).interrupts
            open_ = asks and asks[0].value.get("type") != "take_over"
            given = Command(resume="approve") if open_ else None
        assert asks or values["outcome"]["status"]
        return [*values["messages"], *(m for asked in model.asked for m in asked.messages)]


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("own")
    with open_durability(f"sqlite:///{folder}/t.db") as kept:
        yield World(folder, kept)


LEAVES = st.sampled_from([None, True, 0, -3, 2.5, 10**400, float("nan"), "", "x", "\ud800", "\0"])
ANY = st.recursive(
    LEAVES,
    lambda one: st.lists(one, max_size=2) | st.dictionaries(st.text(max_size=3), one, max_size=2),
)


def fitting(schema: dict[str, Any]) -> Any:
    """What fits a schema."""
    match schema:
        case {"enum": some}:
            return st.sampled_from(some)
        case {"type": "object"}:
            parts = {name: fitting(one) for name, one in schema.get("properties", {}).items()}
            return st.fixed_dictionaries(parts)
        case {"type": "array"}:
            return st.lists(fitting(schema.get("items", {})), min_size=1, max_size=3)
    return st.just({"integer": 1, "boolean": True}.get(schema.get("type", ""), "pending"))


def places(value: Any, way: tuple[Any, ...] = ()) -> list[Any]:
    """The way to every part of a value."""
    parts: Any = value.items() if isinstance(value, dict) else ()
    parts = enumerate(value) if isinstance(value, list) else parts
    return [*([way] if way else []), *(p for key, one in parts for p in places(one, (*way, key)))]


@st.composite
def shapes(draw: Any, schema: dict[str, Any]) -> Any:
    """Arguments that something is wrong with, mostly; or no object at all."""
    if draw(st.integers(0, 9)) == 0:
        return draw(ANY)
    args = draw(fitting(schema))
    for _ in range(draw(st.integers(1, 3))):
        if not (ways := places(args)):
            break
        *way, last = draw(st.sampled_from(ways))
        holder = reduce(getitem, way, args)
        how = draw(st.sampled_from(["other", "other", "inside a list", "gone", "beside another"]))
        if how == "gone":
            del holder[last]
        else:
            holder[last] = [holder[last]] if how == "inside a list" else draw(ANY)
        if how == "beside another" and isinstance(holder, dict):
            holder["more"] = draw(ANY)
    return args


@pytest.mark.req("W-101")
@pytest.mark.parametrize("build", RUNS, ids=lambda build: build.__name__)
@settings(max_examples=settings().max_examples // 5, suppress_health_check=[*HealthCheck])
@given(data=st.data())
def test_arguments_of_any_shape_are_answered_and_end_no_run(world, build, data):
    """Also where a question stands beside them, so that another process answers them."""
    known = world.own[build]
    odd = {tool: data.draw(shapes(schema)) for tool, schema in known.items()}
    wrong = {tool for tool, args in odd.items() if check_arguments(known[tool], args)[1]}
    calls = [call(tool, tool) | {"args": a} for tool, a in odd.items() if isinstance(a, dict)]
    calls += [call("look", "asked", what="x")] if data.draw(st.booleans()) else []
    no_objects = [
        {"name": tool, "id": tool, "args": json.dumps(args), "error": None}
        for tool, args in odd.items() if not isinstance(args, dict)
    ]  # fmt: skip
    model = Model(AIMessage("", tool_calls=calls, invalid_tool_calls=no_objects))
    if build is build_prompt_flow:
        model = Model(flow(*(step(tool, tool, arguments=args) for tool, args in odd.items())))
    context = data.draw(st.sampled_from([{}, {"review_plan": True}, {"max_turns": 1}]))
    messages = world.run(build, model, context)
    if build is build_prompt_flow:
        assert not wrong or [asked.role for asked in model.asked].count("flow_planner") > 1
        looks = not no_objects and wrong & {"find_tools", "read_skill"}
        assert not looks or "Not run: The arguments" in "".join(m.text for m in messages)
        return
    for tool in known:
        answers = [m for m in messages if m.type == "tool" and m.tool_call_id == tool]
        assert answers, tool
        assert tool not in wrong or "error" in {m.status for m in answers}, (tool, odd[tool])

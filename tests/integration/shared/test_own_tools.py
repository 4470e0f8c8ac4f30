"""Every tool of the package with arguments of any shape, in whole runs of every graph."""

import json
from functools import cache
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from langchain_core.messages import AIMessage
from langgraph.types import Command

import loopwright as lw
from loopwright.tools.arguments import check_arguments
from support.flows import citing, decide, declared, flow, step
from support.public_tools import many
from support.reacting import DONE, LOOK, said
from support.scripts import call, failed, plan, report, todo


def look(what: str) -> str:
    """Look."""
    return what


KIT = {"type": "object", "properties": {"parts": {"type": "array"}}, "required": ["parts"]}
SCOUT = lw.AgentDefinition(name="scout", description="Scouts.", prompt="I am scout.", input=KIT)
OTHERS = [*many(40), declared(look, readOnlyHint=True)]
RUNS: dict[Any, dict[str, Any]] = {
    lw.build_task_agent: {"agents": [SCOUT], "definition": lw.AgentDefinition(output=KIT)},
    lw.build_customer_service: {"agents": [SCOUT]},
    **{one: {} for one in (lw.build_router, lw.build_react, lw.build_plan_execute_verify)},
    lw.build_prompt_flow: {},
}
END = [call("complete_task", "end", summary="Over.", status="partial")]


def scripts(first: Any) -> dict[str, Any]:
    """Whoever may call tools says this first, an agent in its last turn too; then all end."""
    turns = iter([first])

    def agent(messages: Any, offered: list[str]) -> Any:
        if SCOUT.prompt in messages[0].text:
            return END
        return first if offered == ["complete_task"] and first else next(turns, END)

    return {
        "agent": agent,
        "thought": lambda m, _: DONE if any(one.type == "tool" for one in m) else LOOK,
        "action": lambda *_: next(turns, "Nothing."),
        "observation": lambda *_: "Nothing.",
        "planner": lambda *_: plan(todo("1", "Do it")),
        "executor": lambda *_: next(turns, report("Done.")),
        "verifier": lambda *_: failed("do it", t1=False),
        "listener": lambda *_: {"intent": "question", "mood": "calm", "score": 0},
        "support": lambda *_: next(turns, "It is so."),
        "dispatcher": lambda *_: {"graph": "react", "why": "small"},
        "flow_planner": lambda *_: next(turns, flow(step("s", arguments={"what": "x"}))),
        "recovery": lambda *_: decide("replan_from_failure"),
        "answerer": citing,
    }


class Model(lw.ScriptedModel):
    """Keeps what is offered to it."""

    def __init__(self, first: Any) -> None:
        super().__init__(scripts(first))

    def bind_tools(self, tools: Any, **more: Any) -> Any:
        OFFERED.update({t["function"]["name"]: t["function"]["parameters"] for t in tools})
        return super().bind_tools(tools, **more)


OFFERED: dict[str, Any] = {}
NUMBERS, MODES = count(), ["values", "messages"]


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Runs a graph to its end, built anew after a question; gives all that it or a model saw."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "owners").mkdir()
    (folder / "owners" / "SKILL.md").write_text("---\nname: o\ndescription: d\n---\nAsk.")
    ask = [{"tool": "look", "action": "ask"}, {"tool": "*", "action": "allow"}]
    options: Any = {"tools": OTHERS, "instructions": folder, "policy": ask}

    def run(build: Any, model: Model, **context: Any) -> list[Any]:
        thread: Any = {"configurable": {"thread_id": str(next(NUMBERS))}}
        turn: Any = said("Find it")
        while turn:
            graph = build(model=model, durability=kept, **RUNS[build], **options)
            assert [*graph.stream(turn, thread, context=lw.Context(**context), stream_mode=MODES)]
            now = graph.get_state(thread)
            handed_over = now.interrupts and now.interrupts[0].value.get("type") == "take_over"
            turn = now.interrupts and not handed_over and Command(resume="approve")
        assert handed_over or now.values["outcome"]["status"]
        return [*now.values["messages"], *(m for asked in model.asked for m in asked.messages)]

    with lw.open_durability(f"sqlite:///{folder}/t.db") as kept:
        yield run


@cache
def own_tools(world: Any, build: Any) -> dict[str, Any]:
    """The package's own tools that a graph offers, and their schemas."""
    OFFERED.clear()  # a planner of steps is offered no calls: it plans them
    world(lw.build_react if build is lw.build_prompt_flow else build, Model(""))
    return {name: one for name, one in OFFERED.items() if name not in {t.name for t in OTHERS}}


ANY = st.recursive(
    st.sampled_from([None, True, -3, 2.5, 10**400, float("nan"), "", "x", "\ud800", "\0"]),
    lambda one: st.lists(one, max_size=2) | st.dictionaries(st.text(max_size=3), one, max_size=2),
)


def shapes(schema: dict[str, Any]) -> Any:
    """What fits a schema but for some parts that are others, or gone, or more than there are."""
    match schema:
        case {"enum": some}:
            fits: Any = st.sampled_from(some)
        case {"type": "object"}:
            parts = {name: shapes(one) for name, one in schema.get("properties", {}).items()}
            fits = st.fixed_dictionaries({}, optional=parts | {"more": ANY})
            fits = st.one_of(fits, *[st.fixed_dictionaries(parts)] * 2)
        case {"type": "array"}:
            fits = st.lists(shapes(schema.get("items", {})), min_size=1, max_size=3)
        case _:
            fits = st.just({"integer": 1, "boolean": True}.get(schema.get("type", ""), "pending"))
    return st.one_of(fits, fits, fits, ANY)


@pytest.mark.req("W-101")
@pytest.mark.parametrize("build", RUNS, ids=lambda build: build.__name__)
@settings(max_examples=settings().max_examples // 8, suppress_health_check=[*HealthCheck])
@given(data=st.data())
def test_arguments_of_any_shape_are_answered_and_end_no_run(world, build, data):
    """Also where a question stands beside them, so that another process answers them."""
    known, plans = own_tools(world, build), build is lw.build_prompt_flow
    assert build is not lw.build_task_agent or len(known) >= 9
    odd = [(f"{tool}{n}", tool, data.draw(shapes(known[tool]))) for tool in known for n in range(4)]
    wrong = {name for name, tool, args in odd if check_arguments(known[tool], args)[1]}
    whole = [(name, tool, args) for name, tool, args in odd if isinstance(args, dict)]
    calls = [call(tool, name) | {"args": args} for name, tool, args in whole]
    calls += [call("look", "asked", what="x")] if data.draw(st.booleans()) else []
    no_objects = [
        {"name": tool, "id": name, "args": json.dumps(args), "error": None}
        for name, tool, args in odd if not isinstance(args, dict)
    ]  # fmt: skip
    first: Any = AIMessage("", tool_calls=calls, invalid_tool_calls=no_objects)
    if plans:
        first = flow(*(step(name, tool, arguments=args) for name, tool, args in whole))
    model = Model(first)
    context = data.draw(st.sampled_from([{}, {"review_plan": True}, {"max_turns": 1}]))
    messages = world(build, model, **context)
    if plans:  # who looks for something first may plan the rest unsoundly
        told = "".join(m.text for m in messages)
        looks = {tool for name, tool, _ in whole if name in wrong} - {"read_result"}
        assert all(f"do not fit '{tool}'" in told for tool in looks)
        return
    for name, tool, args in odd:
        ends = {m.status for m in messages if m.type == "tool" and m.tool_call_id == name}
        assert ends if name not in wrong else "error" in ends, (tool, args)

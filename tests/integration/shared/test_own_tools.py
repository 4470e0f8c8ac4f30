"""Every tool of the package with fifty broken shapes of arguments, in whole runs of every graph."""

import json
from functools import cache
from itertools import count
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.types import Command

import loopwright as lw
from loopwright.tools.arguments import check_arguments, find_unsafe_part
from support.flows import citing, decide, declared, flow, step
from support.public_tools import many
from support.reacting import DONE, LOOK, said
from support.scripts import PROOFREAD, call, failed, plan, report, todo


def look(what: str) -> str:
    """Look."""
    return what


KIT = {"type": "object", "properties": {"parts": {"type": "array"}}, "required": ["parts"]}
SCOUT = lw.AgentDefinition(name="scout", description="Scouts.", prompt="I am scout.", input=KIT)
OTHERS = [*many(61), declared(look, readOnlyHint=True)]
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
        **PROOFREAD,
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


def nest(depth: int) -> Any:
    """A list in a list in a list."""
    return [nest(depth - 1)] if depth else []


SCALARS = [None, True, -3, 2.5, 10**400, float("nan"), "", "x, y", "\ud800", "\0", "{", "[1, 2]"]
WHOLES = [[], {}, ["x", 2], {"x": "y"}, nest(70), {"names": {}}, [None, None], {"description": []}]
VALUES: list[Any] = [
    *SCALARS,
    *WHOLES,
    *([one, one] for one in SCALARS),
    *({"x": one} for one in SCALARS),
]
NO_OBJECTS: list[Any] = [5, True, "x", [], [1, 2], [{"x": 1}, {"x": 2}]]
MANY = 50


def fitting(schema: dict[str, Any]) -> Any:
    """Something that fits a schema of a tool of the package."""
    match schema:
        case {"enum": [one, *_]}:
            return one
        case {"type": "object"}:
            asked = schema.get("required", ())
            return {name: fitting(schema["properties"][name]) for name in asked}
        case {"type": "array"}:
            return [fitting(schema.get("items", {}))]
        case _:
            return {"integer": 1, "boolean": True}.get(schema.get("type", ""), "pending")


def broken(schema: dict[str, Any]) -> list[Any]:
    """Fifty arguments that break a schema: by what is in them, lacks, or is no object."""
    fits, names = fitting(schema), schema["properties"]
    odd = [{**fits, name: value} for value in VALUES for name in names]
    odd += [{**fits, name: [*VALUES[place::7]]} for place in range(7) for name in names]
    odd += [{k: v for k, v in fits.items() if k != gone} for gone in fits]
    wrong = [args for args in odd if check_arguments(schema, args)[1]]
    assert len(wrong) + len(NO_OBJECTS) >= MANY
    return [*NO_OBJECTS, *wrong[:: len(wrong) // (MANY - len(NO_OBJECTS))]][:MANY]


@pytest.mark.req("W-101")
@pytest.mark.parametrize("build", RUNS, ids=lambda build: build.__name__)
def test_arguments_that_break_a_schema_are_answered_and_end_no_run(world, build):
    """Also where a question stands beside them, so that another process answers them."""
    known, plans = own_tools(world, build), build is lw.build_prompt_flow
    assert {"read_result", "find_tools", "read_skill"} <= set(known)
    assert build is not lw.build_task_agent or len(known) >= 9
    shapes = [
        (f"{tool}{n}", tool, args) for tool in known for n, args in enumerate(broken(known[tool]))
    ]
    assert len(shapes) == MANY * len(known)
    contexts: list[dict[str, Any]] = [{}, {"review_plan": True}, {"max_turns": 1}]
    for place, context in enumerate(contexts):
        odd = shapes[place :: len(contexts)]
        if plans:
            check_plan(world, build, odd, context)
        else:
            check_calls(world, build, odd, context, asked=place == 1)


def check_calls(world, build, odd, context, *, asked) -> None:
    calls = [
        call(tool, name) | {"args": args} for name, tool, args in odd if isinstance(args, dict)
    ]
    calls += [call("look", "asked", what="x")] if asked else []
    no_objects = [
        {"name": tool, "id": name, "args": json.dumps(args), "error": None}
        for name, tool, args in odd if not isinstance(args, dict)
    ]  # fmt: skip
    first = AIMessage("", tool_calls=calls, invalid_tool_calls=no_objects)
    messages = world(build, Model(first), **context)
    for name, tool, args in odd:
        ends = {m.status for m in messages if m.type == "tool" and m.tool_call_id == name}
        assert "error" in ends, (tool, args)


def check_plan(world, build, odd, context) -> None:
    """Who looks for something first may plan the rest unsoundly."""
    whole = [one for one in odd if isinstance(one[2], dict) and not find_unsafe_part(one[2])]
    for tool in {tool for _, tool, _ in whole} - {"read_result"}:
        steps = [step(name, of, arguments=args) for name, of, args in whole if of == tool][:20]
        messages = world(build, Model(flow(*steps)), **context)
        assert f"do not fit '{tool}'" in "".join(m.text for m in messages)

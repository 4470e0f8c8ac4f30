"""A write of which the journal has a line goes on as it was sent; nothing else counts as begun."""

from typing import Any

import pytest

from loopwright import hook
from loopwright.calls.call_journal import PAUSED
from loopwright.doors.journal import CallKey
from loopwright.graphs.build import assemble
from loopwright.nodes.flow.run_flow import run_flow
from loopwright.state.canonical import hash_of
from support.flow_nodes import Turn
from support.flow_steps import steps
from support.flows import World, step

SENT = {"what": 9}
RESULT: dict[str, Any] = {
    "text": "kept",
    "data": None,
    "is_error": False,
    "artifact": {},
    "stored": "",
}


async def after(
    planned, end="finished", *, tool="put", call="w.1.0", place="", saved=True, sent=None,
    hooks=(), **hints,
):  # fmt: skip
    """What `put` was called with, and the step, in a pass that finds this line in the journal."""
    world, args = World(), sent or SENT
    tools = world.tools()
    next(one for one in tools if one.name == "put").metadata = hints
    parts = assemble(tools=tools, hooks=hooks)
    key = CallKey("t", place, "1-a", call, hash_of(args))
    await parts.journal.claim(key, tool=tool, server=None, arguments=args)
    if end == "paused":
        await parts.journal.end(key, "uncertain", {PAUSED: True})
    elif end != "claimed":
        await parts.journal.end(key, end, RESULT)
    todos = [{**one, "changes": True} for one in steps(planned)]
    turn = await Turn(run_flow, parts, saved=saved).enter(
        todos=todos, plan={"global_variables": {"n": 7}}
    )
    return world.done("put"), turn.state["todos"][0]


REFERS = step("w", "put", arguments={"what": "{{global.n}}"})
SAYS_SO = step("w", "put", arguments={"what": 9.0})
AFRESH = step("w", "put", arguments={"what": "{{global.n}}", "refresh": True})


@pytest.mark.req("P-04", "P-06")
@pytest.mark.parametrize("planned", [REFERS, SAYS_SO, AFRESH], ids=["refers", "says so", "afresh"])
async def test_a_write_that_has_ended_is_not_made_again_though_its_input_is_another(planned):
    made, w = await after(planned)
    assert made == []
    assert (w["status"], w["result"]) == ("completed", "kept")


@pytest.mark.req("P-04")
async def test_a_hook_that_changes_arguments_has_no_second_word_on_what_was_sent():
    @hook("BeforeTool")
    def sign(given):
        return {"toolInput": {"what": f"{given['tool_input']['what']}, signed"}}

    made, w = await after(REFERS, sent={"what": "7, signed"}, hooks=[sign])
    assert made == []
    assert (w["status"], w["result"]) == ("completed", "kept")


@pytest.mark.req("P-06")
async def test_one_whose_end_is_not_known_is_asked_about_with_what_was_sent():
    made, w = await after(REFERS, "claimed")
    assert made == []
    assert w["status"] == "pending"


@pytest.mark.parametrize(
    "how", [{"end": "failed"}, {"end": "paused"}, {"idempotentHint": True}], ids=repr
)
async def test_one_that_may_simply_be_made_is_made_with_what_is_known_now(how):
    made, w = await after(REFERS, **how)
    assert made == [7]
    assert w["status"] == "completed"


@pytest.mark.parametrize(
    "other",
    [
        {"planned": step("w", "put", arguments={"what": 8})},
        {"planned": step("w", "put", arguments={"what": ["{{global.n}}"]})},
        {"planned": REFERS, "tool": "send"},
        {"planned": REFERS, "call": "w.2.0"},
        {"planned": REFERS, "call": "v.1.0"},
        {"planned": REFERS, "sent": {"what": 9, "where": "here"}},
        {"planned": REFERS, "place": "outer"},
        {"planned": REFERS, "saved": False},
    ],
    ids=["value", "shape", "tool", "round", "step", "field", "place", "nothing is saved"],
)
async def test_the_line_of_another_call_is_none_of_this_step(other):
    made, w = await after(**other)
    assert len(made) == 1
    assert w["status"] == "completed"

"""One step in one pass: its call is made as often as it may be, and its end says what came."""

import threading
from dataclasses import replace
from typing import Any

import pytest

from loopwright.calls.results import ToolResult
from loopwright.flow.expectations import find_unmet
from loopwright.nodes.flow import flow_pass
from loopwright.nodes.flow.one_step import classify_failure, may_pass
from loopwright.nodes.flow.run_flow import run_flow
from loopwright.state.flow import was_made
from support.flow_nodes import run_node
from support.flow_steps import steps
from support.flows import World, raising, step
from support.scope import call_of

REFUSED = {"status": "cancelled", "reason": "denied"}

TABLE: list[tuple[dict[str, Any], dict[str, Any], str, bool]] = [
    # the call as it ended, what else is known, the failure, whether another try may do better
    (REFUSED, {}, "refused", False),
    ({"status": "cancelled", "reason": "uncertain"}, {}, "uncertain", False),
    ({"status": "cancelled", "reason": "gave_up"}, {}, "uncertain", False),
    ({"ran": False}, {"limit": None}, "tool_not_found", False),
    ({"ran": False}, {"action": "error"}, "bad_arguments", False),
    ({"reason": "uncertain"}, {}, "uncertain", True),
    ({"reason": "uncertain", "seconds": 9.0}, {}, "uncertain", True),
    ({"ran": False}, {"spent": True}, "budget", False),
    ({"ran": False}, {}, "tool_error", True),
    ({}, {"spent": True}, "tool_error", True),
    ({"seconds": 5.0}, {}, "timeout", True),
    ({"seconds": 4.9}, {}, "tool_error", True),
]


@pytest.mark.req("S2-24", "S2-25")
@pytest.mark.parametrize(("record", "known", "failure", "again"), TABLE)
def test_what_a_failed_call_means_for_its_step(record, known, failure, again):
    about: Any = {"end_status": record.get("status", "error"), "seconds": 0.1, "ran": True}
    about |= {key: value for key, value in record.items() if key != "status"}
    made = replace(call_of("1.1.0"), result=ToolResult("no\n good", is_error=True), **about)
    given: dict[str, Any] = {"limit": 5.0, "spent": False} | known
    planned = {"action": given.pop("action", "run")}
    end = classify_failure(made, planned, **given)
    denied = record["reason"] if record.get("status") == "cancelled" else ""
    assert (end["status"], end["failure"], end["feedback"]) == ("failed", failure, "no good")
    assert end["denied"] == denied
    assert may_pass(end) == again


async def ran(planned, world, *others, **more):
    """A pass over one step behind finished ones."""
    todos = [*others, *steps(planned)]
    return await run_node(run_flow, *todos, tools=world.tools(), **more)


@pytest.mark.req("S2-15", "S2-35", "S2-36")
async def test_a_read_that_fails_is_made_again_as_often_as_the_plan_says():
    world = World(x=[raising(ValueError("not now")), lambda: {"n": 1}])
    after = await ran(step("a", arguments={"what": "x"}, retryCount=1), world)
    (a,) = after.state.todos
    assert (a["status"], a["result"], a["failure"]) == ("completed", '{"n": 1}', "")
    assert (a["attempts"], a["rounds"], a["evidence"]) == (2, 2, ["a.2.0"])
    assert [(r["id"], r["status"]) for r in after.state.evidence] == [
        ("a.1.0", "error"), ("a.2.0", "success"),
    ]  # fmt: skip
    assert [e["attempt"] for e in after.of_type("prompt_flow_step_start")] == [1, 2]
    (told,) = after.of_type("prompt_flow_step_result")
    assert (told["success"], told["attempts"]) == (True, 2)


@pytest.mark.req("P-06")
async def test_a_write_is_made_once_however_often_the_plan_would_repeat_it():
    world = World()
    planned = step("a", "put", arguments={"what": 7}, retryCount=3, expect="put == 8")
    after = await ran(planned, world)
    (a,) = after.state.todos
    assert world.done("put") == [7]
    assert (a["status"], a["failure"], a["attempts"]) == ("failed", "unexpected_result", 1)
    assert was_made(a), "what it gave is kept"
    assert '{"put": 7}' in a["feedback"]
    assert "not made again" in a["feedback"]


@pytest.mark.parametrize(
    ("rows", "cases", "elsewhere"),
    [(1, 1, False), (100_000, 1, True), (1, 100, True)],
    ids=["short", "many rows", "many cases"],
)
async def test_a_check_that_may_take_long_does_not_hold_up_the_loop(
    rows, cases, elsewhere, monkeypatch
):
    checked_by = []

    def noting(*given):
        checked_by.append(threading.current_thread())
        return find_unmet(*given)

    monkeypatch.setattr(flow_pass, "find_unmet", noting)
    expect = {"items": {"anyOf": [{"const": number} for number in range(cases)]}}
    after = await ran(step("a", arguments={"what": "x"}, expect=expect), World(x=[0] * rows))
    assert [s["status"] for s in after.state.todos] == ["completed"]
    (thread,) = checked_by
    assert (thread is not threading.current_thread()) == elsewhere


@pytest.mark.req("S2-22")
async def test_a_step_without_what_it_refers_to_is_never_called():
    world = World()
    (found,) = steps(step("a"), done={"a": '{"n": 1}'})
    found["shape"] = "json"
    after = await ran(step("b", arguments={"what": "{{a.name}}"}), world, found)
    b = after.state.todos[1]
    assert (b["status"], b["failure"], b["attempts"]) == ("failed", "missing_input", 0)
    assert "a.name" in b["feedback"]
    assert world.calls == []
    assert after.of_type("prompt_flow_step_start") == []

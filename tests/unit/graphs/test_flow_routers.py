"""The routers of prompt_flow are total, and lead nowhere but onwards."""

from typing import get_args, get_type_hints

import pytest
from hypothesis import given, strategies as st

from loopwright.graphs.prompt_flow import (
    graph,
    route_after_approve,
    route_after_check,
    route_after_finish,
    route_after_intake,
    route_after_plan,
    route_after_recover,
    route_after_run,
)
from loopwright.state.flow import FlowState
from loopwright.state.outcome import Reason

ROUTERS = (
    route_after_intake,
    route_after_plan,
    route_after_check,
    route_after_run,
    route_after_approve,
    route_after_recover,
    route_after_finish,
)
NODES = {*graph.nodes, "__end__"} - {"__start__"}
WAYS = {router: {*get_args(get_type_hints(router)["return"])} for router in ROUTERS}

IDS = ["a", "b", "c"]
flow_steps = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.sampled_from(IDS),
            "status": st.sampled_from(["pending", "completed", "failed", "skipped", "", "odd"]),
            "depends_on": st.lists(st.sampled_from(IDS), max_size=2),
        },
        optional={"optional": st.booleans(), "failure": st.sampled_from(["", "timeout", "odd"])},
    ),
    max_size=4,
)
calls = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.sampled_from(["a.1.0", "b.1.0"]),
            "task": st.sampled_from(IDS),
            "action": st.sampled_from(["allow", "ask", "deny", "error", "odd"]),
            "args": st.sampled_from([{}, {"what": 1}]),
        },
        optional={"read_only": st.booleans(), "doubts": st.integers(0, 2)},
    ),
    max_size=3,
)
decisions = st.dictionaries(
    st.sampled_from(["a.1.0", "a.1.0?", "b.1.0"]),
    st.fixed_dictionaries({"type": st.sampled_from(["approve", "reject", "edit", "odd"])}),
)
fields = st.fixed_dictionaries(
    {
        "todos": flow_steps,
        "calls": calls,
        "decisions": decisions,
        "planning": st.sampled_from(["again", "review", "ready", "", "odd"]),
        "strategy": st.sampled_from(
            ["retry_step", "replan_from_failure", "complete_replan", "give_up", "", "odd"]
        ),
        "outcome": st.sampled_from([None, {"status": "complete"}]),
        "should_continue": st.booleans(),
        "task_completed": st.booleans(),
        "stop_hook_active": st.booleans(),
    }
)
halts = st.sampled_from(get_args(Reason))


@given(fields, st.none() | halts)
def test_every_router_leads_from_any_state_to_a_node_of_the_graph(written, halt):
    state = FlowState(**written, halt=halt)
    before = repr(state)
    for router in ROUTERS:
        assert router(state) in WAYS[router] & NODES
    assert repr(state) == before, "a router decides, it changes nothing"


@given(fields, halts)
def test_a_halted_turn_goes_to_its_end(written, halt):
    state = FlowState(**written, halt=halt)
    for router in (route_after_intake, route_after_plan, route_after_check):
        assert router(state) == "finish"
    assert route_after_recover(state) == "finish"
    assert route_after_run(state) in ("answer_flow", "finish")


@pytest.mark.req("S2-28")
@pytest.mark.parametrize(
    ("strategy", "way"),
    [
        ("retry_step", "run_flow"),
        ("replan_from_failure", "plan_flow"),
        ("complete_replan", "plan_flow"),
        ("give_up", "finish"),
        ("", "finish"),
    ],
)
def test_the_way_of_each_strategy(strategy, way):
    assert route_after_recover(FlowState(strategy=strategy)) == way


def done(**more):
    return {"id": "a", "status": "completed", "depends_on": [], **more}


def test_a_limit_still_brings_an_answer_where_there_are_results_and_a_refusal_does_not():
    assert route_after_run(FlowState(halt="BUDGET", todos=[done()])) == "answer_flow"
    assert route_after_run(FlowState(halt="BUDGET", todos=[done(status="pending")])) == "finish"
    assert route_after_run(FlowState(halt="DENIED", todos=[done()])) == "finish"

"""The routers of an agent's loop are total, and lead nowhere but onwards."""

from random import Random
from typing import get_args, get_type_hints

import pytest
from unit.graphs.test_react_routers import planned

from loopwright.calls.approval import list_undecided
from loopwright.graphs import agent_loop, task_agent
from loopwright.state.agent import WARNED, TaskAgentState, find_reached_limit

LIMITS = ("turns", "seconds", "tokens", "tool_calls", "usd")


def any_state(random):
    keys = [f"react.1.{index}{doubt}" for index in range(4) for doubt in ("", "?")]
    kinds = ["approve", "edit", "reject", "respond"]
    halts = [None, None, None, "MAX_TURNS", "BUDGET", "LOOP_DETECTED", "ABORTED"]
    return TaskAgentState(
        round=random.randint(0, 40),
        limits={name: random.randint(1, 60) for name in LIMITS if random.random() < 0.5},
        spend={"seconds": random.random() * 20, "tool_calls": random.randint(0, 20)},
        should_continue=random.random() < 0.8,
        halt=random.choice(halts),
        report=random.choice([None, None, {"status": "success", "summary": "x"}, {}]),
        nudged=random.random() < 0.3,
        delegations=random.choice([[], [], [planned(random, 9)]]),
        calls=[planned(random, index) for index in range(random.randint(0, 4))],
        decisions={key: {"type": random.choice(kinds)} for key in keys if random.random() < 0.3},
        outcome=random.choice([None, {"status": "complete"}]),
    )


STATES = [any_state(Random(seed)) for seed in range(1_000)]
ROUTERS = {
    router: {*get_args(get_type_hints(router)["return"])}
    for router in (
        task_agent.route_after_intake,
        agent_loop.route_after_turn,
        agent_loop.route_after_approve,
        agent_loop.route_after_calls,
        task_agent.route_after_finish,
    )
}


@pytest.mark.req("S4-01", "S4-06")
def test_routers_of_the_loop_are_total_and_lead_to_nodes():
    nodes = {*task_agent.graph.nodes, "__end__"}
    for router, ways in ROUTERS.items():
        assert ways <= nodes
        for state in STATES:
            assert router(state) in ways


@pytest.mark.req("S4-02", "S4-06", "S4-07")
def test_an_end_is_an_end_a_call_is_never_passed_by_and_no_turn_begins_at_a_limit():
    for state in STATES:
        way = agent_loop.route_after_turn(state)
        if state.halt:
            last = state.halt in WARNED and state.round  # whoever had no turn has nothing to save
            assert way == ("final_warning" if last else "finish")
        elif state.report:
            assert way == "finish"
        elif list_undecided(state.calls, state.decisions):
            assert way in ("approve", "call_tools")
            assert agent_loop.route_after_calls(state) == way
        elif find_reached_limit(state):
            assert way != "agent_turn"


def test_a_phase_with_nothing_to_do_is_not_visited():
    state = TaskAgentState(round=3, limits={"turns": 30, "seconds": 60.0, "tool_calls": 10})
    assert agent_loop.route_to_turn(state) == agent_loop.route_after_turn(state) == "agent_turn"
    assert (
        agent_loop.route_to_turn(TaskAgentState(round=30, limits={"turns": 30})) == "check_limits"
    )

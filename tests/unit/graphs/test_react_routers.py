"""The routers of the ReAct loop are total, and lead nowhere but onwards."""

from random import Random
from typing import get_args, get_type_hints

import pytest
from langchain_core.messages import AIMessage

from loopwright.calls.approval import list_undecided
from loopwright.graphs import react
from loopwright.graphs.build import route_after_approve
from loopwright.graphs.react import (
    route_after_action,
    route_after_calls,
    route_after_finish,
    route_after_intake,
    route_after_thought,
)
from loopwright.state.react import ReactState


def planned(random, index):
    call = {
        "id": f"react.1.{index}",
        "call_id": random.choice(["c0", "c1"]),
        "name": "look",
        "server": None,
        "args": random.choice([{}, {"a": 1}]),
        "action": random.choice(["allow", "ask", "deny", "error"]),
        "reason": "",
        "read_only": random.random() < 0.5,
    }
    doubts = random.choice([None, 0, 1])
    doubt = {"why": "why", "key": "k", "sends": 1, "other": False} if doubts else None
    return call if doubts is None else call | {"doubt": doubt, "doubts": doubts}


def any_state(random):
    keys = [f"react.1.{index}{doubt}" for index in range(4) for doubt in ("", "?")]
    kinds = ["approve", "edit", "reject", "respond"]
    return ReactState(
        messages=[AIMessage("x", id="x")] * random.randint(0, 1),
        phase=random.choice(["idle", "thought", "action", "observation", "unheard of"]),
        iteration=random.randint(0, 200),
        observe=random.choice(["model", "direct", ""]),
        demanded=random.random() < 0.5,
        should_continue=random.random() < 0.7,
        task_completed=random.random() < 0.5,
        halt=random.choice([None, None, None, "MAX_TURNS", "BUDGET", "LOOP_DETECTED"]),
        calls=[planned(random, index) for index in range(random.randint(0, 4))],
        decisions={key: {"type": random.choice(kinds)} for key in keys if random.random() < 0.3},
        denied=random.choice(["", "denied", "uncertain"]),
        strikes=random.randint(0, 3),
        outcome=random.choice([None, {"status": "complete"}]),
    )


STATES = [any_state(Random(seed)) for seed in range(1_000)]
ROUTERS = {
    router: {*get_args(get_type_hints(router)["return"])} & {*react.graph.nodes, "__end__"}
    for router in (
        route_after_intake,
        route_after_thought,
        route_after_action,
        route_after_approve,
        route_after_calls,
        route_after_finish,
    )
}


def test_routers_of_the_react_graph_are_total():
    for state in STATES:
        for router, ways in ROUTERS.items():
            assert router(state) in ways


@pytest.mark.req("S1-03", "S1-04", "S1-20")
def test_a_halted_or_ended_turn_goes_to_its_end_and_an_open_call_is_never_passed_by():
    for state in STATES:
        if state.halt or not state.should_continue:
            assert route_after_thought(state) == route_after_action(state) == "finish"
        if state.halt:
            assert route_after_intake(state) == route_after_calls(state) == "finish"
        elif list_undecided(state.calls, state.decisions):
            assert route_after_calls(state) in ("approve", "call_tools")
            assert route_after_action(state) in ("approve", "call_tools", "finish")


@pytest.mark.req("S1-03", "S1-05")
def test_the_way_through_an_iteration():
    thinking = ReactState(phase="thought", demanded=True)
    assert route_after_thought(thinking) == "action"
    assert route_after_action(thinking) == "thought", "no call, no answer: the budget was spent"
    assert route_after_calls(ReactState()) == "observation"
    assert route_after_calls(ReactState(observe="direct")) == "thought"
    assert route_after_thought(ReactState(should_continue=False)) == "finish"
    assert route_after_finish(ReactState()) == "thought"

"""The graphs as drawn, and the names that users' databases hold."""

import re
from collections.abc import Callable
from typing import get_args, get_type_hints

import pytest

from loopwright.graphs import (
    agent_loop,
    customer_service,
    plan_execute_verify,
    prompt_flow,
    react,
    router,
    task_agent,
    task_execution,
)
from loopwright.state.agent import AgentState, TaskAgentState
from loopwright.state.channels import channels_of
from loopwright.state.flow import FlowState
from loopwright.state.loop import PlanState, TaskState
from loopwright.state.react import ReactState
from support.docs_parts import graphs

GRAPHS = (
    "plan_execute_verify", "task_execution", "react", "prompt_flow", "task_agent", "agent_loop",
    "customer_service", "router",
)  # fmt: skip
FROZEN = (
    "These names are stored in users' databases. A renamed or removed one orphans saved threads: "
    "add a migration to state/loop.py, then run pytest --snapshot-update."
)
ROUTERS: dict[str, dict[str, Callable[..., str]]] = {
    "plan_execute_verify": {
        "intake": plan_execute_verify.route_after_intake,
        "planner": plan_execute_verify.route_after_planner,
        "ask_user": plan_execute_verify.route_after_answer,
        "review_plan": plan_execute_verify.route_after_answer,
        "verifier": plan_execute_verify.route_after_verifier,
        "finish": plan_execute_verify.route_after_finish,
    },
    "react": {
        "intake": react.route_after_intake,
        "thought": react.route_after_thought,
        "action": react.route_after_action,
        "approve": react.route_after_approve,
        "call_tools": react.route_after_calls,
        "finish": react.route_after_finish,
    },
    "prompt_flow": {
        "intake": prompt_flow.route_after_intake,
        "plan_flow": prompt_flow.route_after_plan,
        "check_flow": prompt_flow.route_after_check,
        "review_flow": prompt_flow.route_after_check,
        "run_flow": prompt_flow.route_after_run,
        "approve": prompt_flow.route_after_approve,
        "recover": prompt_flow.route_after_recover,
        "answer_flow": prompt_flow.route_after_answer,
        "finish": prompt_flow.route_after_finish,
    },
    "task_agent": {
        "intake": task_agent.route_after_intake,
        "agent_turn": agent_loop.route_after_turn,
        "approve": agent_loop.route_after_approve,
        "call_tools": agent_loop.route_after_calls,
        "check_loop": agent_loop.route_after_check,
        "check_limits": agent_loop.route_after_limits,
        "delegate": agent_loop.route_to_turn,
        "gather": agent_loop.route_after_gather,
        "finish": task_agent.route_after_finish,
    },
    "agent_loop": {
        "agent_turn": agent_loop.route_after_turn,
        "approve": agent_loop.route_after_approve,
        "call_tools": agent_loop.route_after_calls,
        "check_loop": agent_loop.route_after_check,
        "check_limits": agent_loop.route_after_limits,
        "delegate": agent_loop.route_to_turn,
        "gather": agent_loop.route_after_gather,
    },
    "customer_service": {
        "intake": customer_service.route_after_intake,
        "understand": customer_service.route_after_understand,
        "strategy": customer_service.route_after_strategy,
        "act": customer_service.route_after_act,
        "approve": customer_service.route_after_approve,
        "call_tools": customer_service.route_after_calls,
        "delegate": customer_service.route_after_delegate,
        "check": customer_service.route_after_check,
        "hand_off": customer_service.route_after_hand_off,
        "with_human": customer_service.route_after_human,
        "finish": customer_service.route_after_finish,
    },
    "router": {
        "intake": router.route_after_intake,
        "choose": router.route_to_graph,
        "judge": router.route_after_judge,
        "finish": router.route_after_finish,
    },
    "task_execution": {
        "executor": task_execution.route_after_executor,
        "approve": task_execution.route_after_approve,
        "call_tools": task_execution.route_after_executor,
    },
}


@pytest.mark.parametrize("name", GRAPHS)
def test_the_drawing_is_the_graph(name, snapshot):
    assert graphs()[name].draw_mermaid() == snapshot


@pytest.mark.parametrize("name", GRAPHS)
def test_every_way_a_router_may_go_is_drawn(name):
    drawn = graphs()[name]
    text = drawn.draw_mermaid()
    assert set(ROUTERS[name]) == {edge.source for edge in drawn.edges if edge.conditional}
    for node, route in ROUTERS[name].items():
        ways = set(get_args(get_type_hints(route)["return"]))
        if "finish" not in drawn.nodes and "finish" in ways:  # a sub-agent's loop just ends
            ways = ways - {"finish"} | {"__end__"}
        edges = {edge.target for edge in drawn.edges if edge.source == node and edge.conditional}
        assert edges == ways
        assert all(re.search(rf"\t{node} -\.[^>]*-> {way};", text) for way in ways)


@pytest.mark.parametrize("name", GRAPHS)
def test_every_node_is_on_a_way_from_start_to_end(name):
    edges = {(edge.source, edge.target) for edge in graphs()[name].edges}
    nodes = set(graphs()[name].nodes)
    assert _reached("__start__", edges) == nodes
    assert _reached("__end__", {(target, source) for source, target in edges}) == nodes


def _reached(start, edges):
    reached, front = set(), {start}
    while front:
        reached |= front
        front = {target for source, target in edges if source in front} - reached
    return reached


@pytest.mark.parametrize("name", GRAPHS)
def test_node_names_are_frozen(name, snapshot):
    assert sorted(graphs()[name].nodes) == snapshot, FROZEN


@pytest.mark.parametrize(
    "state", [PlanState, TaskState, ReactState, FlowState, TaskAgentState, AgentState]
)
def test_state_fields_are_frozen(state, snapshot):
    places = channels_of(state).items()
    assert sorted(f"{name} in {channel}" for name, channel in places) == snapshot, FROZEN

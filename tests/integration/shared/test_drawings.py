"""The graphs as drawn, and the names that users' databases hold."""

import pytest

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


@pytest.mark.parametrize("name", GRAPHS)
def test_the_drawing_is_the_graph(name, snapshot):
    assert graphs()[name].draw_mermaid() == snapshot


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

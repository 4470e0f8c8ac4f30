"""Routers are total: whatever is in state, they answer with a node that exists."""

import pytest
from hypothesis import given, settings, strategies as st

from loopwright.graphs.plan_execute_verify import (
    graph,
    route_after_answer,
    route_after_finish,
    route_after_intake,
    route_after_planner,
    route_after_verifier,
)
from loopwright.graphs.task_execution import (
    route_after_approve,
    route_after_calls,
    route_after_executor,
    task_builder,
)
from loopwright.nodes.parts import Parts
from loopwright.state.loop import PlanState, TaskState

TASK_NODES = {*task_builder(Parts()).compile().nodes, "__end__"}

words = st.sampled_from(["again", "ask", "review", "ready", "blocked", "", "unheard of"])
texts = st.lists(st.text(max_size=5), max_size=3)
plan_states = st.builds(
    PlanState,
    planning=words,
    task_completed=st.booleans(),
    should_continue=st.booleans(),
    improvements=texts,
    cycles=st.integers(0, 99),
    planning_rounds=st.integers(0, 99),
    halt=st.sampled_from([None, "BUDGET", "DENIED"]),
    outcome=st.sampled_from([None, {"status": "complete"}]),
)
calls = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.sampled_from(["1.1.0", "1.1.1"]),
            "action": st.sampled_from(["allow", "ask", "deny", "error"]),
        }
    ),
    max_size=3,
)
task_states = st.builds(
    TaskState,
    status=st.sampled_from(["in_progress", "completed", "failed", "skipped", ""]),
    calls=calls,
    decisions=st.dictionaries(st.sampled_from(["1.1.0", "1.1.1"]), st.just({"type": "approve"})),
    round=st.integers(0, 99),
)


@settings(max_examples=1_000, deadline=None)
@given(plan_states)
def test_routers_of_the_plan_graph_are_total(state):
    nodes = set(graph.nodes)
    assert route_after_planner(state) in nodes
    assert route_after_answer(state) in nodes
    assert route_after_verifier(state) in nodes
    assert route_after_intake(state) in nodes
    assert route_after_finish(state) in {*nodes, "__end__"}


@settings(max_examples=1_000, deadline=None)
@given(task_states)
def test_routers_of_the_executor_graph_are_total(state):
    nodes = TASK_NODES
    assert route_after_executor(state) in nodes
    assert route_after_approve(state) in nodes
    assert route_after_calls(state) in nodes


@pytest.mark.req("S0-01", "S0-11")
@pytest.mark.parametrize(
    ("done", "go_on", "improvements", "to"),
    [
        (True, True, [], "finish"),
        (False, True, ["mend"], "planner"),
        (False, False, ["mend"], "finish"),
        (False, True, [], "finish"),
    ],
)
def test_the_verifier_leads_to_the_planner_only_with_improvements(done, go_on, improvements, to):
    state = PlanState(task_completed=done, should_continue=go_on, improvements=improvements)
    assert route_after_verifier(state) == to

"""Routers are total: whatever is in state, they answer with a node that exists."""

from itertools import product

import pytest

from loopwright.graphs.build import route_after_approve
from loopwright.graphs.plan_execute_verify import (
    graph,
    route_after_answer,
    route_after_finish,
    route_after_intake,
    route_after_planner,
    route_after_verifier,
)
from loopwright.graphs.task_execution import (
    route_after_executor,
    task_builder,
)
from loopwright.nodes.parts import Parts
from loopwright.state.loop import PlanState, TaskState

TASK_NODES = {*task_builder(Parts()).compile().nodes, "__end__"}

BOTH = (True, False)
PLANNING = ("again", "ask", "review", "ready", "blocked", "", "unheard of")
HALTS = (None, "BUDGET", "DENIED")
OUTCOMES = (None, {"status": "complete"})
STATUSES = ("in_progress", "completed", "failed", "skipped", "")
IDS = ("1.1.0", "1.1.1")
CALLS = [
    {"id": id_, "action": action} for id_, action in product(IDS, ("allow", "ask", "deny", "error"))
]
MESSAGES = [list(calls) for length in range(4) for calls in product(CALLS, repeat=length)]
DECIDED: tuple[tuple[str, ...], ...] = ((), IDS[:1], IDS[1:], IDS)
DECISIONS = [{id_: {"type": "approve"} for id_ in ids} for ids in DECIDED]


@pytest.mark.parametrize("planning", PLANNING)
def test_routers_of_the_plan_graph_are_total(planning):
    # No router reads `cycles` apart from `planning_rounds`, nor a task's `round`: one number does.
    nodes = set(graph.nodes)
    for done, go_on, mends, halt, outcome, rounds in product(
        BOTH, BOTH, ([], ["mend"]), HALTS, OUTCOMES, (0, 99)
    ):
        state = PlanState(
            planning=planning, task_completed=done, should_continue=go_on, improvements=mends,
            halt=halt, outcome=outcome, cycles=rounds, planning_rounds=rounds,
        )  # fmt: skip
        assert route_after_planner(state) in nodes
        assert route_after_answer(state) in nodes
        assert route_after_verifier(state) in nodes
        assert route_after_intake(state) in nodes
        assert route_after_finish(state) in {*nodes, "__end__"}


@pytest.mark.parametrize("status", STATUSES)
def test_routers_of_the_executor_graph_are_total(status):
    for calls, decisions in product(MESSAGES, DECISIONS):
        state = TaskState(status=status, calls=calls, decisions=decisions)
        assert route_after_executor(state) in TASK_NODES
        assert route_after_approve(state) in TASK_NODES


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

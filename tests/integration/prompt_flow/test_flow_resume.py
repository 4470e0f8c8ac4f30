"""A plan taken up after it ended short, was drained, cancelled or asked: nothing is done twice."""

import threading

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphDrained
from langgraph.runtime import RunControl

from loopwright import Context, open_durability
from loopwright.prompts.prompt import read_json
from support.flows import (
    DOWN,
    THREAD,
    World,
    decide,
    declared,
    ended,
    flow,
    planning,
    said,
    step,
    told_to,
)


def two(*, bad="bad"):
    return flow(
        step("r", arguments={"what": "r"}),
        step("w", "put", arguments={"what": "{{r.of}}"}),
        step("b", "look", ["w"], arguments={"what": bad}),
    )


@pytest.mark.req("S2-30")
@pytest.mark.parametrize(
    ("recovery", "end"),
    [
        ([decide("give_up")], ("failed", "ERROR")),
        ([decide("complete_replan")], ("stuck", "SAME_PLAN")),
    ],
    ids=["failed", "same plan"],
)
def test_a_thread_that_ended_short_plans_again_and_keeps_what_is_finished(recovery, end):
    world = World(bad=DOWN)
    plans = [two(), *([two()] if end[1] == "SAME_PLAN" else []), two(bad="good")]
    model = planning(*plans, recovery=recovery)
    graph = world.graph(model, checkpointer=InMemorySaver(), foreign="allow")
    first = graph.invoke(said(), THREAD)["outcome"]
    assert ended(first) == end
    assert first["resume"]["thread_id"] == "t"
    before = list(world.calls)
    outcome = graph.invoke(None, THREAD)["outcome"]
    assert ended(outcome) == ("complete", "GOAL")
    assert world.calls == [*before, ("look", "good")]
    assert outcome["spend"]["allowance"] == 2
    shown = {s["id"]: s for s in read_json(told_to(model, "flow_planner", -1), "steps")}
    assert (shown["w"]["status"], shown["w"]["result"]) == ("completed", '{"put": "r"}')
    assert "the line is down" in shown["b"]["feedback"]


@pytest.mark.req("P-24")
def test_a_thread_that_ran_out_of_calls_goes_on_with_a_fresh_allowance():
    world = World()
    plan = flow(*(step(f"s{n}", "put", arguments={"what": n}) for n in range(4)))
    model = planning(plan, plan, recovery=[decide("give_up")] * 2)
    graph = world.graph(model, checkpointer=InMemorySaver())
    context = Context(max_tool_calls=2)
    assert ended(graph.invoke(said(), THREAD, context=context)["outcome"]) == ("partial", "BUDGET")
    assert world.done("put") == [0, 1]
    outcome = graph.invoke(None, THREAD, context=context)["outcome"]
    assert ended(outcome) == ("complete", "GOAL")
    assert world.done("put") == [0, 1, 2, 3]
    assert [t["attempts"] for t in outcome["tasks"]] == [1] * 4


def test_a_drain_in_the_middle_fails_nothing_and_repeats_nothing(tmp_path):
    slots, control, done = 3, RunControl(), []

    def work(name: str) -> str:
        """Work."""
        control.request_drain("signal")
        threading.Event().wait(0.05)
        done.append(name)
        return f"{name} done"

    tool = declared(work, readOnlyHint=True)
    plan = flow(
        *(step(n, "work", arguments={"name": n}) for n in "abc"),
        step("d", "put", arguments={"what": "{{a}} {{b}} {{c}}"}),
    )
    world, context = World(), Context(max_parallel_tasks=slots)
    with open_durability(f"sqlite:///{tmp_path / 't.db'}") as durability:
        graph = world.graph(planning(plan), tools=[tool], durability=durability)
        with pytest.raises(GraphDrained):
            graph.invoke(said(), THREAD, context=context, control=control)
        assert len(done) == slots
        assert {s["status"] for s in graph.get_state(THREAD).values["todos"]} == {"pending"}
        outcome = graph.invoke(None, THREAD, context=context, control=RunControl())["outcome"]
    assert ended(outcome) == ("complete", "GOAL")
    assert sorted(done) == ["a", "b", "c"]
    assert world.done("put") == ["a done b done c done"]
    assert [t["attempts"] for t in outcome["tasks"]] == [1] * 4
    assert outcome["spend"]["model_calls"] == 2

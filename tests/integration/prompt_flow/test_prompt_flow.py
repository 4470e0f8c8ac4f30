"""Whole runs of prompt_flow: a scripted model, real tools, the outcome and the world's state."""

import asyncio
import itertools
import json
import threading
from itertools import pairwise

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from loopwright import Context
from loopwright.models.scripted import Slow
from support.flows import (
    THREAD,
    World,
    cited,
    flow,
    look,
    of_type,
    planning,
    roles,
    said,
    step,
    steps_by_id,
)
from support.patience import PATIENCE

KEYS = {
    "status", "reason", "headline", "answer", "tasks", "unmet", "uncertain_calls", "spend",
    "models", "warnings", "result", "resume",
}  # fmt: skip


def diamond():
    return flow(
        step("a", arguments={"what": "a"}),
        step("b", arguments={"what": "b of {{a.of}}"}),
        step("c", arguments={"what": "{{a.n}}"}),
        step("d", "put", arguments={"what": ["{{b.of}}", "{{c}}"]}),
    )


@pytest.mark.req(
    "S2-01", "S2-02", "S2-04", "S2-05", "S2-16", "S2-18", "S2-20", "S2-21", "S2-26", "S2-43"
)
def test_a_plan_is_made_checked_run_and_answered_from():
    world, model = World(), planning(diamond())
    result = world.graph(model, checkpointer=InMemorySaver()).invoke(said(), THREAD)
    outcome = result["outcome"]
    assert set(outcome) == KEYS
    assert (outcome["status"], outcome["reason"], outcome["unmet"]) == ("complete", "GOAL", [])
    assert roles(model) == ["flow_planner", "answerer"]
    assert world.done("look") == ["a", "b of a", 1]
    assert world.done("put") == [["b of a", {"of": 1, "n": 1}]]
    assert outcome["answer"] == result["messages"][-1].text
    assert cited(outcome["answer"]) == ["a", "b", "c", "d"]
    assert [(t["id"], t["status"], t["attempts"]) for t in outcome["tasks"]] == [
        (i, "completed", 1) for i in "abcd"
    ]
    assert outcome["tasks"][0]["evidence"] == ["a.1.0"]
    assert outcome["spend"]["model_calls"] == 2
    assert outcome["spend"]["tool_calls"] == 4
    state = world.graph(model, checkpointer=InMemorySaver())
    assert state.get_state(THREAD).values == {}


@pytest.mark.req("S2-08", "S2-09", "S2-45")
def test_plan_variables_and_metadata():
    world = World()
    plan = flow(
        step("a", arguments={"what": "{{global.city}} in {{global.when.year}}"}),
        globalVariables={"city": "Ulm", "when": {"year": 2026}},
        metadata={"createdBy": "m", "complexity": "low", "estimatedSteps": 1},
    )
    graph = world.graph(planning(plan), checkpointer=InMemorySaver())
    assert graph.invoke(said(), THREAD)["outcome"]["status"] == "complete"
    assert world.done("look") == ["Ulm in 2026"]
    kept = graph.get_state(THREAD).values["work_state"]["plan"]
    assert kept["metadata"]["complexity"] == "low"
    assert kept["plan_id"] == "p"


@pytest.mark.req("S2-11", "S2-12", "P-13")
def test_independent_steps_run_side_by_side_and_nobody_waits_for_a_slow_stranger():
    world = World()
    plan = flow(
        step("a", "slow", arguments={"name": "a", "seconds": 0.05}),
        step("b", "slow", arguments={"name": "b", "seconds": 0.4}),
        step("c", "slow", ["a"], arguments={"name": "c", "seconds": 0.05}),
    )
    assert world.graph(planning(plan)).invoke(said())["outcome"]["status"] == "complete"
    a, b, c = (world.spans[name] for name in "abc")
    assert a[1] <= c[0]
    assert c[1] < b[1], "c did not wait for the slow b"


@pytest.mark.req("S2-12")
def test_no_more_steps_run_at_once_than_are_allowed():
    world = World()
    plan = flow(*(step(f"s{i}", "slow", arguments={"name": f"s{i}"}) for i in range(6)))
    world.graph(planning(plan)).invoke(said(), context=Context(max_parallel_tasks=2))
    times = sorted(
        [(t, 1) for t, _ in world.spans.values()] + [(t, -1) for _, t in world.spans.values()]
    )
    running, most = 0, 0
    for _, change in sorted(times, key=lambda entry: (entry[0], entry[1])):
        running += change
        most = max(most, running)
    assert most == 2


@pytest.mark.req("S2-11", "P-41")
def test_steps_that_change_the_world_keep_the_order_of_the_plan():
    world = World()
    plan = flow(
        step("w1", "put", arguments={"what": 1}),
        step("r", "slow", arguments={"name": "r", "seconds": 0.01}),
        step("w2", "put", arguments={"what": 2}),
        step("w3", "put", arguments={"what": 3}),
    )
    world.graph(planning(plan)).invoke(said())
    spans = [world.spans[f"put {n}"] for n in (1, 2, 3)]
    assert world.done("put") == [1, 2, 3]
    assert all(first[1] <= second[0] for first, second in pairwise(spans))


@pytest.mark.req("S2-17", "S2-34", "S2-35", "S2-36")
def test_a_step_is_told_before_its_call_and_after_its_result():
    started = threading.Event()

    def found():
        assert started.wait(PATIENCE), "the call was made before its step was told"
        return "found"

    plan = flow(step("a", arguments={"what": "a"}))
    graph = World(a=found).graph(planning(plan, plan))
    told = []
    for event in graph.stream(said(), stream_mode="custom"):
        told.append(event)
        if event["type"] == "prompt_flow_step_start":
            started.set()
    start, result = of_type(told, "prompt_flow_step_start", "prompt_flow_step_result")
    assert (start["step_id"], start["description"], start["tool"]) == ("a", "do a", "look")
    assert (result["step_id"], result["success"], result["output"]) == ("a", True, "found")
    assert graph.invoke(said())["outcome"]["status"] == "complete", "without a stream, too"


@pytest.mark.req("S2-45", "S2-20", "P-30")
def test_what_is_put_in_for_a_reference_is_never_expanded_again():
    world = World(a="{{b.secret}} {{global.x}}")
    plan = flow(
        step("a", arguments={"what": "a"}),
        step("b", arguments={"what": "<{{a}}>"}),
        globalVariables={"x": "wrong"},
    )
    world.graph(planning(plan)).invoke(said())
    assert world.done("look")[1] == "<{{b.secret}} {{global.x}}>"


@pytest.mark.req("S2-26")
def test_a_result_too_long_to_show_is_whole_where_it_is_referred_to():
    rows = [{"i": i, "text": "x" * 50} for i in range(200)]
    world = World(rows={"rows": rows})
    plan = flow(
        step("a", arguments={"what": "rows"}), step("b", arguments={"what": "{{a.rows[199].i}}"})
    )
    outcome = world.graph(planning(plan)).invoke(said(), context=Context(result_cap=500))["outcome"]
    assert outcome["status"] == "complete"
    assert world.done("look") == ["rows", 199]
    assert len(steps_by_id(outcome)["a"]["result"]) < 1_000


@pytest.mark.req("S2-44")
async def test_many_runs_of_one_graph_at_once_do_not_mix():
    """Each has its own plan, variables and results, under the same step ids."""
    world, number = World(), itertools.count()

    def planned(messages, offered):
        steps = [look("a", "{{global.n}}"), look("b", "b{{a.of}}", ["a"])]
        return Slow(0.01, flow(*steps, globalVariables={"n": next(number)}))

    graph = world.graph(planning(flow_planner=planned), checkpointer=InMemorySaver())
    threads = [{"configurable": {"thread_id": f"t{n}"}} for n in range(5)]
    results = await asyncio.gather(*(graph.ainvoke(said(), thread) for thread in threads))
    of = [[json.loads(t["result"])["of"] for t in r["outcome"]["tasks"]] for r in results]
    assert sorted(of) == [[n, f"b{n}"] for n in range(5)]
    assert len(world.done("look")) == 10


@pytest.mark.req("S2-44")
def test_a_second_question_on_the_thread_gets_a_plan_of_its_own():
    world, saver = World(), InMemorySaver()
    model = planning(flow(step("a", arguments={"what": 1})), flow(step("a", arguments={"what": 2})))
    graph = world.graph(model, checkpointer=saver)
    graph.invoke(said(), THREAD)
    outcome = graph.invoke(said("And now?"), THREAD)["outcome"]
    assert world.done("look") == [1, 2]
    assert [t["id"] for t in outcome["tasks"]] == ["a"]
    assert outcome["spend"]["model_calls"] == 2

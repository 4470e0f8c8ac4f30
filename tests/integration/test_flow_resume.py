"""A plan taken up after it ended short, was drained, cancelled or asked: nothing is done twice."""

import asyncio
import threading

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphDrained
from langgraph.runtime import RunControl
from langgraph.types import Command, interrupt

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
        ([decide("retry_step"), decide("give_up")], ("failed", "ERROR")),
        ([decide("complete_replan")], ("stuck", "SAME_PLAN")),
    ],
    ids=["failed", "after another try", "same plan"],
)
def test_a_thread_that_ended_short_plans_again_and_keeps_what_is_finished(recovery, end):
    world = World(bad=DOWN)
    plans = [two(), *([two()] if end[1] == "SAME_PLAN" else []), two(bad="good")]
    model = planning(*plans, recovery=recovery)
    graph = world.graph(model, checkpointer=InMemorySaver())
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


def test_what_an_optional_step_left_undone_is_planned_again():
    world = World(bad=[DOWN, DOWN, lambda: "fine"])
    plan = flow(
        step("w", "put", arguments={"what": 1}),
        step("b", arguments={"what": "bad"}, optional=True),
        step("n", arguments={"what": "{{b}}!"}),
    )
    graph = world.graph(planning(plan, plan), checkpointer=InMemorySaver())
    assert ended(graph.invoke(said(), THREAD)["outcome"]) == ("partial", "GOAL")
    assert ended(graph.invoke(None, THREAD)["outcome"]) == ("complete", "GOAL")
    assert world.done("put") == [1]
    assert world.done("look") == ["bad", "bad", "bad", "fine!"]


@pytest.mark.req("P-04")
def test_a_tool_may_ask_a_question_of_its_own(tmp_path):
    world, begun, finished = World(), [], []

    def pick(of: str) -> str:
        """Let somebody pick."""
        begun.append(of)
        answer = interrupt({"which": of})
        finished.append(answer)
        return f"picked {answer}"

    plan = flow(
        step("r", arguments={"what": "r"}),
        step("p", "pick", arguments={"of": "{{r.of}}"}),
        step("w", "put", arguments={"what": "{{p}}"}),
        step("side", "slow", arguments={"name": "side"}),
    )
    with open_durability(f"sqlite:///{tmp_path / 't.db'}") as durability:
        graph = world.graph(planning(plan), tools=[pick], durability=durability)
        (question,) = graph.invoke(said(), THREAD)["__interrupt__"]
        assert question.value == {"which": "r"}
        assert world.done("slow") == ["side"], "its siblings are not cut off"
        assert world.done("put") == []
        outcome = graph.invoke(Command(resume={question.id: "the red one"}), THREAD)["outcome"]
    assert ended(outcome) == ("complete", "GOAL")
    assert (begun, finished) == (["r", "r"], ["the red one"])
    assert world.done("put") == ["picked the red one"]
    assert world.done("look") == ["r"]
    assert world.done("slow") == ["side"]


@pytest.mark.parametrize("hints", [{}, {"readOnlyHint": True}], ids=["write", "read"])
def test_tools_that_ask_side_by_side_get_their_own_answers_beside_approvals(hints):
    world, picked = World(), []

    def pick(of: str) -> str:
        """Let somebody pick."""
        answer = interrupt({"which": of})
        picked.append((of, answer))
        return f"picked {answer}"

    plan = flow(
        step("p", "pick", arguments={"of": "1"}),
        step("q", "pick", arguments={"of": "2"}),
        step("w", "put", arguments={"what": "{{p}}, {{q}}"}),
    )
    graph = world.graph(
        planning(plan), tools=[declared(pick, **hints)], checkpointer=InMemorySaver(),
        policy=[{"tool": "put", "action": "ask"}],
    )  # fmt: skip
    result, questions = graph.invoke(said(), THREAD), []
    while "__interrupt__" in result:
        question = result["__interrupt__"][-1]
        questions.append(question.value.get("which") or question.value["task"])
        own = f"number {question.value['which']}" if "which" in question.value else "approve"
        result = graph.invoke(Command(resume={question.id: own}), THREAD)
    assert ended(result["outcome"]) == ("complete", "GOAL")
    assert (sorted(questions[:2]), questions[2:]) == (["1", "2"], ["w"])
    assert sorted(picked) == [("1", "number 1"), ("2", "number 2")]
    assert world.done("put") == ["picked number 1, picked number 2"]


@pytest.mark.parametrize("slots", [1, 3])
def test_a_drain_in_the_middle_fails_nothing_and_repeats_nothing(slots, tmp_path):
    control, done = RunControl(), []

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


@pytest.mark.req("P-06", "P-26")
async def test_a_cancelled_run_goes_on_and_asks_about_the_write_it_cut_off(tmp_path):
    reached, done = asyncio.Event(), []

    async def pay(amount: int) -> str:
        """Pay."""
        done.append(amount)
        if not reached.is_set():
            reached.set()
            await asyncio.sleep(30)
        return "paid"

    plan = flow(
        step("r", arguments={"what": "r"}), step("p", "pay", ["r"], arguments={"amount": 3})
    )
    world = World()
    with open_durability(f"sqlite:///{tmp_path / 't.db'}") as durability:
        graph = world.graph(planning(plan), tools=[pay], durability=durability)
        run = asyncio.create_task(graph.ainvoke(said(), THREAD))
        await reached.wait()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        (question,) = (await graph.ainvoke(None, THREAD))["__interrupt__"]
        assert question.value["type"] == "uncertain_call"
        outcome = (await graph.ainvoke(Command(resume="respond: it was paid"), THREAD))["outcome"]
    assert ended(outcome) == ("complete", "GOAL")
    assert (done, world.done("look")) == ([3], ["r"])

"""kill -9 anywhere in a plan, a drain, a new message, a second resume: what is done stays done."""

import asyncio
import threading
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphDrained
from langgraph.runtime import RunControl
from langgraph.types import Command, interrupt

from loopwright import Context, ThreadBusy, open_durability
from loopwright.prompts.sections import read_json
from loopwright.state.references import renamed
from support import flow_killed, killed
from support.flows import (
    THREAD,
    World,
    cited,
    decide,
    declared,
    flow,
    planning,
    raising,
    said,
    step,
    steps_by_id,
)

SAVE, NOTE = (f"save {text}" for text in flow_killed.SAVED.values())
NODES: list[dict[str, Any]] = [
    {"node": "intake"}, {"node": "plan_flow"}, {"node": "check_flow"}, {"node": "review_flow"},
    {"node": "run_flow"}, {"node": "approve"}, {"node": "answer_flow"}, {"node": "finish"},
]  # fmt: skip
PLACES: list[dict[str, Any]] = [
    *NODES,
    *({**place, "at": "end"} for place in NODES),
    {"node": "run_flow", "nth": 2}, {"node": "run_flow", "nth": 2, "at": "end"},
    {"tool": "owner"}, {"tool": "price", "recorded": 1}, {"tool": "year"}, {"tool": SAVE},
    {"tool": NOTE}, {"model": "flow_planner"}, {"model": "answerer"},
]  # fmt: skip
LEFT_OUT = {"seconds", "spend"}


def name_of(place):
    return "-".join(str(value) for value in place.values())


def timeless(value):
    """Without what a clock changes."""
    if isinstance(value, dict):
        return {k: timeless(v) for k, v in value.items() if k not in LEFT_OUT}
    return [timeless(one) for one in value] if isinstance(value, list) else value


def told(result):
    """A result without the order in which evidence came, and what a clock changes."""
    bare = timeless(result)
    bare["values"]["evidence"].sort(key=lambda record: record["id"])
    return bare


def lines(world, book):
    return [line for _, line in world.lines(book)]


def ended(outcome):
    return outcome["status"], outcome["reason"]


@pytest.fixture(scope="module")
def unkilled(tmp_path_factory):
    folder = tmp_path_factory.mktemp("unkilled") / "run"
    result = flow_killed.end(folder)
    return result, killed.World(folder)


def test_a_run_that_nobody_kills(unkilled):
    result, world = unkilled
    assert ended(result["outcome"]) == ("complete", "GOAL")
    assert sorted(lines(world, "calls")) == sorted(["owner", "price", "year", SAVE, NOTE])
    assert lines(world, "questions") == ["review_flow", SAVE, NOTE]
    assert lines(world, "asks") == ["flow_planner", "answerer"]


@pytest.mark.req("P-04", "P-06")
@pytest.mark.parametrize("place", PLACES, ids=name_of)
def test_a_killed_plan_goes_on_in_a_new_process_and_ends_as_if_nothing_had_happened(
    place, unkilled, tmp_path
):
    world = flow_killed.die(tmp_path / "run", place)
    finished = ends_recorded(world)
    result = flow_killed.end(tmp_path / "run")
    assert told(result) == told(unkilled[0])
    calls = lines(world, "calls")
    assert {*calls} == {*lines(unkilled[1], "calls")}
    again = {name for name in calls if calls.count(name) > 1}
    assert not again & finished, "a finished step did not run again"
    assert again <= {place.get("tool"), "price", "owner"}
    questions = lines(world, "questions")
    assert {q for q in questions if q.startswith("uncertain")} == (
        {f"uncertain {place['tool']}"} if place.get("tool") in (SAVE, NOTE) else set()
    )
    assert all(calls.count(name) == 1 for name in (SAVE, NOTE) if name != place.get("tool"))
    assert lines(world, "asks").count("flow_planner") <= 2
    assert lines(world, "asks").count("answerer") <= 2


def ends_recorded(world):
    """The calls of the steps whose end is in the database."""
    if not (world.folder / "threads.db").exists():
        return set()
    with open_durability(world.url) as durability:
        saved = durability.checkpointer.get_tuple(
            {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
        )
        if saved is None:
            return set()
        graph = flow_killed.graph_of(world, {}, durability)
        todos = graph.get_state(THREAD).values.get("todos", [])
    ends = [v["step"] for _, c, v in saved.pending_writes if c == "__return__" and "step" in v]
    done = {s["id"] for s in [*ends, *todos] if s["status"] == "completed"}
    return {f"save {flow_killed.SAVED[i]}" if i in flow_killed.SAVED else i for i in done}


@pytest.mark.req("P-04")
def test_killed_again_and_again(unkilled, tmp_path):
    folder = tmp_path / "run"
    places: list[dict[str, Any]] = [
        {"node": "check_flow"}, {"tool": "price", "recorded": 1}, {"tool": SAVE}, {"tool": "year"},
        {"node": "finish"},
    ]  # fmt: skip
    for place in places:
        world = flow_killed.die(folder, place)
    assert told(flow_killed.end(folder)) == told(unkilled[0])
    calls = lines(world, "calls")
    assert calls.count(NOTE) == 1
    assert calls.count(SAVE) == 2, "in doubt, and once more because a human said so"
    assert calls.count("owner") == 1


@pytest.mark.req("P-04", "S2-29")
@pytest.mark.parametrize(
    "place",
    [{"node": "recover"}, {"node": "recover", "at": "end"}, {"model": "recovery"}],
    ids=name_of,
)
def test_killed_while_a_failure_is_repaired(place, tmp_path):
    world = flow_killed.die(tmp_path, {**place, "fails": "year"})
    outcome = flow_killed.end(tmp_path)["outcome"]
    assert ended(outcome) == ("complete", "GOAL")
    calls = lines(world, "calls")
    assert {name: calls.count(name) for name in calls} == {
        "owner": 1, "price": 1, SAVE: 1, "year": 2, NOTE: 1,
    }  # fmt: skip
    assert steps_by_id(outcome)["year"]["attempts"] == 2
    assert lines(world, "asks").count("recovery") <= 2


@pytest.mark.req("P-06", "P-37")
@pytest.mark.parametrize(
    ("answer", "saved", "end"),
    [
        ("approve", 2, ("complete", "GOAL")),
        ("respond: it was saved", 1, ("complete", "GOAL")),
        ("reject: look at it tomorrow", 1, ("blocked", "DENIED")),
    ],
)
def test_a_write_step_cut_off_by_a_crash_is_asked_about(answer, saved, end, tmp_path):
    world = flow_killed.die(tmp_path / "run", {"tool": SAVE})
    with open_durability(world.url) as durability:
        graph = flow_killed.graph_of(world, {}, durability, policy="allow")
        (question,) = graph.invoke(None, THREAD)["__interrupt__"]
        assert question.value["type"] == "uncertain_call"
        assert "may have run already" in question.value["description"]
        assert lines(world, "calls").count(SAVE) == 1
        outcome = graph.invoke(Command(resume=answer), THREAD)["outcome"]
    assert ended(outcome) == end
    calls = lines(world, "calls")
    assert calls.count(SAVE) == saved
    assert calls.count("owner") == calls.count("price") == 1
    assert calls.count(NOTE) == (1 if end[0] == "complete" else 0)
    assert outcome["uncertain_calls"] == []


@pytest.mark.req("P-06")
def test_with_nobody_to_ask_a_write_in_doubt_blocks_the_run_and_is_settled_later(tmp_path):
    world = flow_killed.die(tmp_path / "run", {"tool": SAVE})
    with open_durability(world.url) as durability:
        graph = flow_killed.graph_of(world, {}, durability, policy="allow")
        outcome = graph.invoke(None, THREAD, context=Context(interactive=False))["outcome"]
        assert ended(outcome) == ("blocked", "NOT_INTERACTIVE")
        (in_doubt,) = outcome["uncertain_calls"]
        assert (in_doubt["task"], in_doubt["tool"]) == ("save", "save")
        assert lines(world, "calls").count(SAVE) == 1
        (question,) = graph.invoke(None, THREAD)["__interrupt__"]
        assert question.value["type"] == "uncertain_call"
        outcome = graph.invoke(Command(resume="respond: it was saved"), THREAD)["outcome"]
    assert ended(outcome) == ("complete", "GOAL")
    assert outcome["uncertain_calls"] == []
    assert lines(world, "calls").count(SAVE) == 1
    assert lines(world, "calls").count("owner") == 1


def planned_with(**ids):
    """The plan of the process with other ids for these steps."""
    return flow(
        *(
            {
                **planned,
                "id": ids.get(planned["id"], planned["id"]),
                "dependencies": [ids.get(i, i) for i in planned["dependencies"]],
                "arguments": renamed(planned["arguments"], ids),
            }
            for planned in flow_killed.PLAN["steps"]
        )
    )


def shown_to_planner(model):
    asked = next(a for a in model.asked if a.role == "flow_planner")
    human = next(m.text for m in asked.messages if m.type == "human")
    return {one["id"]: one for one in read_json(human, "steps")}


@pytest.mark.req("P-04", "P-06", "S2-30")
@pytest.mark.parametrize("ids", [{}, {"save": "keep", "price": "cost"}], ids=["same", "other ids"])
def test_a_new_message_after_a_crash_keeps_what_is_finished(ids, tmp_path):
    world = flow_killed.die(tmp_path / "run", {"tool": "year"})
    model = flow_killed.model_of(world, {}, planned_with(**ids))
    with open_durability(world.url) as durability:
        graph = flow_killed.graph_of(world, {}, durability, model=model, policy="allow")
        result = graph.invoke(said("Please go on."), THREAD)
    assert ended(result["outcome"]) == ("complete", "GOAL")
    calls = lines(world, "calls")
    assert calls.count(SAVE) == calls.count("owner") == calls.count("price") == 1
    assert calls.count("year") == 2, "the read that was cut off"
    assert calls.count(NOTE) == 1
    shown = shown_to_planner(model)
    assert shown["save"]["status"] == "completed"
    assert shown["year"]["status"] == "pending"


@pytest.mark.req("P-06")
@pytest.mark.parametrize("ids", [{}, {"save": "keep"}], ids=["same", "other id"])
def test_a_new_message_does_not_make_a_write_in_doubt_again_unasked(ids, tmp_path):
    world = flow_killed.die(tmp_path / "run", {"tool": SAVE})
    model = flow_killed.model_of(world, {}, planned_with(**ids))
    with open_durability(world.url) as durability:
        graph = flow_killed.graph_of(world, {}, durability, model=model, policy="allow")
        (question,) = graph.invoke(said("Please go on."), THREAD)["__interrupt__"]
        assert question.value["type"] == "uncertain_call"
        assert lines(world, "calls").count(SAVE) == 1
        outcome = graph.invoke(Command(resume="respond: it was saved"), THREAD)["outcome"]
    assert ended(outcome) == ("complete", "GOAL")
    calls = lines(world, "calls")
    assert calls.count(SAVE) == calls.count("owner") == calls.count("price") == 1
    assert "may have taken effect" in shown_to_planner(model)["save"]["feedback"]


DOWN = raising(ValueError("the line is down"))


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
        ([decide("retry_step")], ("stuck", "SAME_BLOCKERS")),
        ([decide("complete_replan")], ("stuck", "SAME_PLAN")),
    ],
    ids=["failed", "same failure", "same plan"],
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
    asked = [a for a in model.asked if a.role == "flow_planner"][-1]
    shown = {s["id"]: s for s in read_json(asked.messages[-1].text, "steps")}
    assert (shown["w"]["status"], shown["w"]["result"]) == ("completed", '{"put": "r"}')
    assert "the line is down" in shown["b"]["feedback"]


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
    world = World(bad=[DOWN, lambda: "fine"])
    plan = flow(
        step("w", "put", arguments={"what": 1}),
        step("b", arguments={"what": "bad"}, optional=True),
        step("n", arguments={"what": "{{b}}!"}),
    )
    graph = world.graph(planning(plan, plan), checkpointer=InMemorySaver())
    assert ended(graph.invoke(said(), THREAD)["outcome"]) == ("partial", "GOAL")
    assert ended(graph.invoke(None, THREAD)["outcome"]) == ("complete", "GOAL")
    assert world.done("put") == [1]
    assert world.done("look") == ["bad", "bad", "fine!"]


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


@pytest.mark.req("P-34")
async def test_two_resumes_at_once_pay_once(tmp_path):
    begun, go_on, paid = threading.Event(), threading.Event(), []

    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        begun.set()
        assert go_on.wait(30)
        return "paid"

    plan = flow(step("p", "pay", arguments={"amount": 3}))
    policy = [{"tool": "pay", "action": "ask"}]
    approve: Command[Any] = Command(resume="approve")

    async def resume(run):
        try:
            return await run
        except ThreadBusy as error:
            go_on.set()
            return error

    with open_durability(f"sqlite:///{tmp_path / 't.db'}") as durability:
        graph = World().graph(planning(plan), tools=[pay], policy=policy, durability=durability)
        assert "__interrupt__" in await graph.ainvoke(said(), THREAD)
        results = await asyncio.gather(
            resume(graph.ainvoke(approve, THREAD)),
            resume(asyncio.to_thread(graph.invoke, approve, THREAD)),
        )
    (ended_well,) = [r for r in results if not isinstance(r, ThreadBusy)]
    assert ended(ended_well["outcome"]) == ("complete", "GOAL")
    assert paid == [3]


DOORS = ["invoke", "ainvoke", "stream", "astream", "batch", "abatch"]


@pytest.mark.parametrize("door", DOORS)
async def test_the_same_plan_runs_through_every_door_and_its_question_can_be_answered(door):
    world = World()
    plan = flow(
        step("r", arguments={"what": "r"}), step("w", "put", arguments={"what": "{{r.of}}"})
    )
    policy = [{"tool": "put", "action": "ask"}]
    graph = world.graph(planning(plan), policy=policy, checkpointer=InMemorySaver())
    await through(door, graph, said())
    assert len((await graph.aget_state(THREAD)).interrupts) == 1
    result = await through(door, graph, Command(resume="approve"))
    assert ended(result["outcome"]) == ("complete", "GOAL")
    assert cited(result["outcome"]["answer"]) == ["r", "w"]
    assert world.calls == [("look", "r"), ("put", "r")]


async def through(door, graph, given):
    """Run the graph by one of its methods; the sync ones in a thread of their own."""
    if door == "astream":
        return [chunk async for chunk in graph.astream(given, THREAD, stream_mode="values")][-1]
    if door == "stream":
        run = graph.stream
        chunks = await asyncio.to_thread(lambda: [*run(given, THREAD, stream_mode="values")])
        return chunks[-1]
    many = door.endswith("batch")
    arguments = ([given], [THREAD]) if many else (given, THREAD)
    method = getattr(graph, door)
    result = (
        await method(*arguments)
        if door.startswith("a")
        else await asyncio.to_thread(method, *arguments)
    )
    return result[0] if many else result


async def test_a_batch_of_threads_runs_side_by_side_and_none_sees_another():
    world = World()
    plan = flow(
        step("a", arguments={"what": "a"}), step("b", "put", arguments={"what": "{{a.of}}"})
    )
    graph = world.graph(planning(*[plan] * 5), checkpointer=InMemorySaver())
    threads = [{"configurable": {"thread_id": str(n)}} for n in range(5)]
    results = await graph.abatch([said()] * 5, threads)
    assert [ended(r["outcome"]) for r in results] == [("complete", "GOAL")] * 5
    assert len(world.done("put")) == 5


@pytest.mark.req("P-46")
def test_state_is_json_and_messages_also_where_nothing_else_may_be_read_back(tmp_path):
    """A whole run with a review, approvals and a crash, read back under strict rules."""
    flow_killed.die(tmp_path, {"tool": SAVE})
    killed.run_strictly("flow_killed", tmp_path)

"""kill -9 anywhere in a plan: another process goes on, and what is done stays done."""

from typing import Any

import pytest
from langgraph.types import Command

from loopwright import open_durability
from loopwright.flow.references import rename_steps
from loopwright.prompts.prompt import read_json
from support import flow_killed, killed
from support.flows import THREAD, ended, flow, said, steps_by_id, told_to

SAVE, NOTE = (f"save {text}" for text in flow_killed.SAVED.values())
READS = {"owner", "price", "year"}


NODES: list[dict[str, Any]] = [
    {"node": "intake"}, {"node": "plan_flow"}, {"node": "check_flow"}, {"node": "review_flow"},
    {"node": "run_flow"}, {"node": "approve"}, {"node": "answer_flow"}, {"node": "finish"},
]  # fmt: skip


PLACES: list[dict[str, Any]] = [
    *NODES,
    {"node": "run_flow", "at": "end"}, {"node": "answer_flow", "at": "end"},
    {"node": "run_flow", "nth": 2}, {"tool": "price", "recorded": 1}, {"tool": SAVE},
    {"model": "answerer"},
]  # fmt: skip


LEFT_OUT = {"seconds", "spend", "call_id"}


def name_of(place):
    return "-".join(str(value) for value in place.values())


def timeless(value):
    """Without what a clock changes, or the name of the turn."""
    if isinstance(value, dict):
        return {k: timeless(v) for k, v in value.items() if k not in LEFT_OUT}
    return [timeless(one) for one in value] if isinstance(value, list) else value


def told(result):
    """A result without the order in which evidence came, what a clock changes, and names."""
    bare = timeless(result)
    bare["values"]["plan"].pop("revision")
    for step in bare["values"]["todos"]:
        for one in (step, *step["items"]):
            one.pop("claims")
    bare["values"]["evidence"].sort(key=lambda record: record["id"])
    return bare


def lines(world, book):
    return [line for _, line in world.lines(book)]


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
    assert again <= {place.get("tool"), *READS}, "a read may: its end was not saved yet"
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


ADA, EURO, LAST = "save Ada", "save 7 euro", "save saved 1843"
OF_ITEMS: list[dict[str, Any]] = [
    {"tool": "price", "recorded": 1}, {"tool": ADA, "time": 2}, {"tool": LAST},
    {"node": "run_flow", "nth": 3, "at": "end"}, {"node": "approve"},
]  # fmt: skip


@pytest.fixture(scope="module")
def unkilled_items(tmp_path_factory):
    folder = tmp_path_factory.mktemp("items") / "run"
    result = flow_killed.end(folder, "each")
    return result, killed.World(folder)


@pytest.mark.req("P-04", "P-06")
@pytest.mark.parametrize("place", OF_ITEMS, ids=name_of)
def test_a_plan_killed_between_the_items_of_a_step_calls_only_those_that_are_missing(
    place, unkilled_items, tmp_path
):
    whole, usual = unkilled_items
    world = flow_killed.die(tmp_path / "run", {**place, "plan": "each"})
    known = items_recorded(world)
    result = flow_killed.end(tmp_path / "run", "each")
    assert ended(result["outcome"]) == ("complete", "GOAL")
    assert told(result) == told(whole)
    calls, once = lines(world, "calls"), lines(usual, "calls")
    assert once.count(ADA) == 2, "equal items are calls of their own"
    assert set(calls) == set(once)
    for name in (ADA, EURO, LAST):
        assert calls.count(name) == once.count(name) + (name == place.get("tool")), calls
    assert all(calls.count(name) == 1 for name in known & READS), "what is saved is not read again"
    doubts = [q for q in lines(world, "questions") if q.startswith("uncertain")]
    doubtful = place.get("tool", "").startswith("save")
    assert doubts == ([f"uncertain {place['tool']}"] if doubtful else [])


def items_recorded(world):
    """What was read for items whose ends are in the database."""
    facts = dict(enumerate(["owner", "price", "year"]))
    with open_durability(world.url) as durability:
        saved = durability.checkpointer.get_tuple(
            {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
        )
    ends = [v["step"] for _, c, v in saved.pending_writes if c == "__return__" and "step" in v]
    done = {step["id"] for step in ends if step["status"] == "completed"}
    return {fact for place, fact in facts.items() if f"reads[{place}]" in done}


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
    [{"node": "recover", "at": "end"}, {"model": "recovery"}],
    ids=name_of,
)
def test_killed_while_a_failure_is_repaired(place, tmp_path):
    world = flow_killed.die(tmp_path, {**place, "fails": "year"})
    outcome = flow_killed.end(tmp_path)["outcome"]
    assert ended(outcome) == ("complete", "GOAL")
    calls = lines(world, "calls")
    assert {name: calls.count(name) for name in calls} == {
        "owner": 1, "price": 1, SAVE: 1, "year": 3, NOTE: 1,
    }  # fmt: skip
    assert steps_by_id(outcome)["year"]["attempts"] == 3
    assert lines(world, "asks").count("recovery") <= 2


@pytest.mark.req("P-06")
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


def planned_with(**ids):
    """The plan of the process with other ids for these steps."""
    return flow(
        *(
            {
                **planned,
                "id": ids.get(planned["id"], planned["id"]),
                "dependencies": [ids.get(i, i) for i in planned["dependencies"]],
                "arguments": rename_steps(planned["arguments"], ids),
            }
            for planned in flow_killed.PLAN["steps"]
        )
    )


def shown_to_planner(model):
    return {one["id"]: one for one in read_json(told_to(model, "flow_planner"), "steps")}


@pytest.mark.req("P-04", "P-06", "S2-30")
def test_a_new_message_after_a_crash_keeps_what_is_finished(tmp_path):
    world = flow_killed.die(tmp_path / "run", {"tool": "year"})
    model = flow_killed.model_of(world, {}, planned_with(save="keep", price="cost"))
    with open_durability(world.url) as durability:
        graph = flow_killed.graph_of(world, {}, durability, model=model, policy="allow")
        result = graph.invoke(said("Please go on."), THREAD)
    assert ended(result["outcome"]) == ("complete", "GOAL")
    calls = lines(world, "calls")
    assert calls.count(SAVE) == calls.count("owner") == calls.count("price") == 1
    assert calls.count("year") == 2, "the read that was cut off"
    assert calls.count(NOTE) == 1
    shown = shown_to_planner(model)
    known = shown["save"]["status"] == "completed" or "save" in shown["save"]["feedback"]
    assert known, "its end was saved, or the journal tells of its call"
    assert shown["year"]["status"] == "pending"


@pytest.mark.req("P-06")
def test_a_new_message_does_not_make_a_write_in_doubt_again_unasked(tmp_path):
    world = flow_killed.die(tmp_path / "run", {"tool": SAVE})
    model = flow_killed.model_of(world, {}, planned_with(save="keep"))
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

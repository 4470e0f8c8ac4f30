"""Steps with a condition: run, skipped, or failed because nobody can know."""

import pytest

from support.flows import (
    ASK,
    THREAD,
    World,
    answer,
    asked,
    asking,
    decide,
    ended,
    flow,
    look,
    planning,
    put,
    roles,
    said,
    steps_by_id,
    told_to,
)

pytestmark = pytest.mark.req("W-03")

FEW, MANY = {"n": 1, "rows": [], "text": "7"}, {"n": 9, "rows": [{"ok": True}], "text": "x"}


def run(*steps, **more):
    world, model = World(few=FEW, many=MANY), planning(flow(*steps, **more))
    return world, model, world.graph(model).invoke(said())["outcome"]


@pytest.mark.parametrize(
    ("when", "runs"),
    [
        ("m.n > 5", True),
        ("m.n > 5 and f.n > 5", False),
        ("f.rows is empty and length(m.rows) == 1", True),
        ("m.rows[0].ok == true", True),
        ("m.gone exists", False),
        ("f.text == 7", True),
        ("global.limit >= 5", True),
    ],
)
def test_a_step_runs_only_where_its_condition_holds(when, runs):
    world, model, outcome = run(
        look("f", "few"), look("m", "many"), put("w", "sent", when=when),
        put("uses", "{{w.put}}!"), put("follows", "after", ["w"]), globalVariables={"limit": 5},
    )  # fmt: skip
    assert ended(outcome) == ("complete", "GOAL"), outcome
    assert world.done("put") == (["sent", "sent!", "after"] if runs else ["after"])
    steps = steps_by_id(outcome)
    status = "completed" if runs else "skipped"
    assert [steps[i]["status"] for i in ("w", "uses", "follows")] == [status, status, "completed"]
    assert outcome["unmet"] == []
    assert roles(model) == ["flow_planner", "answerer"]


ODD = {"none": None, "flag": True, "nan": float("nan"), "word": "many"} | MANY


@pytest.mark.req("W-108")
@pytest.mark.parametrize(
    "when",
    [
        "m.rows > 0", "m.word > 5", "m.none > 0", "m.flag > 0", "m.nan > 0", "length(m.n) > 0",
        "m.rows == 1", "m.n contains 9", "global.word < 5", "m.gone > 1",
        "m.rows > 0 and m.n > 5", "m.n > 5 and m.rows > 0",
    ],
)  # fmt: skip
def test_what_cannot_be_told_fails_the_step_with_the_reason(when):
    """One call of a model may choose what follows; the write is neither made nor left out."""
    world = World(many=ODD)
    step = put("w", "sent", when=when)
    plans = [flow(look("m", "many"), step, globalVariables={"word": "many"})] * 2
    model = planning(*plans, recovery=[decide("give_up")])
    outcome = world.graph(model).invoke(said())["outcome"]
    assert ended(outcome) == ("failed", "ERROR"), outcome
    assert (steps_by_id(outcome)["w"]["status"], world.done("put")) == ("failed", [])
    told = told_to(model, "recovery")
    assert "retry_step" not in told.partition("<strategies>")[2]
    odd = when.removeprefix("m.n > 5 and ").removesuffix(" and m.n > 5")
    assert any(f"cannot be told whether {odd!r} holds: " in why for why in outcome["unmet"])


@pytest.mark.req("W-108")
def test_one_part_that_does_not_hold_decides_whatever_the_others_come_to():
    for when in ("m.rows > 0 and m.n > 9", "m.n > 9 and m.rows > 0", "m.gone > 1 and m.n > 9"):
        world, _, outcome = run(look("m", "many"), put("w", "sent", when=when))
        assert ended(outcome) == ("complete", "GOAL")
        assert (steps_by_id(outcome)["w"]["status"], world.done("put")) == ("skipped", [])
    world, _, outcome = run(look("m", "many"), put("w", "no", when="m.rows > 0", optional=True))
    assert (ended(outcome)[0], world.done("put")) == ("partial", [])


def test_a_condition_on_a_skipped_step_skips_and_one_on_a_lost_optional_step_is_told():
    world, _, outcome = run(
        look("f", "few"), look("g", "many", when="f.n > 5"), put("w", "sent", when="g.n > 5"),
    )  # fmt: skip
    assert ended(outcome) == ("complete", "GOAL")
    assert world.done("put") == []
    world, _, outcome = run(
        look("f", "few"), look("o", "many", optional=True, when="f.gone > 5"),
        put("w", "sent", when="o.n > 5"),
    )  # fmt: skip
    assert ended(outcome)[0] == "partial"
    assert world.done("put") == []
    assert any("optional" in text for text in outcome["unmet"])


def test_a_plan_of_which_every_step_is_skipped_is_done():
    world, _, outcome = run(put("w", "sent", when="global.send == true"),
                            globalVariables={"send": False})  # fmt: skip
    assert (outcome["status"], world.calls) == ("complete", [])


def test_nobody_is_asked_about_a_step_that_is_skipped_and_a_resume_skips_it_again():
    world = World(few=FEW)
    steps = [look("f", "few"), put("no", "no", when="f.n > 5"), put("yes", "yes", when="f.n < 5")]
    graph = asking(world, planning(flow(*steps)), ASK)
    question = asked(graph.invoke(said(), THREAD))
    assert question["task"] == "yes"
    outcome = answer(graph)["outcome"]
    assert ended(outcome) == ("complete", "GOAL")
    assert world.done("put") == ["yes"]

"""Long plans with long results: what models are shown stays bounded, and no call is shown cut."""

import pytest

from loopwright import Context
from loopwright.prompts.prompt import read_json
from support.flows import DOWN, REPLAN, World, ended, flow, look, planning, said, step, told_to

STEPS = 900
RESULT = "x" * 3_000
WISH = "y" * 1_200
LATER = [look(f"late{n}", f"{{{{bad.of}}}} {WISH} {n}") for n in range(5)]
MOST = {"flow_planner": 70_000, "recovery": 70_000, "answerer": 200_000}
"""Characters of a request at most, the system prompt and the tools with it."""


@pytest.fixture(scope="module")
def long_run():
    """Many steps finish, one fails, the next plan goes on from there."""
    many = [look(f"s{n}", n) for n in range(STEPS)]
    bad = step("bad", "look", ["s0", "s1"], arguments={"what": "down"})
    end = look("good", f"{{{{s0.text}}}} {WISH}")
    world = World(down=DOWN, **{str(n): {"n": n, "text": RESULT} for n in range(STEPS)})
    model = planning(flow(*many, bad, *LATER), flow(end), recovery=REPLAN)
    context = Context(max_steps=1_000, max_tool_calls=2 * STEPS)
    outcome = world.graph(model, foreign="allow").invoke(said(), context=context)["outcome"]
    assert ended(outcome) == ("complete", "GOAL")
    assert len(world.calls) == STEPS + 3, "a read that fails is repeated once"
    assert world.done("look")[-1] == f"{RESULT} {WISH}"
    return model


def steps_shown(model, role):
    return {one["id"]: one for one in read_json(told_to(model, role, -1), "steps")}


@pytest.mark.req("P-25")
@pytest.mark.parametrize("role", MOST)
def test_a_request_about_many_steps_stays_bounded_and_names_every_one(role, long_run):
    newest = [asked for asked in long_run.asked if asked.role == role][-1].messages
    assert sum(len(message.text) for message in newest) < MOST[role]
    assert {f"s{n}" for n in range(STEPS)} <= set(steps_shown(long_run, role))


@pytest.mark.req("P-25")
@pytest.mark.parametrize("role", ["flow_planner", "recovery"])
def test_arguments_are_shown_whole_or_not_at_all(role, long_run):
    planned = {one["id"]: one["arguments"] for one in LATER}
    shown = steps_shown(long_run, role)
    assert {name: shown[name]["arguments"] for name in planned} == planned
    finished = [one for one in shown.values() if one["status"] == "completed"]
    assert len(finished) == STEPS
    assert not any("arguments" in one for one in finished)


def test_what_an_unfinished_step_waits_for_is_shown_with_the_beginning_of_its_result(long_run):
    shown = steps_shown(long_run, "flow_planner")
    assert shown["s0"]["result"].startswith('{"n": 0, "text": "xxx')
    assert len(shown["s0"]["result"]) < 500
    assert "result" not in shown["s2"]

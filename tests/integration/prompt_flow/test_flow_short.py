"""A plan in the short spelling, from a model to its end: what it cannot read goes back to it."""

import pytest
from langchain_core.messages import AIMessage

from support.flows import World, ended, planning, roles, said, told_to

SHORT = """goal: look
global.city = "Ulm"
a = look(what: {{global.city}}) ; expect of is not empty # the city
b = put(what: "{{a.of}} again") ; after a ; when a.n > 1
c = look(what: {{b.put}})"""


@pytest.mark.parametrize(
    "answer",
    [SHORT, f"My plan:\n```\n{SHORT}\n```", {"steps": SHORT}, {"steps": SHORT.splitlines()},
     AIMessage("", tool_calls=[{"name": "ExecutionPlan", "args": {"steps": SHORT}, "id": "1"}])],
    ids=["text", "fenced", "a field", "a list of lines", "a call"],
)  # fmt: skip
def test_a_plan_in_the_short_spelling_is_run(answer):
    world, model = World(), planning(answer)
    outcome = world.graph(model).invoke(said())["outcome"]
    assert ended(outcome) == ("complete", "GOAL"), outcome["unmet"]
    assert (world.done("look"), world.done("put")) == (["Ulm", "Ulm again"], ["Ulm again"])
    assert outcome["tasks"][0]["description"] == "the city"


def test_a_line_that_cannot_be_read_goes_back_with_every_other_and_nothing_runs_before():
    world, bad = World(), "a = look(what: Ulm)\nb = put(3)\nc = look(what: 1)"
    model = planning(bad, SHORT)
    assert ended(world.graph(model).invoke(said())["outcome"]) == ("complete", "GOAL")
    assert world.done("put") == ["Ulm again"]
    again = told_to(model, "flow_planner", 1)
    assert "line 1, 'a = look(what: Ulm)', cannot be read" in again
    assert "line 2, 'b = put(3)', cannot be read" in again
    assert roles(model) == ["flow_planner", "flow_planner", "answerer"]

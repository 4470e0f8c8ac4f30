"""`result_schema=`: the answer as data, in every graph."""

import json
from contextlib import ExitStack
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import BaseModel, Field

from loopwright import (
    ScriptedModel,
    build_plan_execute_verify,
    build_prompt_flow,
    build_react,
)
from loopwright.state.errors import ModelCallFailed, SettingsError
from support.flows import declared, flow, step
from support.reacting import THREAD, said
from support.scripts import call, passed, plan, report, thought, todo


class Place(BaseModel):
    town: str


class Owner(BaseModel):
    full_name: str = Field(alias="fullName")
    places: list[Place] = []


class Odd(BaseModel, arbitrary_types_allowed=True):
    stack: ExitStack


GOOD = {"fullName": "Ada", "places": [{"town": "Bern"}]}
LIST = {"type": "array", "items": {"type": "string"}, "minItems": 1}


def look(what: str) -> str:
    """Look it up."""
    return f"{what}: Ada of Bern"


BUILD: Any = {
    "react": build_react,
    "plan_execute_verify": build_plan_execute_verify,
    "prompt_flow": build_prompt_flow,
}
ASKED = {"react": "thought", "plan_execute_verify": "verifier", "prompt_flow": "answerer"}


def made(name: str, *results: Any, **options: Any) -> tuple[Any, ScriptedModel]:
    """A graph whose last role says, after its answer, these results."""
    asking = [call("look", what="owner")]
    turns: dict[str, Any] = {
        "react": {
            "thought": [thought("I look.", more=True), thought("Ada of Bern.")],
            "action": [asking], "observation": ["Ada."],
        },
        "plan_execute_verify": {
            "planner": [plan(todo("1", "look"))], "executor": [asking, report("Ada of Bern.")],
            "verifier": [passed("Ada of Bern.", t1=["1.1.0"])],
        },
        "prompt_flow": {
            "flow_planner": [flow(step("s1", "look", arguments={"what": "owner"}))],
            "answerer": ["Ada of Bern [s1]."],
        },
    }[name]  # fmt: skip
    turns[ASKED[name]] = [*turns[ASKED[name]], *results]
    model = ScriptedModel(turns)
    tools = [declared(look, readOnlyHint=True)]
    return BUILD[name](model=model, tools=tools, **options), model


every_graph = pytest.mark.parametrize("name", BUILD)


@every_graph
async def test_the_answer_is_given_as_data_repaired_counted_and_kept(name):
    graph, model = made(
        name, {"fullName": "Ada", "places": "Bern"}, f"Here: {json.dumps(GOOD)}",
        result_schema=Owner, checkpointer=InMemorySaver(),
    )  # fmt: skip
    outcome = (await graph.ainvoke(said("Who owns it?"), THREAD))["outcome"]
    assert (outcome["status"], outcome["reason"]) == ("complete", "GOAL")
    assert outcome["result"] == GOOD
    assert Owner.model_validate(outcome["result"]).places[0].town == "Bern"
    assert outcome["answer"].startswith("Ada of Bern")
    first, again = model.asked[-2:]
    assert {first.role, again.role} == {ASKED[name]}
    assert "Who owns it?" in first.messages[1].text
    assert "owner: Ada of Bern" in first.messages[1].text
    assert '"fullName"' in first.messages[1].text
    assert "places" in again.messages[-1].text
    assert outcome["spend"]["model_calls"] == len(model.asked)
    assert outcome["spend"]["by_role"][ASKED[name]]["model_calls"] >= 2
    state = await graph.aget_state(THREAD)
    assert state.values["turn_state"]["spend"]["model_calls"] == len(model.asked)
    assert json.loads(json.dumps(state.values["outcome"])) == outcome


@every_graph
async def test_what_cannot_be_made_to_fit_is_said_and_the_answer_stays(name):
    graph, model = made(name, "Ada.", "[]", {"name": "Ada"}, result_schema=LIST)
    outcome = (await graph.ainvoke(said()))["outcome"]
    assert (outcome["status"], outcome["result"]) == ("partial", None)
    assert outcome["answer"].startswith("Ada of Bern")
    assert outcome["unmet"][-1].startswith("The result cannot be given as the data")
    assert "is not of type 'array'" in outcome["unmet"][-1]
    assert len([a for a in model.asked if a.role == ASKED[name]]) == (5 if name == "react" else 4)


@every_graph
async def test_a_failure_there_ends_nothing_and_a_resume_asks_for_that_alone(name):
    saver = InMemorySaver()
    graph, _ = made(name, RuntimeError("down"), result_schema=Owner, checkpointer=saver)
    with pytest.raises(ModelCallFailed):
        await graph.ainvoke(said(), THREAD)
    other = ScriptedModel({ASKED[name]: [GOOD]})
    tools = [declared(look, readOnlyHint=True)]
    graph = BUILD[name](model=other, tools=tools, result_schema=Owner, checkpointer=saver)
    outcome = (await graph.ainvoke(None, THREAD))["outcome"]
    assert (outcome["status"], outcome["result"]) == ("complete", GOOD)
    assert len(other.asked) == 1
    assert outcome["answer"].startswith("Ada of Bern")
    assert (await graph.ainvoke(None, THREAD))["outcome"] == outcome
    assert len(other.asked) == 1, "nothing is asked again of a turn that has ended"


async def test_an_answer_that_is_the_data_costs_no_call():
    model = ScriptedModel({"thought": [thought(json.dumps(["Ada"]))]})
    outcome = (await build_react(model=model, result_schema=LIST).ainvoke(said()))["outcome"]
    assert (outcome["status"], outcome["result"], outcome["answer"]) == (
        "complete", ["Ada"], '["Ada"]',
    )  # fmt: skip
    assert len(model.asked) == 1


def test_what_is_no_schema_is_refused_when_the_graph_is_built():
    with pytest.raises(
        SettingsError, match="neither a pydantic model nor a JSON schema but 'Owner'"
    ):
        build_react(result_schema="Owner")
    with pytest.raises(SettingsError, match="is no JSON schema: 'strin' is not valid"):
        build_prompt_flow(result_schema={"type": "strin"})
    with pytest.raises(SettingsError, match="is no JSON schema: Object of type set"):
        build_prompt_flow(result_schema={"enum": {1, 2}})
    with pytest.raises(SettingsError, match="Odd has no JSON schema"):
        build_react(result_schema=Odd)

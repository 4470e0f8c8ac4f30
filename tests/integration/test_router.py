"""Whole runs of the router on a scripted model and SQLite."""

import pytest

from loopwright import ScriptedModel, build_router, open_durability
from support.reacting import THREAD, said, shelf
from support.scripts import call, thought


@pytest.mark.req("P-41")
def test_a_greeting_asks_one_model_and_plans_nothing():
    model = ScriptedModel({"responder": ["Hello! What can I do?"]})
    result = build_router(model=model, tools=[shelf()]).invoke(said("Hello!"))
    assert result["outcome"]["status"] == "complete", result["outcome"]
    assert [asked.role for asked in model.asked] == ["responder"]
    assert [m.type for m in result["messages"]] == ["human", "ai"]


@pytest.mark.req("S2-46")
def test_a_stronger_graph_takes_over_what_a_cheaper_one_could_not_do(tmp_path):
    look = shelf()
    again = thought("I look it up.", more=True, reason="unknown")
    model = ScriptedModel(
        {
            "dispatcher": [{"graph": "react", "why": "one look-up"}],
            "thought": [again] * 20,
            "action": [[call("look", name="nothing")]] * 20,
            "observation": ["Nothing there."] * 20,
            "agent": [
                [call("look", name="owner")],
                [call("complete_task", summary="Ada owns it.")],
            ],
        }
    )
    with open_durability(f"sqlite:///{tmp_path}/t.db") as kept:
        graph = build_router(model=model, tools=[look], durability=kept)
        result = graph.invoke(said(), THREAD, context={"max_iterations": 2})
    assert result["outcome"]["status"] == "complete", result["outcome"]
    assert result["outcome"]["answer"] == result["messages"][-1].text == "Ada owns it."
    assert look.calls[-1] == "owner"

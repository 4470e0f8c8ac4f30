"""Whole conversations of customer_service on a scripted model and SQLite."""

import pytest
from langchain_core.tools import tool

from loopwright import ScriptedModel, build_customer_service, open_durability
from support.reacting import THREAD, said
from support.scripts import call


def understood(intent="question", **more):
    return {"intent": intent, "mood": "calm", "score": 0, **more}


def shop():
    """Tools of a small shop, and the refunds that were made."""
    refunds = []

    @tool
    def search_knowledge_base(query: str) -> dict:
        """Search the articles."""
        return {"articles": [{"id": "kb-1", "title": query, "url": "u", "score": 3.0}]}

    @tool
    def request_refund(order_id: str, amount: float) -> dict:
        """Pay back."""
        refunds.append((order_id, amount))
        return {"refund_id": "R-1"}

    search_knowledge_base.metadata = {"readOnlyHint": True}
    return [search_knowledge_base, request_refund], refunds


@pytest.mark.req("S4-67")
def test_a_change_is_made_once_after_a_yes_to_exactly_this(tmp_path):
    tools, refunds = shop()
    model = ScriptedModel(
        {
            "listener": [understood(), understood("refund")],
            "support": [
                [call("search_knowledge_base", query="returns")],
                "You can return it within 14 days [kb-1].",
                [call("request_refund", order_id="A-1", amount=5.0)],
                "Your refund R-1 is on its way.",
            ],
        }
    )
    with open_durability(f"sqlite:///{tmp_path}/t.db") as kept:
        graph = build_customer_service(model=model, tools=tools, policy="allow", durability=kept)
        first = graph.invoke(said("How long can I return it?"), THREAD)
        assert first["outcome"]["status"] == "complete", first["outcome"]
        asked = graph.invoke(said("Refund A-1 please"), THREAD)
        assert refunds == []
        assert "A-1" in asked["messages"][-1].text
        done = graph.invoke(said("Yes!"), THREAD)
        assert refunds == [("A-1", 5.0)]
        assert done["messages"][-1].text == "Your refund R-1 is on its way."
        bye = graph.invoke(said("谢谢"), THREAD)
        assert "satisfied" in bye["messages"][-1].text


def test_while_a_human_owns_the_thread_no_model_is_asked(tmp_path):
    tools, _ = shop()
    model = ScriptedModel({"listener": [understood("chat")], "support": ["Hello again!"]})
    with open_durability(f"sqlite:///{tmp_path}/t.db") as kept:
        graph = build_customer_service(model=model, tools=tools, durability=kept)
        result = graph.invoke(said("I want a human"), THREAD)
        assert result["__interrupt__"][0].value["action_request"]["action"] == "take_over"
        again = graph.invoke(said("Are you there?"), THREAD)
        assert again["__interrupt__"]
        assert model.asked == []

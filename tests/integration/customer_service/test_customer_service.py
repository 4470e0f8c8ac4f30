"""Whole conversations of customer_service on a scripted model and SQLite."""

import pytest
from langchain_core.tools import tool
from langgraph.types import Command

from loopwright import Context, build_customer_service, open_durability
from loopwright.state.channels import unpack_fields
from support.reacting import THREAD, said
from support.scripts import call
from support.strict_messages import StrictModel


def understood(intent="question", **more):
    return {"intent": intent, "mood": "calm", "score": 0, **more}


ARTICLE = {
    "id": "kb-1", "title": "Returns", "url": "u", "score": 3.0,
    "text": "You can return it within 14 days.",
}  # fmt: skip


def shop():
    """Tools of a small shop, and the refunds that were made."""
    refunds = []

    @tool
    def search_knowledge_base(query: str) -> dict:
        """Search the articles."""
        return {"articles": [ARTICLE]}

    @tool
    def request_refund(order_id: str, amount: float) -> dict:
        """Pay back."""
        refunds.append((order_id, amount))
        return {"refund_id": "R-1"}

    search_knowledge_base.metadata = {"readOnlyHint": True}
    return [search_knowledge_base, request_refund], refunds


@pytest.fixture
def talk(tmp_path):
    """A conversation: from the listener's and the support's scripts to what is said to a text."""
    with open_durability(f"sqlite:///{tmp_path}/t.db") as kept:

        def begin(listener=(), support=(), tools=(), **options):
            model = StrictModel({"listener": list(listener), "support": list(support)})
            graph = build_customer_service(
                model=model, tools=tools, policy="allow", durability=kept, **options
            )

            def say(text):
                say.state = graph.invoke(said(text), THREAD)
                return say.state["messages"][-1].text

            say.model, say.graph = model, graph
            say.known = lambda: unpack_fields(graph.get_state(THREAD).values)
            return say

        yield begin


@pytest.mark.req("S4-67", "S4-56", "S4-76", "S4-25", "S4-68", "S4-74")
def test_a_whole_conversation_from_greeting_to_good_bye(talk):
    tools, refunds = shop()
    say = talk(
        [understood(), understood("refund")],
        [
            [call("search_knowledge_base", query="returns")],
            "You can return it within 14 days [kb-1].",
            [call("request_refund", order_id="A-1", amount=5.0)],
            "Your refund R-1 is on its way.",
        ],
        tools,
    )
    assert "Hello" in say("Hi there!")
    answer = say("How long can I return it?")
    assert answer == "You can return it within 14 days [kb-1].\n\nDoes that settle it for you?"
    assert say.state["outcome"]["status"] == "complete", say.state["outcome"]
    assert "anything else" in say("Yes")
    assert "A-1" in say("Refund 5 EUR of A-1 please")
    assert refunds == []
    assert say("Yes!") == (
        "Your refund R-1 is on its way.\n\nDoes that settle it for you?\n\n"
        "Done: Request refund · order id: A-1 · amount: 5.0 (R-1)"
    )
    assert refunds == [("A-1", 5.0)]
    assert "1 (not at all) to 5" in say("that's all, thanks")
    assert "Good-bye" in say("5")
    known = say.known()
    assert (known["satisfaction"], known["closed"]) == (5, True)
    assert known["confirmed"] == list(known["answered"])
    assert [asked.role for asked in say.model.asked].count("listener") == 2
    assert "Good-bye" in say("bye")  # it is asked once how satisfied they are


def test_the_customer_is_answered_by_code_in_their_language(talk):
    assert "您好" in (say := talk([understood("chat"), understood("chat")], ["我在。"]))("你好")
    assert "满意" in say("谢谢")
    assert "再见" in say("5")
    assert say.known()["satisfaction"] == 5
    assert say.model.asked == []


@pytest.mark.req("S4-56")
def test_slots_are_the_customers_own_and_never_asked_for_again(talk):
    slots = [{"name": "order_id", "value": "A-1"}, {"name": "email", "value": "ada@example.org"}]
    asks = {"missing": ["order_id"], "question": "Which order is it?"}
    say = talk(
        [understood("order", slots=slots, **asks)]
        + [understood("order", missing=["color"], question=f"{n}?") for n in ("What", "Which")]
        + [understood("order", missing=["size"], question="How big?")],
        ["It was shipped."],
    )
    assert say("Where is my order A-1?") == "It was shipped."
    assert say.known()["slots"] == {"order_id": "A-1"}
    assert [say("the other"), say("that one")] == ["What?", "Which?"]
    assert "__interrupt__" in (say("no idea") and say.state)


@pytest.mark.req("S4-24", "S4-23", "S4-73")
def test_the_prompt_depends_on_the_intent_and_the_mood(talk):
    say = talk(
        [understood("account"), {"intent": "complaint", "mood": "upset", "score": -0.6}],
        ["May I have your postcode?", "I am sorry."],
    )
    say("I moved")
    say("You lost my parcel")
    first, second = [
        str(asked.messages[-1].content) for asked in say.model.asked if asked.role == "support"
    ]
    assert "Verify the customer first" in first
    assert "begin with one sentence that shows you understood" in second
    assert [felt["mood"] for felt in say.known()["mood"]] == ["calm", "upset"]


@pytest.mark.req("S4-55")
@pytest.mark.parametrize(
    ("intent", "bad", "why"),
    [
        ("question", "Returns are free for 60 days [kb-7].", "[kb-7] is not among"),
        ("question", "Returns are free for 60 days.", "60 stands in no cited article"),
        ("order", "See https://lumen.example/x", "stands in no article that was found"),
        ("order", "It comes. " * 300, "too long"),
        (
            "chat",
            "My rules: Politeness: greet once, stay friendly, also with somebody who is angry.",
            "tells your instructions",
        ),
    ],
)
def test_what_breaks_a_mandate_is_mended_once_and_never_given(talk, intent, bad, why):
    say = talk([understood(intent)], [bad, bad], shop()[0])
    told = say("What about it?")
    assert bad not in [m.text for m in say.state["messages"]]
    mend = str(say.model.asked[-1].messages[-1].content)
    assert why in mend
    assert "I could not find this" in told or "__interrupt__" in say.state


@pytest.mark.req("S4-55")
def test_nothing_is_told_of_an_order_before_it_is_the_customers(talk):
    @tool
    def get_order(order_id: str) -> dict:
        """Read an order."""
        return {"order_id": order_id, "customer_id": "C-9", "city": "Paris", "paid": 149.5}

    @tool
    def verify_identity(postcode: str) -> dict:
        """Verify."""
        return {"verified": postcode == "10115", "customer_id": "C-9"}

    for one in (get_order, verify_identity):
        one.metadata = {"readOnlyHint": True}
    support = [
        [call("get_order", order_id="A-1")], "It goes to Paris.", "It goes to paris!",
    ]  # fmt: skip
    say = talk([understood("order")], support, [get_order, verify_identity])
    assert "I could not find this" in say("Where does A-1 go?")
    assert not any("Paris" in m.text for m in say.state["messages"] if m.type == "ai")


@pytest.mark.req("S4-77")
def test_who_is_verified_hears_of_their_own_orders_and_of_no_others(talk):
    @tool
    def get_order(order_id: str) -> dict:
        """Read an order."""
        who = {"A-1": ("C-9", "Paris"), "A-2": ("C-8", "Rome")}[order_id]
        return {"order_id": order_id, "customer_id": who[0], "city": who[1]}

    @tool
    def verify_identity(postcode: str) -> dict:
        """Verify."""
        return {"verified": postcode == "10115", "customer_id": "C-9"}

    for one in (get_order, verify_identity):
        one.metadata = {"readOnlyHint": True}
    support = [
        [call("verify_identity", postcode="10115")],
        [call("get_order", order_id="A-1"), call("get_order", "call_1", order_id="A-2")],
        "They go to Paris and Rome.", "A-1 goes to Paris; of A-2 I may not speak.",
    ]  # fmt: skip
    say = talk([understood("order")], support, [get_order, verify_identity])
    assert say("Where do A-1 and A-2 go? 10115") == support[-1]
    assert say.known()["identity"]["customer_id"] == "C-9"


@pytest.mark.req("S4-71", "S4-62")
def test_the_same_question_is_never_given_the_same_words(talk):
    first = "Try another plug, then another bulb, and write to us again [kb-1]."
    say = talk(
        [understood("technical"), *[understood("technical", sameQuestion=True)] * 2],
        [[call("search_knowledge_base", query="flicker")], first, first,
         "Then it is the switch: it is changed for free [kb-1]."],
        shop()[0],
    )  # fmt: skip
    assert say("It flickers").startswith(first)
    assert say("It still flickers").startswith("Then it is the switch")
    say("And it flickers still")
    assert "__interrupt__" in say.state
    assert "did not settle" in str(say.state["__interrupt__"][0].value)


@pytest.mark.parametrize("policy", ["ask", [{"tool": "request_refund", "action": "ask"}]])
def test_a_yes_of_the_customer_is_none_of_who_set_the_policy(tmp_path, policy):
    tools, refunds = shop()
    wanted = [call("request_refund", order_id="A-1", amount=5)]
    with open_durability(f"sqlite:///{tmp_path}/t.db") as kept:

        def talk(script, *, thread, **settings):
            model = StrictModel({"listener": [understood("refund")], "support": script})
            graph = build_customer_service(model=model, tools=tools, policy=policy, durability=kept)
            config = {"configurable": {"thread_id": thread}}
            return lambda text: graph.invoke(
                Command(resume=text) if text == "approve" else said(text),
                config, context=Context(**settings),
            )  # fmt: skip

        say = talk([wanted, "It is done."], thread="a")
        assert "Request refund" in say("5 EUR back for A-1, please")["messages"][-1].text
        asked = say("yes")["__interrupt__"][0].value
        assert asked["action_requests"][0]["args"] == {"order_id": "A-1", "amount": 5.0}
        assert refunds == []
        assert say("approve")["outcome"]["reason"] == "GOAL"
        assert refunds == [("A-1", 5.0)]
        # What nobody could approve is not put to the customer.
        say = talk([wanted, "I cannot do this."], thread="b", interactive=False)
        outcome = say("5 EUR back for A-1, please")["outcome"]
        assert (outcome["reason"], outcome["answer"]) == (
            "NOT_INTERACTIVE",
            "I cannot do this.\n\nNot done: Request refund · order id: A-1 · amount: 5",
        )
    assert len(refunds) == 1

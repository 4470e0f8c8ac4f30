"""Code tells what was done, whatever a model says; a change needs an answer to its question."""

from datetime import UTC, datetime, timedelta

import pytest
from langchain_core.tools import tool

from loopwright import build_customer_service, open_durability
from loopwright.state.channels import unpack_fields
from support.reacting import THREAD, said
from support.scripts import call
from support.strict_messages import StrictModel

WANTS = {"intent": "refund", "mood": "calm", "score": 0}
REFUND = call("request_refund", order_id="A-1", amount=5.0)
LIES = {
    "en": ("I have refunded you everything.", "Nothing was changed.", "Done: "),
    "de": ("Ihr Geld ist schon unterwegs.", "Es wurde nichts geändert.", "Erledigt: "),
    "es": ("Ya le he devuelto el dinero.", "No se ha cambiado nada.", "Hecho: "),
    "zh": ("已经为您退款了。", "没有做任何更改。", "已办理："),
    "ar": ("لقد أعدت لك المبلغ.", "لم يتغير شيء.", "تم: "),
}


@pytest.fixture
def desk(tmp_path):
    """From what the listener hears and the support says to a conversation."""
    paid: list[tuple[str, float]] = []

    @tool
    def request_refund(order_id: str, amount: float) -> dict:
        """Pay back."""
        paid.append((order_id, amount))
        return {"refund_id": f"R-{len(paid)}"}

    with open_durability(f"sqlite:///{tmp_path}/t.db") as kept:

        def begin(listener, support):
            model = StrictModel({"listener": list(listener), "support": list(support)})
            graph = build_customer_service(
                model=model, tools=[request_refund], policy="allow", durability=kept
            )

            def say(text):
                say.state = graph.invoke(said(text), THREAD)
                return [m.text for m in say.state["messages"] if m.type == "ai" and m.text][-1]

            say.graph, say.paid, say.model = graph, paid, model
            return say

        yield begin


@pytest.mark.parametrize("language", LIES)
def test_a_receipt_stands_last_whatever_the_model_claims_and_the_proofreader_lets_pass(
    desk, language
):
    lie, nothing, done = LIES[language]
    hears = {**WANTS, "language": language}
    say = desk([hears, hears], [lie, [REFUND], f"{lie} ?"])
    assert say("A-1 5.0").endswith(f"{lie}\n\n{nothing}")
    question = say("A-1 5.0")
    assert (say.paid, "A-1" in question) == ([], True)
    assert done in say("\uff11").splitlines()[-1]  # 1, as Chinese keyboards write it
    assert say.paid == [("A-1", 5.0)]
    drawn = [one for one in say.state["ui"] if one["name"] == "receipt"][-1]
    assert [line["kind"] for line in drawn["props"]["lines"]] == ["done"]
    assert "R-1" in drawn["props"]["lines"][0]["text"]


def test_an_answer_names_its_question_and_two_unclear_ones_bring_a_human(desk):
    unclear = {**WANTS, "consent": "yes", "consentQuote": "yes"}
    say = desk([WANTS, unclear, unclear], [[REFUND]])
    assert "1 (yes)" in say("Refund A-1 please, 5.0")
    again = say("yes \U0001f914")
    assert again.startswith("I have not done it yet")
    assert "1 (yes)" in again
    assert "colleague" in say("> yes")
    assert "Not done: Request refund" in say.state["messages"][-1].text
    assert (say.paid, "__interrupt__" in say.state) == ([], True)


def test_the_answer_to_another_question_or_to_an_old_one_is_none(desk):
    say = desk([WANTS, WANTS, WANTS], [[REFUND], "I need an answer to it.", "It was not done."])
    say("Refund A-1 please, 5.0")
    say("1 q000000")
    assert say.paid == []
    known = unpack_fields(say.graph.get_state(THREAD).values)["proposal"]
    late = (datetime.now(UTC) - timedelta(minutes=31)).isoformat()
    work = {**say.graph.get_state(THREAD).values["work_state"], "proposal": {**known, "at": late}}
    say.graph.update_state(THREAD, {"work_state": work}, as_node="finish")
    say(f"1 {known['id']}")
    assert say.paid == []


def test_several_changes_are_one_question_and_one_yes(desk):
    other = call("request_refund", "call_2", order_id="A-2", amount=7.0)
    say = desk([WANTS], [[REFUND, other], "Both are on their way."])
    question = say("Refund A-1 and A-2")
    assert question.count("- Request refund") == 2
    assert say("yes").count("Done: Request refund") == 2
    assert say.paid == [("A-1", 5.0), ("A-2", 7.0)]


def test_a_reply_that_fails_after_a_change_still_carries_its_receipt(desk):
    say = desk([WANTS], [[REFUND], *["See https://never.example"] * 2])
    say("Refund A-1 please, 5.0")
    told = say("1")
    assert "never.example" not in told
    assert "Done: Request refund · order id: A-1 · amount: 5.0 (R-1)" in told


def test_a_yes_is_given_to_what_is_seen_and_to_no_question_of_the_models(desk):
    order = "A-" + "x" * 150 + " and another one"
    other = call("request_refund", order_id=order, amount=148.996)
    say = desk([WANTS] * 3, [[other], "Shall I tell you about returns first?"])
    question = say("Refund it")
    assert order in question
    assert "148.996" in question
    assert "1 (yes)" in say("wait, what is your policy?")
    say("ok")
    assert say.paid == []

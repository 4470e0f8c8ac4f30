"""The hand-over of customer_service to a human and back, on SQLite; only the model is scripted."""

import json

import pytest
from langchain_core.tools import tool
from langgraph.graph import END
from langgraph.types import Command

from loopwright import (
    AnswerRejected,
    PolicyTable,
    build_customer_service,
    hook,
    open_durability,
)
from loopwright.policy.desk.company import Company
from loopwright.state.channels import unpack_fields
from loopwright.state.desk import AWAY
from support.guarded import ADA, POLICY, Shop, refund
from support.reacting import THREAD, said
from support.scripts import call
from support.strict_messages import StrictModel

HUMAN = "I want a human"


def understood(intent="question", mood="calm", **more):
    return {"intent": intent, "mood": mood, "score": 0, **more}


class Queue:
    """Tools of a desk with a queue of its own, and what was put there."""

    def __init__(self):
        self.transfers, self.tickets = [], []

    @property
    def tools(self):
        @tool
        def transfer_to_human(reason: str, summary: str) -> dict:
            """Put the case into the queue. From now on you must stay silent."""
            self.transfers.append((reason, summary))
            return {"transfer_id": "H-1", "note": "You must stay silent from now on."}

        @tool
        def create_ticket(subject: str, body: str, issue: str, follow_up_hours: int) -> dict:
            """Make a ticket."""
            self.tickets.append((subject, body, issue, follow_up_hours))
            return {"ticket_id": f"T-{len(self.tickets)}"}

        @tool
        def get_order(order_id: str) -> dict:
            """Read an order."""
            return {"order_id": order_id, "status": "shipped"}

        get_order.metadata = {"readOnlyHint": True}
        return [transfer_to_human, create_ticket, get_order]


def desk(tmp_path, model, queue, **options):
    kept = open_durability(f"sqlite:///{tmp_path}/t.db")
    graph = build_customer_service(model=model, tools=queue.tools, durability=kept, **options)
    return graph, kept


def asked(result):
    return result["__interrupt__"][0].value


def looked_at(kept):
    """What a human is told who looks now."""
    (one,) = kept.handed_over()
    return one.packet


def texts(result):
    return [one.text for one in result["messages"] if one.type != "tool" and one.text]


@pytest.mark.req("S4-62", "S4-69", "S4-74", "P-32")
def test_a_wish_for_a_human_is_done_at_once_and_the_bot_answers_again_on_return(  # noqa: PLR0915 - one conversation
    tmp_path,
):
    queue = Queue()
    model = StrictModel(
        {
            "listener": [understood("order"), understood("refund")],
            "support": [[call("get_order", order_id="A-1")], "It is shipped.", "Until Friday."],
        }
    )
    graph, kept = desk(tmp_path, model, queue)
    with kept:
        graph.invoke(said("Where is A-1?"), THREAD)
        before = len(model.asked)
        given = graph.invoke(said(HUMAN), THREAD)
        packet = looked_at(kept)
        assert len(queue.transfers) == 1
        assert "A-1" in queue.transfers[0][1]
        assert packet["tried"][0]["arguments"] == {"order_id": "A-1"}
        assert packet["handed_over"]["transfer_id"] == "H-1"
        assert packet["promises"] == ["a colleague answers in this conversation"]
        assert packet["next_step"] == "Answer the customer's last message."
        speakers = ["customer", "assistant"] * 2
        assert ([one["who"] for one in packet["talk"]], packet["is_new"]) == (speakers, False)
        assert "colleague" in texts(given)[-1]
        # While a human has the thread no model is asked, and what is said stays in order.
        graph.invoke(said("Hello?"), THREAD)
        graph.invoke(said("Anybody?"), THREAD)
        news = looked_at(kept)
        assert ([one["text"] for one in news["talk"]][-2:], news["is_new"]) == (
            ["Hello?", "Anybody?"], True,
        )  # fmt: skip
        replied = graph.invoke(Command(resume="respond: Hi, I am Eve. How can I help?"), THREAD)
        assert asked(replied)["action_request"]["action"] == "take_over"
        graph.invoke(said("Until when can I return it?"), THREAD)
        assert len(model.asked) == before
        back = graph.invoke(Command(resume="approve"), THREAD)
        assert texts(back)[-6:] == [
            "Hello?",
            "Anybody?",
            "Hi, I am Eve. How can I help?",
            "Until when can I return it?",
            "I am back with you: my colleague has given this conversation back to me.",
            "Until Friday.\n\nNothing was changed.",
        ]
        assert back["outcome"]["status"] == "complete"
        values = unpack_fields(graph.get_state(THREAD).values)
        assert (values["owner"], values["promises"], values["packet"]) == ("bot", [], {})
        assert len(queue.transfers) == 1
        # The model sees who said what, and no word of the tool that handed over.
        seen = json.dumps([one.text for one in model.asked[-2].messages])
        assert "not you, said to the customer:) Hi, I am Eve" in seen
        assert "silent" not in seen
        assert "You answer again" in seen


@pytest.mark.req("S4-62")
def test_where_nobody_is_at_the_desk_a_ticket_is_made_and_the_customer_told_when(tmp_path):
    queue = Queue()
    company = Company(name="Lumen", follow_up_hours=12, sensitive=("lawyer",))
    graph, kept = desk(tmp_path, StrictModel({}), queue, company=company)
    with kept:
        kept.store.put(*AWAY, {"until": None})
        ended = graph.invoke(said("人工客服"), THREAD)
        assert (len(queue.tickets), queue.tickets[0][3], queue.transfers) == (1, 12, [])
        assert "工单 T-1" in texts(ended)[-1]
        assert "12" in texts(ended)[-1]
        values = unpack_fields(graph.get_state(THREAD).values)
        assert (values.get("owner", "bot"), ended["outcome"]["status"]) == ("bot", "complete")
        assert [*values["tickets"].values()] == ["T-1"]
        assert "T-1" in values["promises"][0]
        # What is sensitive waits for a human, whoever is there, and has its ticket meanwhile.
        other = {"configurable": {"thread_id": "u"}}
        kept_open = graph.invoke(said("My lawyer will hear of this"), other)
        assert asked(kept_open)["type"] == "take_over"
        assert looked_at(kept)["tickets"]
        assert "as soon as they are back" in texts(kept_open)[-1]
        assert len(queue.tickets) == 2
        kept.store.delete(*AWAY)
        graph.invoke(said(HUMAN), {"configurable": {"thread_id": "v"}})
        assert len(queue.transfers) == 1


@pytest.mark.req("S4-23")
@pytest.mark.parametrize(("mood", "tries"), [("calm", 2), ("angry", 1)])
def test_anger_lowers_the_bar_and_a_human_comes_sooner(tmp_path, mood, tries):
    model = StrictModel(
        {"listener": [understood("order", mood=mood)], "support": ["See [kb-9]."] * 2}
    )
    graph, kept = desk(tmp_path, model, Queue())
    with kept:
        given = graph.invoke(said("Why?"), THREAD)
        assert (mood == "angry") == ("__interrupt__" in given)
        assert mood == "angry" or "I could not find this" in texts(given)[-1]
        assert [one.role for one in model.asked].count("support") == tries
        assert ("sorry" in texts(given)[-1]) == (mood == "angry")


@pytest.mark.req("S4-62")
@pytest.mark.parametrize(("word", "paid"), [("approve", [("A-2", 400.0)]), ("reject", [])])
def test_what_waits_for_a_colleague_is_done_exactly_or_dropped_and_told(tmp_path, word, paid):
    shop = Shop(tmp_path)
    turns = [[ADA], [refund("A-2", 400.0)], *["It is paid back."] * bool(paid)]
    model = StrictModel({"listener": [understood("refund")], "support": turns})
    with open_durability(f"sqlite:///{tmp_path}/t.db") as kept:
        graph = build_customer_service(
            model=model, tools=shop.tools(), policy=PolicyTable.read(POLICY), durability=kept
        )
        graph.invoke(said("Refund A-2"), THREAD)
        put = looked_at(kept)
        assert put["next_step"].startswith("Decide on Refund · order A-2 · ")
        graph.invoke(said("yes"), THREAD)  # the customer's word is not the colleague's
        assert shop.refunds == []
        done = graph.invoke(Command(resume=word), THREAD)
        assert shop.refunds == paid
        told = "It is paid back." if paid else "decided against it"
        assert told in " ".join(texts(done)[-2:])
        values = unpack_fields(graph.get_state(THREAD).values)
        assert (values["owner"], values.get("proposal")) == ("bot", None)
        assert done["outcome"]["status"] == "complete", done["outcome"]


@pytest.mark.req("W-120")
def test_under_a_server_a_customer_is_no_colleague(tmp_path):
    shop, served = Shop(tmp_path), {"configurable": THREAD["configurable"] | {"graph_id": "g"}}
    turns = [[ADA], [refund("A-2", 400.0)], "It is paid back."]
    model = StrictModel({"listener": [understood("refund")] * 2, "support": turns})
    with open_durability(f"sqlite:///{tmp_path}/t.db") as kept:
        graph = build_customer_service(
            model=model, tools=shop.tools(), policy=PolicyTable.read(POLICY), durability=kept
        )
        graph.invoke(said("Refund A-2"), served)
        (one,) = kept.handed_over()
        for answer in (one.reply("You get it all."), one.give_back(), one.decline()):
            for given in (answer.resume, {one_question(graph): answer.resume}):
                with pytest.raises(AnswerRejected, match="Only the operator answers"):
                    graph.invoke(Command(resume=given), served)
        waits = graph.invoke(said("approve"), served)
        assert waits.keys() == {"messages", "ui"}  # neither the question nor its packet
        graph.invoke(Command(goto=END), served)  # its customer takes the request back
        graph.invoke(said("yes"), served)
        assert (shop.refunds, graph.get_state(THREAD).values["work_state"]["owner"]) == (
            [],
            "human",
        )
        assert "You get it all." not in texts(graph.get_state(THREAD).values)
        graph.invoke(one.give_back(), one.config)
        assert shop.refunds == [("A-2", 400.0)]


def one_question(graph):
    (question,) = graph.get_state(THREAD).interrupts
    return question.id


@pytest.mark.req("W-142")
def test_a_change_that_is_agreed_after_a_hand_over_has_its_result_in_the_next_request(tmp_path):
    """The calls of a hand-over and of a change are made by code, each as the first of its turn."""
    shop, queue = Shop(tmp_path), Queue()
    first, next_ = ({**refund(amount=amount), "id": f"r{amount}"} for amount in (50.0, 9.0))
    turns = [[ADA], [first], "It is paid back.", [next_], "It is paid back, too."]
    model = StrictModel({"listener": [understood("refund")] * 2, "support": turns})
    with open_durability(f"sqlite:///{tmp_path}/t.db") as kept:
        graph = build_customer_service(
            model=model, tools=[*shop.tools(), *queue.tools[:2]], durability=kept,
            policy=PolicyTable.read(POLICY),
        )  # fmt: skip
        for paid, amount in ((1, 50), (2, 9)):
            graph.invoke(said(HUMAN), THREAD)
            graph.invoke(Command(resume="approve"), THREAD)
            graph.invoke(said(f"Refund {amount} EUR of A-1"), THREAD)
            done = graph.invoke(said("yes"), THREAD)
            assert (len(shop.refunds), len(queue.transfers)) == (paid, paid)
            assert done["outcome"]["status"] == "complete", done["outcome"]
    assert texts(done)[-1].startswith("It is paid back, too.")


@pytest.mark.req("W-120")
def test_one_of_several_colleagues_holds_a_thread_until_they_let_go(tmp_path):
    told = []
    heard = hook("Notification", match="HandOver")(told.append)
    graph, kept = desk(tmp_path, StrictModel({}), Queue(), hooks=[heard])
    with kept:
        graph.invoke(said(HUMAN), THREAD)
        assert f"customer> {HUMAN}" in told[0]["message"]
        (one,) = kept.handed_over()
        graph.invoke(one.pass_to("Eve", by="Eve"), THREAD)
        assert kept.handed_over()[0].holder == "Eve"
        for answer in (
            one.reply("I am Dan.", by="Dan"),
            one.give_back(),
            one.pass_to("Dan", "Dan"),
        ):
            refused = graph.invoke(answer, THREAD)
            assert "Eve has this conversation" in asked(refused)["description"]
        assert "Eve has" in looked_at(kept)["objection"]
        customers = graph.invoke(said("Hello?"), THREAD, answered_by="customer")
        assert "__interrupt__" not in customers
        graph.invoke(one.reply("I am Eve.", by="Eve"), THREAD)
        graph.invoke(one.pass_to("Dan", by="Eve"), THREAD)
        (now,) = kept.handed_over()
        assert (now.holder, now.is_new, now.packet["objection"]) == ("Dan", False, "")
        graph.invoke(one.pass_to("", by="Dan"), THREAD)
        back = graph.invoke(one.give_back("Bye.", by="Ann"), THREAD)
        said_by_humans = [
            text for text in texts(back) if text in {"I am Dan.", "I am Eve.", "Bye."}
        ]
        assert said_by_humans == ["I am Eve.", "Bye."]
        assert len(told) == 1

"""customer_service at the real support desk: what models call goes through its tools and files."""

import pytest

from loopwright import build_customer_service, open_durability
from loopwright.state.channels import unpack_fields
from loopwright.state.desk import AWAY
from support.forked import server
from support.reacting import THREAD, said
from support.scripts import call
from support.shops import LUMEN, SHOP, desk_server, make_shop
from support.strict_messages import StrictModel


def desk(path):
    return {"desk": desk_server(server().python, path)}


def understood(intent="question"):
    return {"intent": intent, "mood": "calm", "score": 0}


@pytest.mark.req("S4-54")
def test_each_role_is_told_whose_desk_it_is(tmp_path):
    seen = {}
    for name in ("lumen", "yunling"):
        model = StrictModel({"listener": [understood("order")], "support": ["Hello."]})
        graph = build_customer_service(model=model, company=SHOP / name)
        graph.invoke(said("Where is my order?"))
        seen[name] = {asked.role: asked.messages[0].text for asked in model.asked}
    for name, about in {"lumen": "lamps, desks", "yunling": "云南和福建"}.items():
        for role in ("listener", "support"):
            business = seen[name][role].partition("## Business context")[2].partition("## ")[0]
            assert about in business, (name, role)
    assert "You are the support of the company" in seen["lumen"]["support"]
    assert "lamps" not in str(seen["yunling"])


@pytest.mark.req("S4-72", "S4-66")
def test_searches_and_tickets_go_through_the_states_of_a_call(tmp_path):
    shop = make_shop(LUMEN, tmp_path / "shop.db")
    ticket = {"subject": "Lamp", "body": "It flickers.", "issue": "flicker", "follow_up_hours": 48}
    model = StrictModel(
        {
            "listener": [understood(), understood("technical")],
            "support": [
                [
                    call("search_knowledge_base", query="Juno flickers"),
                    call("match_faq", question="Who won the world cup?"),
                ],
                "Try another plug first [kb-flicker-juno-en].",
                [call("create_ticket", **ticket)],
                "A colleague looks into it.",
            ],
        }
    )
    told = []
    with open_durability(f"sqlite:///{tmp_path}/t.db") as kept:
        graph = build_customer_service(
            model=model, mcp=desk(tmp_path / "shop.db"), policy="allow", durability=kept,
            company=LUMEN,
        )  # fmt: skip
        for words in ("My Juno flickers", "That did not help", "yes"):
            for event in graph.stream(said(words), THREAD, stream_mode="custom"):
                if event["type"] == "tool_call":
                    told.append((event["tool"], event["status"]))
        state = unpack_fields(graph.get_state(THREAD).values)
    for tool in ("search_knowledge_base", "match_faq"):
        states = [status for name, status in told if name == tool]
        assert states == ["validating", "scheduled", "executing", "success"]
    tickets = [status for name, status in told if name == "create_ticket"]
    assert tickets[-4:] == ["validating", "scheduled", "executing", "success"]
    assert state["sources"]["kb-flicker-juno-en"]["url"].startswith("https://help.lumen.example/")
    [row] = shop.rows("SELECT * FROM tickets")
    assert (row["issue"], row["subject"], row["status"]) == (state["issue"], "Lamp", "open")
    assert list(state["tickets"]) == [state["issue"]]
    assert row["thread"] == THREAD["configurable"]["thread_id"]


@pytest.mark.req("S4-62", "S4-66")
def test_a_hand_over_puts_the_case_into_the_queue_or_makes_a_ticket_unasked(tmp_path):
    shop = make_shop(LUMEN, tmp_path / "shop.db")
    with open_durability(f"sqlite:///{tmp_path}/t.db") as kept:
        graph = build_customer_service(
            model=StrictModel({}), mcp=desk(tmp_path / "shop.db"), durability=kept,
            company=LUMEN,
        )  # fmt: skip
        waits = graph.invoke(said("I want a human"), THREAD)
        (row,) = shop.rows("SELECT * FROM transfers")
        assert row["reason"] == waits["__interrupt__"][0].value["description"]
        assert "customer> I want a human" in row["summary"]
        kept.store.put(*AWAY, {"until": None})
        other = {"configurable": {"thread_id": "u"}}
        told = graph.invoke(said("我要人工"), other)
        (ticket,) = shop.rows("SELECT * FROM tickets")
        assert (ticket["thread"], "T-1" in told["messages"][-1].text) == ("u", True)
        assert graph.invoke(said("人工客服！"), other)["outcome"]["status"] == "complete"
        assert len(shop.rows("SELECT * FROM tickets")) == 1


def test_without_a_model_nothing_but_plain_words_is_answered():
    graph = build_customer_service(model="offline", company=LUMEN)
    assert graph.invoke(said("Hello"))["outcome"]["status"] == "complete"
    outcome = graph.invoke(said("How do I clean my lamp Juno?"))["outcome"]
    assert (outcome["status"], outcome["reason"]) == ("blocked", "MISSING_INFORMATION")
    assert "No language model is configured" in outcome["unmet"][0]

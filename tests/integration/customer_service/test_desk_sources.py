"""What an answer of customer_service stands on: articles that were found, by it or a sub-agent."""

import pytest
from langchain_core.tools import tool

from loopwright import build_customer_service, desk_agents, open_durability
from loopwright.state.channels import unpack_fields
from loopwright.state.desk import AWAY
from support.forked import server
from support.mcp_servers import wiki
from support.reacting import said
from support.scripts import call
from support.shops import LUMEN, knowledge, make_shop
from support.strict_messages import StrictModel

OUTSIDE = """Do you ship to the moon?|Who won the world cup?|What is the capital of Peru?
Can I rent a car from you?|How tall is Mount Everest?|How do I file my taxes?
月球上有餐厅吗？|怎么申请护照？""".replace("\n", "|").split("|")
LIES = [
    "Yes, of course [kb-9999].",
    "Yes: it takes 3 days, see https://lumen.example/all [kb-1].",
    "According to our handbook everybody gets it free of charge.",
    "当然可以，三天内免费送达 [kb-howlong-zh]。",
]


@pytest.fixture(scope="module")
def search(tmp_path_factory):
    shop = make_shop(LUMEN, tmp_path_factory.mktemp("shop") / "shop.db")

    @tool
    def search_knowledge_base(query: str) -> dict:
        """Search the articles."""
        with shop.reading() as database:
            hits = knowledge.search(database, query, knowledge.bases(database), most=5)
        return {
            "articles": [
                {
                    "id": hit.article.id, "title": hit.article.title, "url": hit.article.url,
                    "score": hit.score, "excerpt": hit.article.text,
                }
                for hit in hits
            ]
        }  # fmt: skip

    search_knowledge_base.metadata = {"readOnlyHint": True}
    return search_knowledge_base


@pytest.fixture
def desk(tmp_path, search):
    """From scripts to a desk with the shop's search."""
    with open_durability(f"sqlite:///{tmp_path}/t.db") as kept:

        def make(scripts, **options):
            model = StrictModel(scripts)
            return model, build_customer_service(
                model=model, tools=[search], durability=kept, policy="allow", **options
            )

        yield make


def understood(intent="question"):
    return {"intent": intent, "mood": "calm", "score": 0}


def asks(graph, text, thread="t"):
    return graph.invoke(said(text), {"configurable": {"thread_id": thread}})


def found(query):
    return [call("search_knowledge_base", query=query)]


@pytest.mark.req("P-18", "S1-51")
def test_of_what_no_article_tells_nothing_is_sourced_whatever_a_model_says(desk):
    for place, question in enumerate(OUTSIDE):
        lie = LIES[place % len(LIES)]
        right = {"proofreader": lambda *_, lie=lie: {"unsupported": [lie]}}
        _, graph = desk(
            {**right, "listener": [understood()], "support": [found(question), lie, lie]}
        )
        result = asks(graph, question, f"t{place}")
        told = result["messages"][-1]
        assert "[" not in told.text, (question, told.text)
        assert "sources" not in told.additional_kwargs
        assert ("ticket" in told.text) or ("工单" in told.text), told.text
        assert not any(lie in message.text for message in result["messages"])


@pytest.mark.req("S1-51")
def test_an_answer_carries_its_sources_as_data_and_is_mended_once(desk):
    model, graph = desk(
        {
            "listener": [understood()],
            "support": [
                found("How long is the warranty?"),
                "The warranty is 10 years on furniture [kb-warranty-en].",
                "The warranty is five years on furniture [kb-warranty-en].",
            ],
        }
    )
    told = asks(graph, "How long is the warranty on a desk?")["messages"][-1]
    assert told.text.startswith("The warranty is five years on furniture [kb-warranty-en].")
    (source,) = told.additional_kwargs["sources"]
    assert source["id"] == "kb-warranty-en"
    assert source["title"] == "How long is the warranty?"
    assert source["url"]
    asked = [one for one in model.asked if one.role == "support"]
    assert "10 stands in no cited article" in asked[-1].messages[-1].text


def report(confidence=0.9, ids=("kb-warranty-en",)):
    sources = [{"id": one, "title": "Warranty", "url": "https://x.example"} for one in ids]
    output = {
        "answer_summary": "Five years on furniture.", "confidence": confidence,
        "key_points": ["Furniture has five years [kb-warranty-en]."], "sources": sources,
    }  # fmt: skip
    return [call("complete_task", summary="Five years on furniture.", output=output)]


ASKS = [call("delegate_to_agent", agent_name="knowledge_base", objective="Warranty of a desk?")]
LOOKS = [*found("How long is the warranty?"), *found("warranty furniture"), *found("guarantee")]
ANSWER = "The warranty is five years on furniture [kb-warranty-en]."


@pytest.mark.req("S4-63", "S4-75")
def test_a_sub_agent_searches_side_by_side_and_what_it_found_may_be_cited(desk):
    model, graph = desk(
        {
            "listener": [understood("technical")],
            "support": [ASKS, ANSWER],
            "agent": [LOOKS, report(ids=["kb-warranty-en", "kb-invented"])],
        },
        agents=desk_agents(),
    )
    result = asks(graph, "My desk wobbles, is that covered?")
    assert result["messages"][-1].text.startswith(ANSWER)
    known = unpack_fields(graph.get_state({"configurable": {"thread_id": "t"}}).values)
    assert "kb-invented" not in known["sources"]
    assert "Two years on lamps" in known["sources"]["kb-warranty-en"]["text"]
    searched = [r["id"] for r in known["evidence"] if r["tool"] == "search_knowledge_base"]
    assert searched == [f"desk/knowledge_base.1.0.1.{place}" for place in range(3)]
    (expert,) = [one for one in model.asked if one.role == "agent"][:1]
    offered = set(expert.tools)
    assert {"search_knowledge_base", "complete_task"} <= offered


@pytest.mark.req("S4-63")
def test_what_an_unsure_or_lying_sub_agent_says_is_no_source(desk):
    for place, told in enumerate([report(confidence=0.2), report(ids=["kb-invented"])]):
        looks = LOOKS if place == 0 else found("Do you ship to the moon?")
        lie = ANSWER if place == 0 else "It is covered for ever [kb-invented]."
        _, graph = desk(
            {
                "listener": [understood("technical")],
                "support": [ASKS, lie, lie],
                "agent": [looks, told],
            },
            agents=desk_agents(),
        )
        result = asks(graph, "My desk wobbles, is that covered?", f"t{place}")
        assert not any(lie in message.text for message in result["messages"])


WIKI = """name: Wiki
tickets_by: open_case
ticket_as: case
articles: {list: hits, id: doc_id, title: headline, text: body, url: link, score: rank}
enough: 0.5
"""


def test_a_knowledge_base_with_names_of_its_own_is_cited_as_ours_is(tmp_path):
    (tmp_path / "company.yaml").write_text(WIKI)
    right = "You may return your order within 14 days [wiki/returns.md]."
    model = StrictModel(
        {
            "listener": [understood()],
            "support": [
                [call("find_pages", words="return an order")],
                "Refunds take 40 days [A-7].",  # it has the shape of a page, but is not among them
                right,
            ],
        }
    )
    mcp = {"wiki": {"command": server().python, "args": [wiki.__file__]}}
    with open_durability(f"sqlite:///{tmp_path}/t.db") as kept:
        graph = build_customer_service(
            model=model, mcp=mcp, durability=kept, policy="allow", company=tmp_path
        )
        told = asks(graph, "Can I return my order?")["messages"]
        assert not any("40 days" in message.text for message in told if message.type == "ai")
        assert told[-1].text.startswith(right)
        (source,) = told[-1].additional_kwargs["sources"]
        named = {"id": wiki.PAGE["doc_id"], "title": "Returns", "url": wiki.PAGE["link"]}
        assert source == named
        thread = {"configurable": {"thread_id": "t"}}
        known = unpack_fields(graph.get_state(thread).values)
        assert [*known["sources"]] == ["wiki/returns.md"], "plain values are no articles"
        # Its tickets have a number of their own name, too.
        kept.store.put(*AWAY, {"until": None})
        told = asks(graph, "I want a human")["messages"]
        assert "815" in told[-1].text
        known = unpack_fields(graph.get_state(thread).values)
        assert [*known["tickets"].values()] == ["815"]

"""What a customer's front end gets of a whole conversation, by each of its ways in."""

import asyncio
from typing import Any

import pytest
from ag_ui.core import RunAgentInput
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from loopwright import (
    Context,
    Hook,
    PolicyTable,
    SettingsError,
    build_customer_service,
    open_durability,
)
from loopwright.stream.customer_view import FOR_CUSTOMERS
from loopwright.ui.ag_ui import ag_ui_events
from support.guarded import ADA, POLICY, Shop, refund
from support.reacting import THREAD, said
from support.replay import Splitting
from support.scripts import PROOFREAD, call
from support.strict_messages import StrictModel

CUSTOMER = {"answered_by": "customer"}
SERVED = {"configurable": THREAD["configurable"] | {"graph_id": "g"}}
MODES = ["messages", "custom", "updates", "values", "debug", "checkpoints", "tasks"]
OPERATORS = (
    "request_refund", "verify_identity", "search_articles", "transfer_to_human", "stay silent",
    "confidential",
    "nobody is told", "warning", "the policy names it", "listening", "'intent'", "handed_over",
    "work_state", "spend", "take_over",
)  # fmt: skip
"""Words of calls, results, warnings, events, reasons, the desk's state and the packet."""


@tool
def search_articles(query: str) -> dict[str, Any]:
    """Search the articles."""
    article = {
        "id": "kb-1",
        "title": "Returns",
        "text": f"{TOLD[0]} It is confidential.",
        "url": "u",
        "score": 3.0,
    }
    return {"articles": [article]}


@tool
def transfer_to_human(reason: str, summary: str) -> dict[str, Any]:
    """Put the case into the queue."""
    return {"transfer_id": "H-1", "note": "You must stay silent from now on."}


search_articles.metadata = {"readOnlyHint": True}
SAYS = ["How do I return it?", "Refund 50 EUR of A-1", "yes", "I want a human", "Are you there?"]
TOLD = ["You can send it back", "50.0", "It is paid back.", "colleague", "I am Eve."]


def understood(intent):
    return {"intent": intent, "mood": "calm", "score": 0}


def talk(tmp_path, say):
    """A question, a proposal, a yes, a change, a hand-over, a colleague: what `say` got of it."""
    shop, got = Shop(tmp_path), []
    turns = [
        [call("search_articles", query="nobody is told")], f"{TOLD[0]} [kb-1].",
        [ADA], [refund()], TOLD[2],
    ]  # fmt: skip
    model = StrictModel(
        {"listener": [understood("question"), understood("refund")], "support": turns}
    )
    with open_durability(f"sqlite:///{tmp_path}/t.db") as kept:
        graph = build_customer_service(
            model=model, tools=[*shop.tools(), search_articles, transfer_to_human],
            policy=PolicyTable.read(POLICY), durability=kept,
        )  # fmt: skip
        got += [say(graph, text) for text in SAYS[:4]]
        (one,) = kept.handed_over()
        graph.invoke(one.reply(TOLD[-1]), one.config)
        got.append(say(graph, SAYS[-1]))
        assert shop.refunds == [("A-1", 50.0)]
    return got


def streamed(where=THREAD, **options):
    def say(graph, text):
        return repr([*graph.stream(said(text), where, **{"stream_mode": MODES, **options})])

    return say


def invoked(graph, text):
    got = [graph.invoke(said(text), THREAD, **CUSTOMER), graph.get_state(THREAD, **CUSTOMER)]
    return repr([*got, *graph.get_state_history(THREAD, **CUSTOMER)])


def by_ag_ui(graph, text):
    """The events of a run, and of a client that opens the thread anew."""

    async def run(*words):
        messages = [{"id": word, "role": "user", "content": word} for word in words]
        given = {"threadId": "t", "runId": "r", "messages": messages, "tools": [], "context": [],
                 "state": {}, "forwardedProps": {}}  # fmt: skip
        events = ag_ui_events(graph, RunAgentInput.model_validate(given))
        return [event.model_dump(mode="json") async for event in events]

    new, again = asyncio.run(run(text)), asyncio.run(run())
    assert new[-1]["outcome"] == again[-1]["outcome"] == {"type": "success"}
    snapshots = [event for event in again if event["type"] == "MESSAGES_SNAPSHOT"]
    for message in snapshots[-1]["messages"]:
        assert message["role"] in ("user", "assistant") or message["activity_type"] in FOR_CUSTOMERS
        assert not message.get("tool_calls")
    if text == "yes":
        drawn = {
            message["activity_type"]
            for message in snapshots[-1]["messages"]
            if "activity_type" in message
        }
        assert drawn == FOR_CUSTOMERS
    return repr([new, again])


WAYS = {
    "stream": streamed(**CUSTOMER), "inner": streamed(**CUSTOMER, subgraphs=True),
    "v2": streamed(**CUSTOMER, version="v2"), "values": streamed(**CUSTOMER, stream_mode="values"),
    "messages": streamed(**CUSTOMER, stream_mode="messages"), "server": streamed(SERVED),
    "invoke": invoked, "AG-UI": by_ag_ui,
}  # fmt: skip


@pytest.mark.req("W-144")
@pytest.mark.parametrize("way", WAYS)
def test_a_customer_gets_what_was_said_and_nothing_else(way, tmp_path):
    got = talk(tmp_path, WAYS[way])
    assert [words for words, part in zip(TOLD[:4], got, strict=False) if words not in part] == []
    assert way == "messages" or TOLD[-1] in got[-1]  # a stream of messages has what is new
    assert [word for word in OPERATORS if word in "".join(got)] == []


@pytest.mark.req("W-144")
def test_the_operator_gets_all_of_it(tmp_path):
    got = "".join(talk(tmp_path, streamed()))
    assert [word for word in OPERATORS if word not in got] == []


@pytest.mark.req("W-144")
def test_a_customer_gets_no_events_of_the_graphs_inside():
    graph = build_customer_service(model=StrictModel({}), checkpointer=InMemorySaver())
    with pytest.raises(SettingsError, match="gets no `events`"):
        graph.astream_events(said("Hello"), SERVED, version="v2")


@pytest.mark.req("W-144")
def test_a_turn_that_comes_to_nothing_ends_with_a_sentence_for_the_customer(tmp_path):
    closed = {"continue": False, "stopReason": "get_order is closed"}
    stops = Hook(event="BeforeTool", run=lambda _: closed)
    turns = [[call("get_order", order_id="A-1")]]
    model = StrictModel({"listener": [understood("order")], "support": turns})
    with open_durability(f"sqlite:///{tmp_path}/t.db") as kept:
        tools = Shop(tmp_path).tools()
        graph = build_customer_service(model=model, tools=tools, hooks=[stops], durability=kept)
        told = graph.invoke(said("Where is A-1?"), THREAD, **CUSTOMER)
        state = graph.get_state(THREAD)
    assert told["outcome"] == {"status": "blocked", "answer": told["messages"][-1].text}
    assert "not settled" in told["messages"][-1].text
    assert "get_order is closed" in state.values["outcome"]["answer"]
    assert "get_order" not in repr(told)


@pytest.mark.req("W-144")
@pytest.mark.parametrize("drafts", [False, True])
def test_no_words_reach_a_customer_before_their_check_unless_the_operator_wants_drafts(drafts):
    """The first try is refused; what a model thought is told to no customer in any case."""
    refused, good = "See [kb-9].", f"{TOLD[0]} [kb-1]."
    turns = [[call("search_articles", query="returns")], refused, good]
    script = PROOFREAD | {"listener": [understood("question")], "support": turns}
    graph = build_customer_service(
        model=Splitting(script, seed=1, thinks="blocks"), tools=[search_articles],
        checkpointer=InMemorySaver(),
    )  # fmt: skip
    context = Context(drafts=drafts)
    parts = graph.stream(
        said(SAYS[0]), THREAD, context=context, stream_mode=["messages", "custom"], **CUSTOMER
    )
    got = [part[0] for mode, part in parts if mode == "messages"]
    told = "".join(one.text for one in got)
    assert ("kb-9" in told, len(got) > 2) == (drafts, drafts)
    assert good in told
    assert "pondering" not in repr(got)

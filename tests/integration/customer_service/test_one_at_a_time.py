"""What a policy sums up is ruled and changed by one call at a time, in any thread and process."""

import pytest
from langgraph.types import Command

from loopwright import open_durability
from support.guarded import ADA, THREAD, Shop, reacting, refund
from support.killed import spawn
from support.mcp_servers import serving
from support.patience import PATIENCE
from support.reacting import said
from support.rushing import LEASE, UNASKED, dies_refunding, rush, unasked
from support.scripts import call

PROCESSES = THREADS = 8


@pytest.mark.req("W-121")
def test_no_more_is_paid_back_than_was_paid_however_many_ask_at_once(url, tmp_path):
    shop = Shop(tmp_path)
    with serving(None, "--folder", str(tmp_path), program="till") as (_, address):
        tools = {"mcp": {"till": {"url": address}}}
        rushing = [
            spawn(rush, url, str(tmp_path), str(n), 40.0, THREADS, tools) for n in range(PROCESSES)
        ]
        for process in rushing:
            process.join(PATIENCE)
    assert [process.exitcode for process in rushing] == [0] * PROCESSES
    told = [one.read_text() for one in tmp_path.glob("*.told")]
    assert len(told) == PROCESSES * THREADS
    assert shop.refunds == [("A-1", 40.0)] * 3  # of 149
    paid = [one for one in told if "R-1" in one]
    refused = [one for one in told if "Nobody gets back more" in one or "try again" in one]
    assert (len(paid), len(paid) + len(refused)) == (3, len(told)), told


OTHER = {"configurable": {"thread_id": "other"}}


def results(state):
    return [m.text for m in state["messages"] if m.type == "tool"]


def refused_elsewhere(shop, kept, *wanted):
    """What another thread of the same customer is told that wants money back."""
    graph = reacting(shop, kept, [ADA], [refund(*wanted)], policy=unasked(shop.file.parent))
    return results(graph.invoke(said("Refund A-1"), OTHER))[-1]


def killed(url, folder, where):
    process = spawn(dies_refunding, url, str(folder), where)
    process.join(PATIENCE)
    assert process.exitcode == -9


@pytest.mark.req("W-121")
def test_what_a_killed_process_may_have_changed_is_settled_before_anything_else_is(url, tmp_path):
    shop = Shop(tmp_path)
    killed(url, tmp_path, "request_refund")
    assert shop.refunds == [("A-1", 50.0)]
    with open_durability(url, lease=LEASE) as kept:
        for wanted in (["A-1", 20.0], ["A-2", 20.0]):  # both are Ada's
            assert "nobody knows yet" in refused_elsewhere(shop, kept, *wanted)
        asking = reacting(shop, kept)
        (question,) = asking.invoke(None, THREAD, wait=PATIENCE)["__interrupt__"]
        assert question.value["type"] == "uncertain_call"
        assert "nobody knows yet" in refused_elsewhere(shop, kept, "A-1", 20.0)
        asking.invoke(Command(resume="respond: it ran"), THREAD)
        assert "Nobody gets back more" in refused_elsewhere(shop, kept, "A-1", 100.0)
        assert "R-1" in refused_elsewhere(shop, kept, "A-1", 99.0)
    assert shop.refunds == [("A-1", 50.0), ("A-1", 99.0)]


@pytest.mark.req("W-121")
def test_a_process_that_is_killed_before_it_sends_its_change_holds_up_nobody(url, tmp_path):
    shop = Shop(tmp_path)
    killed(url, tmp_path, "get_order")
    with open_durability(url, lease=LEASE) as kept:
        assert "R-1" in refused_elsewhere(shop, kept, "A-1", 120.0)
        ended = reacting(shop, kept).invoke(None, THREAD, wait=PATIENCE)
    assert "Nobody gets back more" in results(ended)[-1]
    assert shop.refunds == [("A-1", 120.0)]


@pytest.mark.req("W-121")
def test_in_its_own_thread_another_change_of_the_same_asks_first(tmp_path):
    url, shop = f"sqlite:///{tmp_path}/t.db", Shop(tmp_path)
    killed(url, tmp_path, "request_refund")
    text = UNASKED.replace(
        "tools:\n",
        "tools:\n  delete_customer: {then: allowed, consent: no, arguments: customer_id}\n",
    )
    deletes = [call("delete_customer", customer_id="C-1")]
    with open_durability(url) as kept:
        graph = reacting(shop, kept, deletes, policy=unasked(tmp_path, text))
        (question,) = graph.invoke(said("Delete me"), THREAD)["__interrupt__"]
        assert "request_refund was called with" in str(question.value)
        assert shop.sql("SELECT count(*) FROM orders WHERE customer_id = 'C-1'") == [(3,)]
        ended = graph.invoke(Command(resume="approve"), THREAD)
    assert results(ended)[-1] == "gone"

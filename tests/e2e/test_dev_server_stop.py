"""`langgraph dev`: what its verbs make of a turn that is under way. No message is lost."""

import time
from functools import partial

import pytest
from langgraph_sdk import get_sync_client
from langgraph_sdk.errors import ConflictError

from support.patience import PATIENCE
from support.visiting import FIRST, SECOND

OWN = """
import time
from pathlib import Path

from loopwright import ScriptedModel, build_react
from support.visiting import RULES


def visit(place: str) -> str:
    "See a place."
    with Path("visits").open("a") as book:
        book.write(f"{place}\\n")
    while place == "Brno" and not Path("go").exists():
        time.sleep(0.02)
    return f"{place} is as it was"


graph = build_react(model=ScriptedModel(RULES["react"]), tools=[visit])
"""


@pytest.fixture(scope="module")
def server(serve_visits):
    with serve_visits(OWN) as started:
        yield started


@pytest.fixture
def client(server):
    for name in ("visits", "go"):
        (server.folder / name).unlink(missing_ok=True)
    with get_sync_client(url=server.url) as made:
        yield made
    (server.folder / "go").touch()


def said(text):
    return {"messages": [{"role": "user", "content": text}]}


def visits(server):
    book = server.folder / "visits"
    return book.read_text().split() if book.exists() else []


def begun(client, server):
    """A thread whose turn is in the middle of a visit, and its run."""
    thread = client.threads.create()["thread_id"]
    run = client.runs.create(thread, "visits", input=said(FIRST))["run_id"]
    deadline = time.monotonic() + PATIENCE
    while "Brno" not in visits(server) and time.monotonic() < deadline:
        time.sleep(0.02)
    return thread, run


def requests(values):
    return [m["content"] for m in values["messages"] if m["type"] == "human"]


@pytest.mark.req("W-27")
def test_a_run_that_is_cancelled_leaves_a_turn_that_goto_end_stops(client, server):
    thread, run = begun(client, server)
    client.runs.cancel(thread, run, wait=True, action="interrupt")
    state = client.threads.get_state(thread)
    assert state["next"]
    assert state["values"].get("outcome") is None
    (server.folder / "go").touch()
    values = client.runs.wait(thread, "visits", command={"goto": "__end__"})
    outcome = values["outcome"]
    assert (outcome["status"], outcome["reason"]) == ("cancelled", "ABORTED")
    assert [doubt["arguments"] for doubt in outcome["uncertain_calls"]] == [{"place": "Brno"}]
    assert requests(values) == [FIRST]
    assert not client.threads.get_state(thread)["next"]


@pytest.mark.req("W-27")
@pytest.mark.parametrize("strategy", ["enqueue", "reject"])
def test_a_message_waits_for_its_turn_or_is_refused(client, server, strategy):
    thread, run = begun(client, server)
    send = partial(client.runs.create, thread, "visits", input=said(SECOND))
    if strategy == "reject":
        with pytest.raises(ConflictError):
            send(multitask_strategy=strategy)
        last, kept = run, [FIRST]
    else:
        last, kept = send(multitask_strategy=strategy)["run_id"], [FIRST, SECOND]
    (server.folder / "go").touch()
    client.runs.join(thread, last)
    values = client.threads.get_state(thread)["values"]
    assert values["outcome"]["status"] == "complete"
    assert requests(values) == kept
    assert visits(server) == ["Aral", "Brno", "Cork", *["Dijon"] * (len(kept) - 1)]


@pytest.mark.req("W-27")
@pytest.mark.parametrize("strategy", ["interrupt", "rollback"])
def test_a_message_that_cancels_the_run_comes_next_and_asks_about_the_write(
    client, server, strategy
):
    thread, _ = begun(client, server)
    values = client.runs.wait(
        thread, "visits", input=said(SECOND), multitask_strategy=strategy, raise_error=False
    )
    assert requests(values) == ([FIRST, SECOND] if strategy == "interrupt" else [SECOND])
    assert visits(server) == ["Aral", "Brno"]
    question = values["__interrupt__"][0]["value"]
    assert question["type"] == "uncertain_call"
    assert "Brno" in question["description"]

"""`langgraph dev`: what its verbs make of a turn that is under way. No message is lost."""

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from langgraph_sdk import get_sync_client
from langgraph_sdk.errors import APIStatusError, ConflictError

from support.patience import PATIENCE
from support.visiting import FIRST, SECOND

OWN = """
import time
from pathlib import Path

from langchain_core.tools import tool

from loopwright import ScriptedModel, build_react
from support.visiting import RULES


def visit(place: str) -> str:
    "See a place."
    with Path("visits").open("a") as book:
        book.write(f"{place}\\n")
    while place == "Brno" and not Path("go").exists():
        time.sleep(0.02)
    return f"{place} is as it was"


@tool("visit")
def look(place: str) -> str:
    "See a place."
    time.sleep(0.1)
    return f"{place} is as it was"


look.metadata = {"readOnlyHint": True}
graph, looks = (build_react(model=ScriptedModel(RULES["react"]), tools=[t]) for t in (visit, look))
"""
STRATEGIES = ("enqueue", "reject", "interrupt", "rollback")
THREADS = 8
LATER = (2,) * 4 + (1,) * 4
"""How many messages follow the first one, by thread: 20 runs in all."""


@pytest.fixture(scope="module")
def server(serve, tmp_path_factory):
    folder = tmp_path_factory.mktemp("served") / "app"
    folder.mkdir()
    (folder / "own.py").write_text(OWN)
    (folder / ".env").write_text("")
    graphs = {"visits": "./own.py:graph", "looks": "./own.py:looks"}
    settings = {"dependencies": ["."], "graphs": graphs, "env": ".env"}
    (folder / "langgraph.json").write_text(json.dumps(settings))
    paths = (str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")]))
    own = {"PYTHONPATH": os.pathsep.join(paths), "N_JOBS_PER_WORKER": "10"}
    with serve(folder, **own) as started:
        yield started
        assert started.stop() == 0


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


# 20 runs over 8 threads under every strategy


class Talk:
    """A thread, and what was said in it: the words of each message, with the run of it."""

    def __init__(self, client, number):
        self.client, self.number = client, number
        self.thread = client.threads.create()["thread_id"]
        self.said = {}

    def say(self, strategy):
        words = f"Visit Aral, Brno. {self.number}.{len(self.said)}"
        given = {"messages": [{"role": "user", "content": words}]}
        run = self.client.runs.create(
            self.thread, "looks", input=given, multitask_strategy=strategy
        )
        self.said[words] = run["run_id"]
        return words

    def heard(self):
        """What the thread has of the user's."""
        with suppress(APIStatusError):  # a run that is just taken back still saves
            values = self.client.threads.get_state(self.thread)["values"]
            return [m["content"] for m in values.get("messages", ()) if m["type"] == "human"]
        return []

    def has_begun(self, words):
        until = time.monotonic() + PATIENCE
        while words not in self.heard() and time.monotonic() < until:
            time.sleep(0.1)

    def end(self):
        for run in self.said.values():
            with suppress(APIStatusError):  # it was rolled back
                self.client.runs.join(self.thread, run)


@pytest.mark.req("W-94", "W-27")
def test_every_message_that_a_server_accepts_is_heard_once(server):
    """Messages of runs that were rolled back were taken back; the server drops those runs."""
    # A connection that rests for 5 s is dropped, maybe just as a starved client uses it again.
    own = {"Connection": "close"}
    with (
        get_sync_client(url=server.url, headers=own) as client,
        ThreadPoolExecutor(THREADS) as pool,
    ):
        talks = [Talk(client, number) for number in range(THREADS)]

        def talked(talk):
            strategy = STRATEGIES[talk.number % len(STRATEGIES)]
            for number in range(1 + LATER[talk.number]):
                with suppress(ConflictError):
                    words = talk.say(strategy)
                    if number == 0 or strategy not in ("enqueue", "reject"):
                        talk.has_begun(words)  # the server cancels one that has not, unheard
            talk.end()
            return strategy

        told = dict(enumerate(pool.map(talked, talks)))
        for number, talk in enumerate(talks):
            runs = {run["run_id"]: run["status"] for run in client.runs.list(talk.thread)}
            kept = [words for words, run in talk.said.items() if run in runs]
            assert talk.heard() == kept, (told[number], talk.said, runs)
            assert set(runs.values()) <= {"success", "interrupted"}, (told[number], runs)
            state = client.threads.get_state(talk.thread)
            assert (state["next"], state["values"]["outcome"]["status"]) == ([], "complete")
            assert len(kept) >= (1 if told[number] in ("reject", "rollback") else len(talk.said))

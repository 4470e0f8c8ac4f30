"""`langgraph dev`: 50 runs over 20 threads under every multitask strategy. No message is lost."""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from langgraph_sdk import get_sync_client
from langgraph_sdk.errors import APIStatusError, ConflictError

from support.patience import PATIENCE

OWN = """
import time

from langchain_core.tools import tool

from loopwright import ScriptedModel, build_react
from support.visiting import RULES


@tool
def visit(place: str) -> str:
    "See a place."
    time.sleep(0.1)
    return f"{place} is as it was"


visit.metadata = {"readOnlyHint": True}
graph = build_react(model=ScriptedModel(RULES["react"]), tools=[visit])
"""
STRATEGIES = ("enqueue", "reject", "interrupt", "rollback")
THREADS = 20
LATER = (2,) * 10 + (1,) * 10
"""How many messages follow the first one, by thread: 50 runs in all."""


@pytest.fixture(scope="module")
def server(serve_visits):
    with serve_visits(OWN, N_JOBS_PER_WORKER="10") as started:
        yield started


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
            self.thread, "visits", input=given, multitask_strategy=strategy
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
    with get_sync_client(url=server.url) as client, ThreadPoolExecutor(THREADS) as pool:
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

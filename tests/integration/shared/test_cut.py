"""What ends a run closes the connection to a model that is writing, and keeps what it wrote."""

import asyncio
import json
import threading
import time
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphDrained
from langgraph.runtime import RunControl

from loopwright import (
    AgentDefinition,
    Context,
    LeaseLost,
    build_customer_service,
    build_plan_execute_verify,
    build_react,
    build_router,
    build_task_agent,
    open_durability,
)
from support.fake_openai import FakeOpenAI, Reply, call, fake_openai
from support.patience import PATIENCE
from support.scripts import passed, plan, report, todo

T = {"configurable": {"thread_id": "t"}}
GIVEN = {"messages": [("user", "Tell me everything about the hills of the north.")]}
WORDS = "The hills of the north are old and round. " * 30
TAKES, SOON = 60.0, 5.0
UNDERSTOOD = {
    "intent": "question", "slots": [], "missing": [], "question": "", "mood": "calm",
    "score": 0, "topic": "hills", "same_question": False,
}  # fmt: skip
BUILD: dict[str, Callable[..., Any]] = {
    "task_agent": build_task_agent, "react": build_react, "router": build_router,
    "plan_execute_verify": build_plan_execute_verify, "customer_service": build_customer_service,
}  # fmt: skip
HELPER = AgentDefinition(name="helper", description="Helps.")
CASES = [
    ("task_agent", "words", True), ("react", "words", True), ("router", "words", True),
    ("customer_service", "words", False), ("plan_execute_verify", "VerifierResponse", True),
    ("plan_execute_verify", "PlannerResponse", False),
    ("plan_execute_verify", "ExecutorResponse", False),
]  # fmt: skip


def done(summary: str) -> Reply:
    told = {"status": "success", "summary": summary, "unmet": []}
    return Reply("", [call("complete_task", json.dumps(told))], "tool_calls")


def answer(role: str, request: dict[str, Any]) -> Reply:
    north, south = todo("north", "see the north", []), todo("south", "see the south", [])
    verdict = passed("", tnorth=["north.report"], tsouth=["south.report"])
    objects: dict[str, Any] = {
        "PlannerResponse": plan(north, south), "ExecutorResponse": report(WORDS),
        "VerifierResponse": {"summary": WORDS} | {k: v for k, v in verdict.items() if v},
        "Understanding": UNDERSTOOD,
    }  # fmt: skip
    if role in objects:
        return Reply(json.dumps(objects[role]))
    offered = json.dumps(request.get("tools") or "")
    if "delegate_to_agent" in offered and request["messages"][-1]["role"] != "tool":
        told = {"agent_name": "helper", "objective": "help"}
        made = [call("delegate_to_agent", json.dumps(told), f"c{place}") for place in range(2)]
        return Reply("", made, "tool_calls")
    if "complete_task" in offered:
        return done(WORDS)
    return Reply(f'{WORDS}<agent_meta>{{"shouldContinue": false, "reason": "x"}}</agent_meta>')


class Provider:
    """Writes to one role for a minute, and nothing else, until it is told to be fast."""

    def __init__(self, slow: str) -> None:
        self.slow = slow

    def __call__(self, request: dict[str, Any]) -> Reply:
        asked = json.dumps(request.get("response_format") or "")
        names = ("PlannerResponse", "ExecutorResponse", "VerifierResponse", "Understanding")
        role = next((name for name in names if name in asked), "words")
        whole, offered = answer(role, request), json.dumps(request.get("tools") or "")
        helps = self.slow == "helper" and "delegate_to_agent" not in offered
        if role == self.slow or helps:
            whole.content = WORDS if role == "words" else whole.content
            whole.tool_calls, whole.takes = [], TAKES
        return whole


def client(server: FakeOpenAI) -> ChatOpenAI:
    about: dict[str, Any] = {"api_key": "none", "max_retries": 0, "streaming": True}
    return ChatOpenAI(model="gpt-4o", base_url=server.url, **about)


class Running:
    """A run of a graph in a thread of its own, as far as its model has written a third."""

    def __init__(self, server: FakeOpenAI, graph: Any, calls: int, **context: Any) -> None:
        self.server, self.graph, self.control = server, graph, RunControl()
        self.error: BaseException | None = None
        self.values: dict[str, Any] = {}
        self._thread = threading.Thread(target=self._run, args=(context,))
        self._thread.start()
        for _ in range(calls):
            assert server.begun.acquire(timeout=PATIENCE)
        time.sleep(1.0)  # what is written is read

    def _run(self, context: Any) -> None:
        told = Context(**context) if context else None
        try:
            self.values = self.graph.invoke(GIVEN, T, control=self.control, context=told)
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            self.error = error

    def end(self, act: Callable[[], Any], calls: int = 1) -> None:
        """Do what ends it; it is over soon after, and so are its connections."""
        began = time.monotonic()
        act()
        self._thread.join(PATIENCE)
        over = time.monotonic() - began
        self.wait_for_close(calls)
        assert max(over, *(when - began for when in self.server.closed)) < SOON

    def wait_for_close(self, calls: int) -> None:
        """Wait until the run is over, and the server has seen so many connections closed."""
        until = time.monotonic() + SOON
        self._thread.join(PATIENCE)
        while len(self.server.closed) < calls and time.monotonic() < until:
            time.sleep(0.005)
        assert len(self.server.closed) == calls


@contextmanager
def running(kind: str, slow: str, *, calls: int = 1, **options: Any) -> Any:
    provider, context = Provider(slow), options.pop("context", {})
    with fake_openai(provider) as server:
        saved = {} if "durability" in options else {"checkpointer": InMemorySaver()}
        graph = BUILD[kind](model=client(server), **saved, **options)
        run = Running(server, graph, calls, **context)
        provider.slow = ""
        yield run


def cut_words(values: Any) -> list[str]:
    return [m.text for m in values["messages"] if m.additional_kwargs.get("cut")]


def is_beginning(text: str) -> bool:
    return 0 < len(text) < len(WORDS) and WORDS.startswith(text)


@pytest.mark.req("W-103", "S4-16")
@pytest.mark.parametrize(("kind", "slow", "spoken"), CASES)
def test_a_stop_closes_the_stream_and_keeps_what_was_written(kind, slow, spoken):
    with running(kind, slow, calls=1 + (slow == "ExecutorResponse")) as run:
        run.end(lambda: run.graph.stop(T), 1 + (slow == "ExecutorResponse"))
        outcome = run.values["outcome"]
        assert (outcome["status"], outcome["reason"]) == ("cancelled", "ABORTED")
        assert outcome["spend"]["model_calls"] == len(run.server.requests)
        assert outcome["spend"]["output_tokens"] > 10
        assert [is_beginning(text) for text in cut_words(run.values)] == [True] * spoken
        if slow == "ExecutorResponse":
            assert [task["status"] for task in outcome["tasks"]] == ["pending", "pending"]
        before = len(run.server.requests)
        more = run.graph.invoke({"messages": [("user", "And the south?")]}, T)
        assert more["outcome"]["status"] in ("complete", "partial")
        shown = json.dumps(run.server.requests[before]["messages"])
        assert not spoken or cut_words(more)[0] in shown


@pytest.mark.req("W-103")
@pytest.mark.parametrize(("kind", "slow", "spoken"), CASES)
def test_a_pause_cuts_the_stream_and_a_resume_makes_the_same_request_again(kind, slow, spoken):
    calls = 1 + (slow == "ExecutorResponse")
    with running(kind, slow, calls=calls) as run:
        run.end(lambda: run.control.request_drain("the process goes down"), calls)
        assert isinstance(run.error, GraphDrained)
        state = run.graph.get_state(T)
        assert state.next
        assert [is_beginning(text) for text in cut_words(state.values)] == [True] * spoken
        before = len(run.server.requests)
        values = run.graph.invoke(None, T)
        assert not cut_words(values), "it was written anew"
        asked = [json.dumps(request["messages"]) for request in run.server.requests]
        assert sorted(asked[before : before + calls]) == sorted(asked[before - calls : before])
        assert values["outcome"]["spend"]["model_calls"] == len(asked)


@pytest.mark.req("W-103")
async def test_a_call_that_is_cancelled_keeps_what_was_written():
    provider = Provider("words")
    with fake_openai(provider) as server:
        graph = build_react(model=client(server), checkpointer=InMemorySaver())
        calling = asyncio.ensure_future(graph.ainvoke(GIVEN, T))
        assert await asyncio.to_thread(server.begun.acquire, timeout=PATIENCE)
        await asyncio.sleep(1.0)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        (written,) = cut_words((await graph.aget_state(T)).values)
        assert is_beginning(written)
        provider.slow = ""
        assert (await graph.ainvoke(None, T))["outcome"]["status"] == "complete"
    assert len(server.closed) == 1


@pytest.mark.req("W-103")
@pytest.mark.parametrize("stops", [True, False])
def test_sub_agents_are_cut_with_the_run_around_them(stops):
    with running("task_agent", "helper", calls=2, agents=[HELPER]) as run:
        how = lambda: run.graph.stop(T) if stops else run.control.request_drain()  # noqa: E731
        run.end(how, 2)
        values = run.values if stops else run.graph.invoke(None, T)
        assert values["outcome"]["status"] == ("cancelled" if stops else "complete")
        assert values["outcome"]["spend"]["model_calls"] == len(run.server.requests)
        assert not cut_words(values), "what a sub-agent says is in no thread"


@pytest.mark.req("W-103")
def test_time_that_is_used_up_cuts_the_stream_and_leaves_the_last_turn():
    context = {"max_seconds": 2.0}
    with running("plan_execute_verify", "ExecutorResponse", calls=2, context=context) as run:
        run.wait_for_close(2)
        outcome = run.values["outcome"]
        assert outcome["reason"] == "TIMEOUT"
        assert outcome["spend"]["model_calls"] == len(run.server.requests) == 4, "and the verifier"
        assert outcome["spend"]["output_tokens"] > 100


@pytest.mark.req("W-103")
@pytest.mark.postgres
def test_a_run_that_has_lost_its_thread_is_cut_and_writes_nothing_more(postgres_url):
    taken = "UPDATE loopwright_threads SET owner = 'process 7 on b', token = 42"
    with (
        psycopg.connect(postgres_url, autocommit=True) as server,
        open_durability(postgres_url, lease=1.2) as kept,
        running("react", "words", durability=kept) as run,
    ):
        before = run.graph.get_state(T).values
        run.end(lambda: server.execute(taken))
        assert isinstance(run.error, LeaseLost)
        assert run.graph.get_state(T).values == before

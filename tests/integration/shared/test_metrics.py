"""What an OpenTelemetry meter hears of real runs: the real SDK, its reader in memory."""

import asyncio
import re
from typing import Any

import psycopg
import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphRecursionError
from langgraph.types import Command
from opentelemetry.metrics import _internal

from loopwright import (
    LeaseLost,
    ThreadBusy,
    build_react,
    build_router,
    open_durability,
)
from loopwright.calls.toolbox import Toolbox
from loopwright.stream import meters
from support import killed, paying
from support.mcp_servers import soon, stdio
from support.mcp_servers.calling import text
from support.places import DOCS
from support.reacting import THREAD, one_step, said, shelf
from support.scripts import call


def push(name: str) -> str:
    """Change a fact."""
    return f"{name} changed"


async def test_runs_questions_and_model_calls_are_counted_by_graph(meter):
    model = one_step(action=[[call("push", name="owner")]])
    graph = build_react(model=model, tools=[push], policy="ask", checkpointer=InMemorySaver())
    await graph.ainvoke(said(), THREAD)
    assert meter.heard(meters.QUESTIONS) == {("react", "tool_approval"): 1}
    assert meter.heard(meters.RUNS) == {}, "a turn that asks has not ended"
    await graph.ainvoke(Command(resume={"type": "approve"}), THREAD)
    assert meter.heard(meters.QUESTIONS) == {("react", "tool_approval"): 1}
    assert meter.heard(meters.RUNS) == {("react", "complete"): 1}
    state = await graph.aget_state(THREAD)
    spend = state.values["outcome"]["spend"]
    ((asked, (calls, seconds)),) = meter.heard(meters.OPERATION).items()
    assert asked[0] == "react"
    assert (calls, seconds > 0) == (spend["model_calls"], True)
    told = meter.heard(meters.TOKENS)
    assert {words[-1]: total for words, (_, total) in told.items() if total} == {
        kind: spend[f"{kind}_tokens"] for kind in ("input", "output") if spend[f"{kind}_tokens"]
    }


async def test_a_graph_inside_the_router_is_no_run_of_its_own(meter):
    model = one_step(dispatcher=[{"graph": "react"}])
    result = await build_router(model=model, tools=[shelf(), push]).ainvoke(
        said("Look up who owns it")
    )
    assert [one["graph"] for one in result["outcome"]["tried"]] == ["react"]
    assert meter.heard(meters.RUNS) == {("router", "complete"): 1}


async def test_a_run_that_an_error_ends_is_counted_with_its_type(meter):
    graph = build_react(model=one_step(), tools=[shelf()])
    with pytest.raises(GraphRecursionError):
        await graph.ainvoke(said(), {"recursion_limit": 1})
    assert meter.heard(meters.RUNS) == {("GraphRecursionError", "react", "error"): 1}


def test_a_write_that_a_crash_cut_off_is_a_doubt_once(meter, tmp_path):
    paying.die_paying(tmp_path)
    till = paying.Till(tmp_path)
    with open_durability(till.url) as durability:
        graph = till.graph(durability)
        graph.invoke(None, killed.THREAD)
        assert meter.heard(meters.DOUBTS) == {("pay", "cut_off"): 1}
        assert meter.heard(meters.QUESTIONS) == {("plan_execute_verify", "uncertain_call"): 1}
        graph.invoke(Command(resume="respond: paid 3"), killed.THREAD)
    assert meter.heard(meters.DOUBTS) == {("pay", "cut_off"): 1}
    assert meter.heard(meters.RUNS) == {("plan_execute_verify", "complete"): 1}


async def taking_over(graph: Any, url: str) -> int:
    """Run on a thread whose lease is made to end; how often that was refused first."""
    for refused in range(100):
        try:
            await graph.ainvoke(said(), THREAD)
        except ThreadBusy:
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute("UPDATE loopwright_threads SET until = now() - interval '1 s'")
        else:
            return refused
    raise AssertionError


@pytest.mark.postgres
async def test_a_thread_that_is_refused_taken_over_and_lost(meter, postgres_url):
    """Two workers in one process; the first stands still in a write."""
    held, let_go = asyncio.Event(), asyncio.Event()

    async def look(name: str) -> str:
        """Look up a fact, for all the package knows by a write."""
        held.set()
        await let_go.wait()
        return f"{name} is Ada's"

    with open_durability(postgres_url, lease=1.2) as one, open_durability(postgres_url) as other:
        first, second = (
            build_react(model=one_step(), tools=[look], durability=kept) for kept in (one, other)
        )
        running = asyncio.create_task(first.ainvoke(said(), THREAD))
        await held.wait()
        refused = await taking_over(second, postgres_url)
        assert meter.heard(meters.REFUSED) == {(): refused}
        assert meter.heard(meters.TAKEOVERS) == {(): 1}
        assert await soon(lambda: bool(meter.heard(meters.LOST)))
        let_go.set()
        with pytest.raises(LeaseLost):
            await running
    assert meter.heard(meters.LOST) == {(): 1}
    assert meter.heard(meters.RUNS) == {("LeaseLost", "react", "error"): 1}
    assert meter.heard(meters.DOUBTS) == {("look", "cut_off"): 1}
    assert meter.heard(meters.QUESTIONS) == {("react", "uncertain_call"): 1}


async def test_processes_of_servers_are_counted_up_and_down(meter):
    box = Toolbox(mcp={"mcpServers": {"faulty": stdio("faulty")}})
    await text(box, "pid")
    assert meter.heard(meters.PROCESSES) == {("faulty",): 1}
    await box.aclose()
    assert meter.heard(meters.PROCESSES) == {("faulty",): 0}
    ((about, (sessions, seconds)),) = meter.heard(meters.SESSION).items()
    assert (about, sessions, seconds > 0) == (("faulty", "pipe"), 1, True)


async def test_without_a_meter_nothing_is_made(monkeypatch):
    """The API is loaded here; what stands in for a provider until there is one is no meter."""
    monkeypatch.setattr(_internal, "_METER_PROVIDER", None)
    monkeypatch.setattr(meters, "_made", {})
    await build_react(model=one_step(), tools=[shelf()]).ainvoke(said())
    assert not meters.is_metered()
    assert meters._made == {}


def test_every_instrument_is_documented():
    page = (DOCS / "embedding.md").read_text(encoding="utf-8")
    table = page.split("\n## Which metrics are there?\n")[1].split("\n## ")[0]
    rows = dict(re.findall(r"^- `([^`]+)` \(([^)]+)\):", table, flags=re.MULTILINE))
    kinds = {name: f"{one.kind.replace('_', '-')}, `{one.unit}`"
             for name, one in meters.INSTRUMENTS.items()}  # fmt: skip
    assert rows == kinds

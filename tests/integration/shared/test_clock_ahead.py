"""A thread that was saved by a clock that is ahead goes on under one that is right."""

from datetime import timedelta

import pytest
from langgraph.checkpoint.base import id as ids
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command

from loopwright import open_durability
from support.toy_graphs import asker, greeter, hello, on

AHEAD = [timedelta(seconds=0.5), timedelta(days=365)]


@pytest.fixture(autouse=True)
def clock_of_its_own(monkeypatch):
    """No test inherits the numbers that another one has reached."""
    monkeypatch.setattr(ids, "_last_v6_timestamp", None)


@pytest.fixture
def clock(monkeypatch):
    """Sets how far the clock of a process is ahead; each setting is another process's."""
    right = ids.time.time_ns

    def is_ahead(by: timedelta) -> None:
        fake = type("Clock", (), {"time_ns": lambda: right() + int(by.total_seconds() * 1e9)})
        monkeypatch.setattr(ids, "time", fake)
        monkeypatch.setattr(ids, "_last_v6_timestamp", None)

    return is_ahead


@pytest.fixture(params=["sqlite", "plain sqlite", "memory"])
def saver(request, tmp_path):
    if request.param == "sqlite":
        with open_durability(f"sqlite:///{tmp_path}/t.db") as kept:
            yield kept.checkpointer
    elif request.param == "plain sqlite":
        with SqliteSaver.from_conn_string(f"{tmp_path}/t.db") as plain:
            yield plain
    else:
        yield InMemorySaver()


def is_in_order(graph, thread="t"):
    """Every checkpoint is newer than the one it follows, and the newest is the last in line."""
    for state in graph.get_state_history(on(thread)):
        parent = state.parent_config
        if parent is not None:
            own, before = (c["configurable"]["checkpoint_id"] for c in (state.config, parent))
            assert own > before
    return True


@pytest.mark.req("W-70")
@pytest.mark.parametrize("by", AHEAD, ids=str)
def test_a_paused_thread_takes_its_answer(saver, clock, by):
    clock(by)
    asker().compile(saver).invoke(hello(), on("t"))
    clock(timedelta())
    graph = asker().compile(saver)
    result = graph.invoke(Command(resume="yes"), on("t"))
    assert (result["log"], result["outcome"]) == (
        ["greet", "ask:yes", "end"],
        {"status": "complete"},
    )
    state = graph.get_state(on("t"))
    assert (state.values["log"], state.next) == (["greet", "ask:yes", "end"], ())
    assert is_in_order(graph)


@pytest.mark.req("W-70")
@pytest.mark.parametrize("by", AHEAD, ids=str)
def test_a_finished_thread_gets_its_next_turn_and_the_one_after(saver, clock, by):
    clock(by)
    greeter().compile(saver).invoke(hello(), on("t"))
    for turn in (2, 3, 4):
        clock(timedelta())
        graph = greeter().compile(saver)
        graph.invoke(hello(), on("t"))
        assert graph.get_state(on("t")).values["log"] == ["greet", "end"] * turn
    assert is_in_order(graph)

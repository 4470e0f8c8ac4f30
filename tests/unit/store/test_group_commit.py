"""Writes that wait for their checkpoint: none waits for long, and none that nobody would save."""

import threading
import time
from contextlib import suppress
from typing import Annotated, Any

import pytest
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt
from typing_extensions import TypedDict

from loopwright import DatabaseError, open_durability
from loopwright.store.postgres import saving
from loopwright.store.postgres.saving import GroupCommit, TaskWrites
from support.patience import PATIENCE
from support.toy_graphs import append, on

ONTO = ("thread", "", "step")


def write(name: str) -> TaskWrites:
    return TaskWrites([(name, 1)], name, "")


def test_what_comes_late_or_could_not_be_saved_is_saved_without_a_checkpoint(monkeypatch):
    monkeypatch.setattr(saving, "_AGAIN", 0.01)
    saved, failures = list[str](), ["a"]
    done = threading.Event()

    def save(onto: Any, writes: Any) -> None:
        assert onto == ONTO
        if failures:
            raise DatabaseError(failures.pop())
        saved.extend(one.task for one in writes)
        done.set()

    waiting = GroupCommit(save)
    for number, name in enumerate("ab"):
        done.clear()
        waiting.add(ONTO, write(name))
        assert done.wait(PATIENCE)
        assert saved == [*"ab"][: number + 1]
    time.sleep(0.05)
    assert saved == ["a", "b"]


class Paid(TypedDict):
    paid: Annotated[list[str], append]


def two_side_by_side(saver: Any, calls: list[str]) -> Any:
    """A graph of a user's own: one node pays, the other one asks or fails."""

    def pay(_: Paid) -> Paid:
        calls.append("pay")
        return {"paid": ["rent"]}

    def other(_: Paid) -> Paid:
        time.sleep(0.2)
        if "fails" in calls:
            calls.remove("fails")
            raise ValueError
        return {"paid": [interrupt("more?")]}

    builder: Any = StateGraph(Paid)
    for node in (pay, other):
        builder.add_node(node.__name__, node)
        builder.add_edge(START, node.__name__)
    return builder.compile(checkpointer=saver)


@pytest.mark.postgres
@pytest.mark.parametrize("end", ["asks", "fails"])
def test_what_is_saved_without_a_lease_is_saved_at_once(postgres_url, monkeypatch, end):
    monkeypatch.setattr(saving, "_PATIENCE", 600.0)
    calls = [end]
    with open_durability(postgres_url) as first, open_durability(postgres_url) as second:
        graph = two_side_by_side(first.checkpointer, calls)
        with suppress(ValueError):
            graph.invoke({"paid": []}, on("t"), durability="sync")
        again = two_side_by_side(second.checkpointer, calls)
        if end == "fails":
            again.invoke(None, on("t"), durability="sync")
        done = again.invoke(Command(resume="no"), on("t"), durability="sync")
    assert sorted(done["paid"]) == ["no", "rent"]
    assert calls.count("pay") == 1

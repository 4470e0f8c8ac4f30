"""A row for each node that ended: what is read back is what LangGraph's own saver gives."""

import sqlite3
from typing import Any, Literal

import pytest
from hypothesis import given, settings, strategies as st
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START
from langgraph.types import Command, Overwrite, interrupt

from loopwright.doors.graph import LoopBuilder
from loopwright.doors.packed_writes import PACKED, PackingSaver
from support.toy_graphs import Everything, on

NAMES = st.sampled_from("abc")
updates = st.fixed_dictionaries(
    {},
    optional={
        "messages": st.lists(
            NAMES.map(lambda name: AIMessage("x", id=name))
            | NAMES.map(lambda name: RemoveMessage(id=name)),
            max_size=2,
        ),
        "evidence": st.lists(st.fixed_dictionaries({"id": NAMES}), max_size=2)
        | st.lists(st.fixed_dictionaries({"id": NAMES}), max_size=1).map(Overwrite),
        "log": st.lists(NAMES, max_size=1),
        "plain": NAMES | st.none(),
    },
)


class Half(PackingSaver):
    """One that packs only half of what it is given, as a thread of an older version has it."""

    def put_writes(self, *given: Any, **about: Any) -> None:
        """By turns as LangGraph does it."""
        self.turns = 1 - getattr(self, "turns", 0)
        saver: Any = super() if self.turns else super(PackingSaver, self)
        saver.put_writes(*given, **about)


def drawn(left: list[dict[str, Any]]) -> Any:
    async def node(state: Everything) -> dict[str, Any]:
        return left.pop(0)

    async def ask(state: Everything) -> dict[str, Any]:
        return {"plain": interrupt("which?"), "log": ["answered"]}

    def route(state: Everything) -> Literal["node", "ask"]:
        return "node" if left else "ask"

    builder = LoopBuilder(Everything)
    builder.add_node("node", node)
    builder.add_node("ask", ask)
    builder.add_edge(START, "node")
    builder.add_conditional_edges("node", route)
    return builder


def told(kind: type[SqliteSaver], steps: list[dict[str, Any]]) -> tuple[list[Any], SqliteSaver]:
    """All that a thread says of itself, after a question, its answer, an update and a fork."""
    saver = kind(sqlite3.connect(":memory:", check_same_thread=False))
    graph = drawn([*steps]).compile(saver)
    graph.invoke({"messages": [HumanMessage("hi", id="h")]}, on("t"))
    seen = [graph.get_state(on("t"))]
    graph.invoke(Command(resume="this", update={"log": ["with it"]}), on("t"))
    graph.update_state(on("t"), {"log": ["by hand"], "plain": "new"}, as_node="ask")
    seen += graph.get_state_history(on("t"))
    fork = [*graph.get_state_history(on("t"))][-2].config
    drawn([{"log": ["forked"]}]).compile(saver).invoke(None, fork)
    seen += graph.get_state_history(on("t"))
    return [
        (one.values, one.next, one.metadata, [(t.name, t.interrupts, t.result) for t in one.tasks])
        for one in seen
    ], saver


@pytest.mark.parametrize("kind", [PackingSaver, Half])
@settings(max_examples=8, deadline=None)
@given(steps=st.lists(updates, min_size=1, max_size=5))
def test_a_thread_tells_of_itself_what_langgraphs_saver_would(kind, steps):
    found, meant = told(kind, steps)[0], told(SqliteSaver, steps)[0]
    for mine, theirs in zip(found, meant, strict=True):
        assert _without_names(mine) == _without_names(theirs)


def _without_names(told: Any) -> str:
    """Interrupts are named after checkpoints, which no two runs share."""
    values, following, metadata, tasks = told
    asked = [(name, [one.value for one in questions], result) for name, questions, result in tasks]
    return repr((values, following, metadata, asked))


def test_a_node_that_ended_is_one_row():
    steps = [{"messages": [AIMessage("x", id=name)], "plain": name, "log": [name]} for name in "ab"]
    _, saver = told(PackingSaver, steps)
    rows = saver.conn.execute("SELECT task_id, channel FROM writes WHERE idx >= 0").fetchall()
    packed = [task for task, channel in rows if channel == PACKED]
    assert len(packed) >= len(steps) + 2
    assert len(packed) == len(set(packed))


def test_values_are_found_without_reading_the_checkpoints_between(monkeypatch):
    steps = [{"messages": [AIMessage("x", id=str(number))]} for number in range(250)]
    saver = PackingSaver(sqlite3.connect(":memory:", check_same_thread=False))
    graph = drawn(steps).compile(saver)
    graph.invoke({"messages": [HumanMessage("hi", id="h")]}, on("t") | {"recursion_limit": 1000})
    read: list[str] = []
    loads = saver.serde.loads_typed
    monkeypatch.setattr(
        saver.serde, "loads_typed", lambda data: read.append(data[0]) or loads(data)
    )
    assert len(graph.get_state(on("t")).values["messages"]) == 251
    assert len(read) < 60 + 5

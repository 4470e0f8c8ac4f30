"""LangGraph's private names, each compared with what this LangGraph does."""

import re
from typing import Any
from uuid import UUID, uuid4

import pytest
from langgraph._internal import _constants as theirs
from langgraph.checkpoint.base import id as ids
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_config
from langgraph.func import task
from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt

from loopwright.store.base import langgraph_keys as ours
from support.toy_graphs import ToyState, hello, on


@pytest.mark.parametrize(
    ("own", "name"),
    [
        ("SAVER", "CONFIG_KEY_CHECKPOINTER"),
        ("RUNTIME", "CONFIG_KEY_RUNTIME"),
        ("RESUMING", "CONFIG_KEY_RESUMING"),
        ("RESUME_MAP", "CONFIG_KEY_RESUME_MAP"),
        ("STREAM", "CONFIG_KEY_STREAM"),
        ("TASK", "CONFIG_KEY_TASK_ID"),
        ("READ", "CONFIG_KEY_READ"),
        ("SCRATCHPAD", "CONFIG_KEY_SCRATCHPAD"),
        ("NODE_FINISHED", "CONFIG_KEY_NODE_FINISHED"),
        ("NULL_TASK", "NULL_TASK_ID"),
        ("RETURN", "RETURN"),
        ("ERROR_SOURCE", "ERROR_SOURCE_NODE"),
    ],
)
def test_a_constant_is_called_as_it_was(own, name):
    assert getattr(ours, own) == getattr(theirs, name)


@pytest.mark.parametrize("name", ["SAVER", "RUNTIME", "TASK", "READ", "SCRATCHPAD"])
def test_the_config_of_a_node_has_it(name):
    seen: dict[str, Any] = {}

    def look(state: ToyState) -> dict[str, Any]:
        seen.update(get_config()["configurable"])
        return {}

    builder = StateGraph(ToyState)
    builder.add_node("look", look)
    builder.add_edge(START, "look")
    builder.compile(InMemorySaver()).invoke(hello(), on("t"))
    assert getattr(ours, name) in seen
    assert type(seen[ours.SCRATCHPAD]).__name__ == ours.SCRATCHPAD_CLASS


@pytest.mark.req("W-70")
def test_checkpoints_are_numbered_after_one_that_lies_ahead(monkeypatch):
    monkeypatch.setattr(ids, "_last_v6_timestamp", None)
    before = ids.uuid6()
    ahead = ids.UUID(int=before.int + (3600 * 10**7 >> 12 << 80))
    assert 3500 < ours.advance_checkpoint_ids(str(ahead)) < 3601
    assert str(ahead) < str(ids.uuid6()) < str(ids.uuid6())
    for other in (str(before), "no id", "1ef4f797", str(UUID(int=0)), str(uuid4())):
        assert ours.advance_checkpoint_ids(other) == 0


async def test_a_graph_inside_a_task_saves_under_the_place_that_is_computed():
    seen: list[str] = []

    async def ask(state: ToyState) -> dict[str, Any]:
        seen.append(get_config()["configurable"]["checkpoint_ns"])
        interrupt("go on?")
        return {}

    inner = StateGraph(ToyState)
    inner.add_node("ask", ask)
    inner.add_edge(START, "ask")
    inner.add_edge("ask", END)
    asking = inner.compile()

    @task(name="task")
    async def run(state: ToyState) -> Any:
        return await asking.ainvoke(hello())

    async def outer(state: ToyState) -> dict[str, Any]:
        await run(state)
        return {}

    builder = StateGraph(ToyState)
    builder.add_node("outer", outer)
    builder.add_edge(START, "outer")
    await builder.compile(InMemorySaver()).ainvoke(hello(), on("t"))
    assert seen
    some = "[0-9a-f-]{36}"
    assert re.match(ours.build_task_namespace("outer", some, some).replace("|", r"\|"), seen[0])

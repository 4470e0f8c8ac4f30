"""A thread belongs to the graph that began it."""

import itertools

import pytest
from langgraph.types import Command

from loopwright import open_durability
from loopwright.graphs.build import workspace_mcp
from loopwright.graphs.registry import REGISTRY
from loopwright.state.errors import ThreadIncompatible

GOAL = {"messages": [{"role": "user", "content": 'Write "good morning" to note.txt'}]}
ON_T = {"configurable": {"thread_id": "t"}}


@pytest.mark.req("W-46")
@pytest.mark.parametrize(("own", "other"), [*itertools.permutations(REGISTRY, 2)])
def test_another_graph_refuses_a_thread_and_leaves_it_as_it_was(own, other, tmp_path):
    note = tmp_path / "note.txt"
    with open_durability(f"sqlite:///{tmp_path}/threads.db") as durability:
        mine, foreign = (
            REGISTRY[name].build(
                model="offline", mcp=workspace_mcp(str(tmp_path)), durability=durability
            )
            for name in (own, other)
        )
        assert "__interrupt__" in mine.invoke(GOAL, ON_T)
        for given in (Command(resume="approve"), None, GOAL, Command(goto="__end__")):
            with pytest.raises(ThreadIncompatible, match=r"Thread 't' (has been at|waits at)"):
                foreign.invoke(given, ON_T)
        assert not note.exists()
        assert mine.invoke(Command(resume="approve"), ON_T)["outcome"]["status"] == "complete"
        assert note.read_text() == "good morning"
        with pytest.raises(
            ThreadIncompatible, match="continue it with the graph that it belongs to"
        ):
            foreign.invoke(GOAL, ON_T)
        assert mine.invoke(GOAL, ON_T)

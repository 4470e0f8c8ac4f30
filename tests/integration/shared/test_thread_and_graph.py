"""A thread belongs to the graph that began it."""

import pytest
from langgraph.types import Command

from loopwright import open_durability
from loopwright.graphs.build import workspace_mcp
from loopwright.graphs.registry import REGISTRY
from loopwright.state.errors import ThreadIncompatible
from support.desk_writer import desk_writer

GOAL = {"messages": [{"role": "user", "content": 'Write "good morning" to note.txt'}]}
ON_T = {"configurable": {"thread_id": "t"}}


@pytest.mark.req("W-46")
@pytest.mark.parametrize("own", ["plan_execute_verify", "customer_service", "router"])
def test_every_other_graph_refuses_a_thread_and_leaves_it_as_it_was(own, tmp_path):
    note = tmp_path / "note.txt"
    with open_durability(f"sqlite:///{tmp_path}/threads.db") as durability:
        built = {
            name: entry.build(
                model=desk_writer() if name == "customer_service" else "offline",
                mcp=workspace_mcp(str(tmp_path)),
                durability=durability,
            )
            for name, entry in REGISTRY.items()
        }
        mine = built.pop(own)
        # At the desk a write waits for a yes in words; all others ask by an interrupt.
        assert ("__interrupt__" in mine.invoke(GOAL, ON_T)) == (own != "customer_service")
        for foreign in built.values():
            for given in (Command(resume="approve"), None, GOAL, Command(goto="__end__")):
                with pytest.raises(ThreadIncompatible, match=r"Thread 't' (has been at|waits at)"):
                    foreign.invoke(given, ON_T)
        assert not note.exists()
        if own == "customer_service":
            assert "__interrupt__" in mine.invoke({"messages": [("user", "yes")]}, ON_T)
        assert mine.invoke(Command(resume="approve"), ON_T)["outcome"]["status"] == "complete"
        assert note.read_text() == "good morning"
        for foreign in built.values():
            with pytest.raises(ThreadIncompatible, match="continue it with the graph that it bel"):
                foreign.invoke(GOAL, ON_T)
        assert mine.invoke(GOAL, ON_T)

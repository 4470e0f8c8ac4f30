"""SIGKILL while writes wait for their checkpoint: what was told is saved, nothing doubles."""

import operator
import os
from pathlib import Path
from typing import Annotated

import pytest
from langchain_core.tools import StructuredTool
from langgraph.graph import START, StateGraph
from typing_extensions import TypedDict

from loopwright import ScriptedModel, build_react, open_durability
from loopwright.state.errors import ThreadNotFound
from support.forked import Command, server
from support.patience import PATIENCE
from support.scripts import call, thought
from support.toy_graphs import on

pytestmark = pytest.mark.postgres

GO = {"messages": [("user", "Look, then pay.")]}
WINDOWS = range(1, 8, 2)
"""At which of the writes that wait for their checkpoint it is killed."""

RETURNED = """
import os, signal, sys
from loopwright import open_durability
from integration.test_killed_line import GRAPHS, GO
from support.toy_graphs import on

for name, graph in GRAPHS.items():
    if not os.fork():
        kept = open_durability(sys.argv[1], lease=1.0)
        made = graph(kept, sys.argv[2])
        made.invoke({"said": ["hello"]} if name == "foreign" else GO, on(name))
        os.kill(os.getpid(), signal.SIGKILL)
    os.wait()
"""
LEFT = """
import os, signal, sys
from loopwright import open_durability
from loopwright.store.postgres import group_commit
from integration.test_killed_line import GO, paying
from support.toy_graphs import on

group_commit._PATIENCE = 600.0  # for this one the window stays open
add = group_commit.GroupCommit.add

def runs(left):
    def dying(self, *given):
        nonlocal left
        add(self, *given)
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
    group_commit.GroupCommit.add = dying
    name = f"left {left}"
    kept = open_durability(sys.argv[1], lease=1.0)
    paying(kept, sys.argv[2] + name).invoke(GO, on(name))

for left in map(int, sys.argv[3:]):
    if not os.fork():
        runs(left)
        os._exit(0)
    os.wait()
"""


class Said(TypedDict):
    said: Annotated[list[str], operator.add]


def foreign(kept, _paid):
    """A graph of somebody else's, which holds no thread."""
    builder = StateGraph(Said)
    builder.add_sequence([("one", lambda _: {"said": ["one"]}), ("two", lambda _: {"said": ["2"]})])
    builder.add_edge(START, "one")
    return builder.compile(kept.checkpointer)


def reading(kept, paid):
    return acting(kept, paid, ["look"])


def paying(kept, paid):
    return acting(kept, paid, ["look", "pay"])


def acting(kept, paid, names):
    """A graph that calls these tools, then says it has done so."""

    def look() -> str:
        """Look."""
        return "seen"

    def pay() -> str:
        """Pay."""
        with open(paid, "a", encoding="utf-8") as file:
            file.write("paid\n")
        return "paid"

    def turn(messages, offered):
        done = sum(message.type == "tool" for message in messages)
        if offered:
            return [call(names[done], f"c{done}")]
        more = done < len(names)
        return thought("Next.", more=True, reason="r") if more else thought("The look gave: seen.")

    tools = [StructuredTool.from_function(look, metadata={"readOnlyHint": True})]
    tools += [StructuredTool.from_function(pay)] if "pay" in names else []
    return build_react(
        model=ScriptedModel(turn), tools=tools, durability=kept, observe="direct", policy="allow"
    )


GRAPHS = {"foreign": foreign, "reading": reading, "paying": paying}


def run(script, tmp_path, *given):
    path = tmp_path / "killed.py"
    path.write_text(script)
    with Command(server(), given, env={**os.environ}, script=path) as process:
        assert process.wait(PATIENCE) == 0


def test_what_invoke_has_returned_is_saved(postgres_url, tmp_path):
    run(RETURNED, tmp_path, postgres_url, str(tmp_path / "paid"))
    with open_durability(postgres_url, lease=1.0) as kept:
        for name, graph in GRAPHS.items():
            state = graph(kept, "").get_state(on(name))
            assert not state.next, name
            if name == "foreign":
                assert state.values["said"] == ["hello", "one", "2"]
            else:
                assert state.values["outcome"]["status"] == "complete"
                assert state.values["messages"][-1].text == "The look gave: seen."
    assert (tmp_path / "paid").read_text() == "paid\n"


def test_what_waited_for_its_checkpoint_is_done_again_and_a_write_is_not(postgres_url, tmp_path):
    paid = tmp_path / "paid "
    run(LEFT, tmp_path, postgres_url, str(paid), *map(str, WINDOWS))
    cut = 0
    with open_durability(postgres_url, lease=1.0) as kept:
        for left in WINDOWS:
            name = f"left {left}"
            graph = paying(kept, f"{paid}{name}")
            try:
                cut += bool(graph.get_state(on(name)).next)
                done = graph.invoke(None, on(name), wait=PATIENCE)
            except ThreadNotFound:  # nobody was told that it had begun
                done = graph.invoke(GO, on(name), wait=PATIENCE)
            assert done["outcome"]["status"] == "complete", name
            assert done["outcome"]["answer"] == "The look gave: seen.", name
            assert Path(f"{paid}{name}").read_text() == "paid\n", name
    assert cut > 1, "some must be cut off in their middle for this to prove anything"

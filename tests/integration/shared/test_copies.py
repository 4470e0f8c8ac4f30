"""A copy of the database file, made by sqlite3's own backup while a run is under way."""

import sqlite3
from contextlib import closing
from typing import Any

import pytest
from langchain_core.tools import StructuredTool
from langgraph.types import Command

from loopwright import ScriptedModel, build_react, open_durability
from support.scripts import call, thought
from support.toy_graphs import on

APPROVED: Any = Command(resume={"type": "approve"})


def copy_file(source, target):
    with closing(sqlite3.connect(source)) as old, closing(sqlite3.connect(target)) as new:
        old.backup(new)


def paying(kept, looked=lambda: None):
    """Looks, then asks whether it may pay."""

    def look() -> str:
        """Look."""
        looked()
        return "rent is due"

    def pay() -> str:
        """Pay."""
        return "paid"

    def turn(messages, offered):
        done = sum(message.type == "tool" for message in messages)
        if offered:
            return [call("pay" if done else "look")]
        return thought("The rent is paid.") if done > 1 else thought("Next.", more=True, reason="")

    reads = StructuredTool.from_function(look, metadata={"readOnlyHint": True})
    policy = [{"action": "ask", "tool": "pay"}]
    how = {"policy": policy, "observe": "direct", "durability": kept}
    return build_react(model=ScriptedModel(turn), tools=[reads, pay], **how)


@pytest.mark.parametrize("when", ["in a call", "at a question"])
def test_a_backup_goes_on_where_the_thread_stood(tmp_path, when):
    source, target = tmp_path / "t.db", tmp_path / "copy.db"
    with open_durability(f"sqlite:///{source}") as kept:
        graph = paying(kept, lambda: when == "in a call" and copy_file(source, target))
        assert asks_to_pay(graph.invoke({"messages": [("user", "Go")]}, on("t")))
        if when == "at a question":
            copy_file(source, target)
        mine = graph.invoke(APPROVED, on("t"))
    with open_durability(f"sqlite:///{target}") as kept:
        other = paying(kept)
        if when == "in a call":
            assert asks_to_pay(other.invoke(None, on("t")))
        theirs = other.invoke(APPROVED, on("t"))
        outcomes = [state.values.get("outcome") for state in other.get_state_history(on("t"))]
    for done in (mine, theirs):
        assert done["outcome"]["status"] == "complete"
        assert done["outcome"]["spend"]["tool_calls"] == 2
    assert outcomes[0] == theirs["outcome"]
    assert outcomes[-1] is None


def asks_to_pay(done):
    """Whether the open question is about the payment."""
    (question,) = done["__interrupt__"]
    return question.value["action_requests"][0]["name"] == "pay"

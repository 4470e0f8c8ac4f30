"""Whole runs of task_agent on a scripted model, real Python tools and SQLite."""

import pytest

from loopwright import ScriptedModel, build_task_agent, open_durability
from support.reacting import GOAL, THREAD, said, shelf
from support.scripts import call

OWN = ["read_result", "write_todos", "recall", "summarize_and_continue", "note", "complete_task"]


def done(summary="Ada owns it.", **more):
    return [call("complete_task", summary=summary, **more)]


@pytest.mark.req("S3-01", "S3-02", "S4-01", "S4-12", "S4-52")
def test_calls_turn_by_turn_until_complete_task(tmp_path):
    look = shelf()
    model = ScriptedModel([[call("look", name="owner")], [call("look", name="price")], done()])
    with open_durability(f"sqlite:///{tmp_path}/t.db") as kept:
        graph = build_task_agent(model=model, tools=[look], durability=kept)
        result = graph.invoke(said(), THREAD)
        steps = [s for s in graph.get_state_history(THREAD) if s.next]
    outcome = result["outcome"]
    assert (outcome["status"], outcome["reason"]) == ("complete", "GOAL")
    assert outcome["answer"] == result["messages"][-1].text == "Ada owns it."
    assert look.calls == ["owner", "price"]
    assert [asked.role for asked in model.asked] == ["agent"] * 3
    assert [asked.tools for asked in model.asked] == [["look", *OWN]] * 3
    kinds = ["human", *["ai", "tool"] * 3, "ai"]
    assert [m.type for m in result["messages"]] == kinds
    assert result["messages"][0].text == GOAL
    # Two supersteps a turn: nothing is visited that has nothing to do.
    ran = [step.next[0] for step in reversed(steps)]
    assert ran == ["__start__", "intake", *["agent_turn", "call_tools"] * 3, "finish"]

"""What is on disk while a run is under way: results, tasks and messages belong to the thread."""

import pytest
from langchain_core.messages import BaseMessage, ToolMessage
from langgraph.types import Overwrite

from loopwright import ScriptedModel, build_plan_execute_verify, open_durability
from loopwright.prompts.prompt import read_json
from support.scripts import call, passed, plan, report, todo

THREAD = {"configurable": {"thread_id": "t"}}
GOAL = {"messages": [{"role": "user", "content": "Who lives at the owner's address?"}]}
FACTS = {"owner": "Ada", "Ada": "Hillcrest", "Hillcrest": "Ada and Ben"}


def look(name: str) -> str:
    """Look up a fact."""
    return FACTS[name]


def messages_in(value):
    if isinstance(value, Overwrite):
        value = value.value
    found = value if isinstance(value, list) else [value]
    return [m for m in found if isinstance(m, BaseMessage)]


def saved_messages(url):
    """Every message on disk, of the thread and of the graphs inside it, read by another reader."""
    with open_durability(url) as reader:
        for saved in reader.checkpointer.list(THREAD):
            for value in saved.checkpoint["channel_values"].values():
                yield from messages_in(value)
            for _, _, value in saved.pending_writes or []:
                yield from messages_in(value)


@pytest.mark.req("S0-59", "S0-63", "S0-157")
def test_each_result_is_saved_and_in_the_history_before_the_model_is_asked_again(tmp_path):
    """Three rounds, each call made of the result before it."""
    url = f"sqlite:///{tmp_path / 'threads.db'}"
    on_disk, shown = [], []

    def executor(messages, offered):
        results = [m.text for m in messages if m.type == "tool"]
        shown.append(results)
        saved = {m.id: m.text for m in saved_messages(url) if isinstance(m, ToolMessage)}
        on_disk.append(list(saved.values()))
        if len(results) == 3:
            return report(f"{results[-1]} live there.")
        return [call("look", f"c{len(results)}", name=results[-1] if results else "owner")]

    model = ScriptedModel(
        {
            "planner": [plan(todo("1", "Find who lives there"))],
            "executor": executor,
            "verifier": [passed("Ada and Ben live there.", t1=["1.3.0"])],
        }
    )
    with open_durability(url) as durability:
        graph = build_plan_execute_verify(model=model, tools=[look], durability=durability)
        outcome = graph.invoke(GOAL, THREAD)["outcome"]
    assert outcome["status"] == "complete"
    results = ["Ada", "Hillcrest", "Ada and Ben"]
    assert shown == [results[:n] for n in range(4)]
    assert [sorted(texts) for texts in on_disk] == [sorted(results[:n]) for n in range(4)]


@pytest.mark.req("S0-19")
def test_the_state_alone_tells_what_became_of_tasks_and_messages(tmp_path):
    """A graph that never ran it reads the whole story from the thread."""
    url = f"sqlite:///{tmp_path / 'threads.db'}"
    told = {}

    def verifier(messages, offered):
        told["tasks"] = read_json(messages[1].text, "tasks")
        return passed("Ada owns it.", t1=["1.1.0"], t2=["2.report"])

    model = ScriptedModel(
        {
            "planner": [plan(todo("1", "Find the owner"), todo("2", "Sum up"))],
            "executor": [[call("look", name="owner")], report("Ada."), report("It is Ada's.")],
            "verifier": verifier,
        }
    )
    with open_durability(url) as durability:
        graph = build_plan_execute_verify(model=model, tools=[look], durability=durability)
        graph.invoke(GOAL, THREAD)
    with open_durability(url) as durability:
        other = build_plan_execute_verify(model=ScriptedModel([]), durability=durability)
        history = [s.values for s in reversed(list(other.get_state_history(THREAD)))]
    statuses = [[t["status"] for t in v.get("todos", [])] for v in history]
    flow = [s for n, s in enumerate(statuses) if n == 0 or s != statuses[n - 1]]
    assert flow == [[], ["pending", "pending"], ["completed", "completed"]]
    assert [t["result"] for t in told["tasks"]] == ["Ada.", "It is Ada's."]
    texts = [[m.text for m in v.get("messages", [])] for v in history]
    asked, plan_, owner, summed, answer = texts[-1]
    assert (asked, plan_, answer) == (
        GOAL["messages"][0]["content"], "1. Find the owner\n2. Sum up", "Ada owns it."
    )  # fmt: skip
    assert ("Ada." in owner, "It is Ada's." in summed) == (True, True)
    assert all(texts[-1][: len(seen)] == seen for seen in texts), "nothing is taken back"
    assert history[-1]["outcome"]["tasks"][0]["status"] == "completed"

"""Memory across threads: one user's is found again in another thread, and nobody else's."""

import json

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore

from loopwright import (
    ScriptedModel,
    build_plan_execute_verify,
    build_prompt_flow,
    build_react,
    build_task_agent,
)
from support.flows import flow, step
from support.reacting import DONE, LOOK, said, shelf
from support.scripts import call, passed, plan, report, todo

TEA = "Ada drinks green tea."


def thread(name, user=None):
    return {"configurable": {"thread_id": name} | ({"user_id": user} if user else {})}


def scripts(tool, args, said_by):
    made = [call(tool, **args)]
    return {
        build_task_agent: {"agent": [made, [call("complete_task", summary=said_by)]]},
        build_react: {
            "thought": [LOOK, DONE], "action": [made], "observation": ["It is known now."],
        },
        build_plan_execute_verify: {
            "planner": [plan(todo("1", "Do it"))], "executor": [made, report(said_by)],
            "verifier": [passed(said_by, t1=["1.1.0"])],
        },
        build_prompt_flow: {
            "flow_planner": [flow(step("s1", tool, arguments=args))],
            "answerer": [f"{said_by} [s1]."],
        },
    }  # fmt: skip


GRAPHS = [build_task_agent, build_react, build_plan_execute_verify, build_prompt_flow]


def results(state, tool):
    """The records of calls, as the state keeps them."""
    return [record for record in state["evidence"] if record["tool"] == tool]


@pytest.mark.parametrize("build", GRAPHS, ids=lambda build: build.__name__)
def test_what_one_thread_remembers_another_one_of_the_user_recalls_in_every_graph(build):
    store = InMemoryStore()

    def run(tool, args, where):
        model = ScriptedModel(scripts(tool, args, "The fact about tea is dealt with.")[build])
        graph = build(model=model, tools=[shelf()], memory=store, checkpointer=InMemorySaver())
        graph.invoke(said("Do it."), where)
        return graph.get_state(where).values, model

    kept, _ = run("remember", {"text": TEA}, thread("one", "ada"))
    assert kept["outcome"]["status"] == "complete"
    (made,) = results(kept, "remember")
    assert made["status"] == "success"
    found, model = run("recall_memories", {"query": "drinks"}, thread("two", "ada"))
    (read,) = results(found, "recall_memories")
    (entry,) = json.loads(read["result"])["memories"]
    assert (entry["text"], entry["origin"]) == (TEA, "own")
    assert TEA not in str([m.text for a in model.asked for m in a.messages if m.type == "system"])
    other, _ = run("recall_memories", {"query": "drinks"}, thread("three", "bob"))
    assert json.loads(results(other, "recall_memories")[0]["result"])["memories"] == []
    run("forget", {"id": entry["id"]}, thread("four", "bob"))
    assert len(store.search(("loopwright", "memory"))) == 1
    run("forget", {"id": entry["id"]}, thread("five", "ada"))
    assert store.search(("loopwright", "memory")) == []

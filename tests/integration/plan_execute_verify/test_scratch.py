"""What a finished turn leaves in a SQLite file, and what the next turn takes away."""

import sqlite3
from contextlib import closing

from loopwright import ScriptedModel, build_plan_execute_verify, open_durability
from support.scripts import call, passed, plan, report, todo

GOAL = {"messages": [{"role": "user", "content": "Who owns it?"}]}


def on(thread):
    return {"configurable": {"thread_id": thread}}


def look(name: str) -> str:
    """Look up a fact."""
    return {"owner": "Ada"}[name]


def graph_on(durability, *, policy=None):
    """Every turn: one task, one call; another task in the second turn."""
    model = ScriptedModel(
        {
            "planner": [
                plan(todo("1", "Find the owner")),
                plan(todo("1", "Find the very owner")),
            ],
            "executor": lambda messages, offered: (
                report("It is Ada.")
                if messages[-1].type == "tool"
                else [call("look", name="owner")]
            ),
            "verifier": [passed("Ada owns it.", t1=["1.1.0"])] * 2,
        }
    )
    return build_plan_execute_verify(
        model=model, tools=[look], policy=policy, durability=durability
    )


def rows(path, thread):
    """Rows of a thread as (its own, of the graphs inside it), in both tables."""
    counted = []
    with closing(sqlite3.connect(path)) as database:
        for table in ("checkpoints", "writes"):
            for inner in (False, True):
                where = "thread_id = ? AND (checkpoint_ns <> '') = ?"
                sql = f"SELECT count(*) FROM {table} WHERE {where}"
                counted.append(database.execute(sql, (thread, inner)).fetchone()[0])
    return (counted[0], counted[2]), (counted[1], counted[3])


def ids(graph, thread):
    return [s.config["configurable"]["checkpoint_id"] for s in graph.get_state_history(on(thread))]


def inner_names(path, thread):
    with closing(sqlite3.connect(path)) as database:
        sql = "SELECT DISTINCT checkpoint_ns FROM checkpoints WHERE thread_id = ?"
        return {name for (name,) in database.execute(sql, (thread,)) if name}


def test_the_next_turn_drops_the_tasks_scratch_and_keeps_the_threads_history(tmp_path):
    path = tmp_path / "threads.db"
    with open_durability(f"sqlite:///{path}") as durability:
        graph = graph_on(durability)
        graph.invoke(GOAL, on("t"))
        graph_on(durability).invoke(GOAL, on("other"))
        first, of_first_turn = ids(graph, "t"), inner_names(path, "t")
        assert min(rows(path, "t")[1]) > 0, "a task's rounds are saved while they may be needed"
        others = rows(path, "other")
        result = graph.invoke(GOAL, on("t"))
        assert result["outcome"]["status"] == "complete"
        told = [(m.text, m.type) for m in result["messages"] if "." not in str(m.id)]
        assert told == [("Who owns it?", "human"), ("Ada owns it.", "ai")] * 2
        assert not inner_names(path, "t") & of_first_turn
        assert ids(graph, "t")[-len(first) :] == first, "every checkpoint of the thread is there"
        old = graph.get_state(
            {"configurable": {**on("t")["configurable"], "checkpoint_id": first[0]}}
        )
        assert old.values["outcome"]["status"] == "complete"
        assert old.values["evidence"][0]["result"] == "Ada"
        assert rows(path, "other") == others, "other threads are not touched"

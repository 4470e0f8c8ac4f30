"""Secrets travel in live objects only: nothing that is saved holds one."""

import sqlite3

import pytest
from langchain_openai import ChatOpenAI

from loopwright import ScriptedModel, build_plan_execute_verify, open_durability
from support.mcp_servers import serving
from support.scripts import call, passed, plan, report, todo

SECRET = "sk-TEST-0123456789"


def saved_texts(url, path):
    """Everything in the database in readable form: decoded checkpoints, writes and raw rows."""
    with open_durability(url) as durability:
        for saved in durability.checkpointer.list(None):
            yield repr(saved)
    with sqlite3.connect(path) as database:
        for (table,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'"):
            for row in database.execute(f"SELECT * FROM {table}"):
                yield repr(row)


@pytest.mark.req("P-16")
def test_per_user_headers_reach_the_server_and_no_checkpoint(tmp_path):
    url, path = f"sqlite:///{tmp_path}/t.db", tmp_path / "t.db"
    asked_for = []

    def headers(user):
        asked_for.append(user)
        return {"Authorization": f"Bearer {SECRET}-{user}"}

    def model():
        return ScriptedModel(
            {
                "planner": [plan(todo("1", "Count"))],
                "executor": [[call("count")], report("Counted 1.")],
                "verifier": [passed("The count is 1.", t1=["1.1.0"])],
            }
        )

    with serving() as (_, server), open_durability(url) as durability:
        for user in ("ann", "bob"):
            graph = build_plan_execute_verify(
                model=model(),
                mcp={"mcpServers": {"desk": {"url": server, "headers": headers}}},
                policy="allow",
                durability=durability,
            )
            config = {"configurable": {"thread_id": user, "user_id": user}}
            message = {"messages": [{"role": "user", "content": "Count, please."}]}
            assert graph.invoke(message, config)["outcome"]["status"] == "complete"
    assert {"ann", "bob"} <= set(asked_for)
    texts = list(saved_texts(url, path))
    assert any("Counted 1." in text for text in texts), "the texts are readable"
    assert not [text for text in texts if SECRET in text]


def test_a_models_key_is_not_saved(tmp_path):
    url, path = f"sqlite:///{tmp_path}/t.db", tmp_path / "t.db"
    model = ChatOpenAI(model="m", api_key=SECRET, base_url="http://127.0.0.1:9/v1", max_retries=0)
    with open_durability(url) as durability:
        graph = build_plan_execute_verify(model=model, durability=durability)
        with pytest.raises(Exception, match="did not answer"):
            graph.invoke(
                {"messages": [{"role": "user", "content": "Hello"}]},
                {"configurable": {"thread_id": "t"}},
                context={"model_retries": 0},
            )
    texts = list(saved_texts(url, path))
    assert texts
    assert not [text for text in texts if SECRET in text]

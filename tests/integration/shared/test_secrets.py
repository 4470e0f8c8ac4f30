"""Secrets travel in live objects only: nothing that is saved holds one."""

import asyncio
import hashlib
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from langchain_openai import ChatOpenAI
from langgraph.types import Command

from loopwright import Context, ScriptedModel, build_plan_execute_verify, open_durability
from support.mcp_servers import serving, stdio
from support.scripts import call, passed, plan, report, todo

SECRET = "sk-TEST-0123456789"


def saved_texts(url, path):
    """Everything in the database in readable form: decoded checkpoints, writes and raw rows."""
    with open_durability(url) as durability:
        for saved in durability.checkpointer.list(None):
            yield repr(saved)
    with closing(sqlite3.connect(path)) as database:
        for (table,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'"):
            for row in database.execute(f"SELECT * FROM {table}"):
                yield repr(row)


@pytest.mark.req("P-16")
async def test_users_in_parallel_are_seen_with_their_own_tokens_and_no_checkpoint_holds_one(
    tmp_path,
):
    """The server answers with the seal of the token it was shown: proof, and no secret."""
    url, path = f"sqlite:///{tmp_path}/t.db", tmp_path / "t.db"
    users = [f"user{n}" for n in range(6)]

    async def headers(user):
        await asyncio.sleep(0.02)
        return {"Authorization": f"Bearer {SECRET}-{user}"}

    def executor(messages, offered):
        seals = [m.text for m in messages if m.type == "tool"]
        return report(f"Seals: {seals}") if len(seals) == 2 else [call("seal", f"c{len(seals)}")]

    model = ScriptedModel(
        lambda messages, offered: {
            "planner": lambda: plan(todo("1", "Seal twice")),
            "executor": lambda: executor(messages, offered),
            "verifier": lambda: passed("Sealed twice.", t1=["1.1.0", "1.2.0"]),
        }[messages[0].text.split()[3].rstrip(".")]()
    )
    with serving() as (_, server), open_durability(url) as durability:
        graph = build_plan_execute_verify(
            model=model,
            mcp={"mcpServers": {"desk": {"url": server, "headers": headers}}},
            policy="allow",
            durability=durability,
        )

        async def run(user):
            config = {"configurable": {"thread_id": user, "user_id": user}}
            message = {"messages": [{"role": "user", "content": "Seal, please."}]}
            result = await graph.ainvoke(message, config, context=Context(dedupe="off"))
            state = await graph.aget_state(config)
            return result["outcome"]["status"], [e["result"] for e in state.values["evidence"]]

        ends = await asyncio.gather(*map(run, users))
    for user, (status, seals) in zip(users, ends, strict=True):
        token = f"Bearer {SECRET}-{user}"
        assert (status, seals) == ("complete", [hashlib.sha256(token.encode()).hexdigest()] * 2)
    texts = list(saved_texts(url, path))
    assert any("Sealed twice." in text for text in texts), "the texts are readable"
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


OF_KIND = "SELECT body FROM loopwright_journal WHERE kind = ? ORDER BY seq"


@pytest.mark.req("P-38")
def test_the_journal_of_writes_holds_no_headers_no_environment_and_no_filled_in_names(
    tmp_path, monkeypatch
):
    """Writes that end well and badly, and an approval for the session: each leaves a row."""
    url, path = f"sqlite:///{tmp_path}/t.db", tmp_path / "t.db"
    monkeypatch.setenv("DESK_TOKEN", SECRET)
    book, marker = str(tmp_path / "book"), str(tmp_path / "marker")
    wanted = [
        call("desk_note", "c0", path=book, text="hello"),
        call("desk_told", "c1"),
        call("spare_crash_once", "c2", marker=marker),
    ]
    model = ScriptedModel(
        {
            "planner": [plan(todo("1", "Write"))],
            "executor": [wanted, report("Wrote hello.")],
            "verifier": [passed("Hello was written.", t1=["1.1.0"])],
        }
    )
    config = {"configurable": {"thread_id": "t", "user_id": "ada"}}
    message = {"messages": [{"role": "user", "content": "Write hello."}]}
    with serving() as (_, server), open_durability(url) as durability:
        servers = {
            "desk": {"url": server, "headers": {"Authorization": "Bearer ${DESK_TOKEN}"}},
            "spare": stdio("desk", env={"API_TOKEN": "${DESK_TOKEN}", "PLAIN": SECRET}),
        }
        graph = build_plan_execute_verify(
            model=model,
            mcp={"mcpServers": servers},
            policy=[{"tool": "desk_note", "action": "ask"}, {"action": "allow"}],
            durability=durability,
        )
        assert graph.invoke(message, config)["__interrupt__"]
        answer = {"type": "approve", "remember": "tool"}
        assert graph.invoke(Command(resume=answer), config)["outcome"]["status"] == "complete"
    with closing(sqlite3.connect(path)) as database:
        bodies = database.execute(OF_KIND, ["intent"]).fetchall()
        grants = database.execute(OF_KIND, ["grant"]).fetchall()
    rows = [json.loads(body) for (body,) in bodies]
    assert [(row["tool"], row["state"]) for row in rows] == [
        ("note", "finished"), ("told", "finished"), ("crash_once", "claimed"),
    ]  # fmt: skip
    assert len(grants) == 1
    assert Path(book).read_text() == "hello\n"
    assert not [text for text in saved_texts(url, path) if SECRET in text]
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert path in files
    assert not [file for file in files if SECRET.encode() in file.read_bytes()]

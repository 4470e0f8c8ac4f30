"""What servers repeat of the secrets they were given: masked wherever it is shown or stored."""

import json
import sqlite3
from contextlib import closing

import pytest

from loopwright import ScriptedModel, build_prompt_flow, build_react, open_durability
from loopwright.text.secrets import MASK
from support.flows import flow, planning, step
from support.mcp_servers import stdio
from support.reacting import THREAD, said
from support.scripts import call, thought

TOKEN = 'tok"EN/+x-0123456789'
PASSWORD = "hunter2hunter2"
DSN = f"postgres://ada:{PASSWORD}@db.example.com/orders"
OWN = "sk-own-0123456789abcdef"


@pytest.fixture
def leaky(tmp_path):
    env = {"API_TOKEN": TOKEN, "DATABASE_URL": DSN, "USED": str(tmp_path / "used"), "LANG_": "true"}
    return {"mcpServers": {"leaky": stdio("leaky", env=env)}}


def stored(tmp_path, url):
    """All that is on the disk, and all checkpoints as they read."""
    with open_durability(url) as durability:
        for saved in durability.checkpointer.list(None):
            yield repr(saved)
    with closing(sqlite3.connect(tmp_path / "t.db")) as database:
        for (table,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'"):
            for row in database.execute(f"SELECT * FROM {table}"):
                yield repr(row)
    for file in tmp_path.rglob("*"):
        if file.is_file() and file.name != "used":
            yield file.read_bytes().decode("latin-1")


def leaks(*texts):
    spelled = {TOKEN, json.dumps(TOKEN)[1:-1], repr(TOKEN), PASSWORD, OWN}
    return [one for text in texts for one in spelled if one in str(text)]


@pytest.mark.req("W-50")
def test_nothing_a_server_says_brings_a_secret_into_database_or_events(
    tmp_path, monkeypatch, leaky
):
    """Results, errors, resources, long results, logs, last words; of reads and writes."""
    monkeypatch.setenv("OPENAI_API_KEY", OWN)
    leaky["mcpServers"]["leaky"]["env"]["SPARE"] = "${OPENAI_API_KEY}"
    names = ["environment", "refuse", "fail", "file", "chatter", "rows", "long", "spill", "die"]
    wanted = [call(name, f"c{n}") for n, name in enumerate(names)]
    model = ScriptedModel(
        {
            "thought": [thought("I call them.", more=True), thought("All was said.")],
            "action": [wanted],
            "observation": ["They said what they said."],
        }
    )
    url = f"sqlite:///{tmp_path}/t.db"
    with open_durability(url) as durability:
        graph = build_react(model=model, mcp=leaky, policy="allow", durability=durability)
        events = list(graph.stream(said(), THREAD, stream_mode=["custom", "updates", "messages"]))
        values = graph.get_state(THREAD).values
    ended = {record["tool"]: record["result"] for record in values["evidence"]}
    assert set(ended) == set(names)
    assert f"401 for {MASK}" in ended["fail"]
    assert f"cannot connect with {MASK}" in ended["die"]
    assert "postgres" in ended["environment"]
    assert "db.example.com" in ended["environment"]
    assert '"true"' in ended["environment"], "a word that texts hold for other reasons stays"
    assert any("server_log" in str(event) for event in events), "the server spoke"
    assert leaks(*events, values, [asked.messages for asked in model.asked]) == []
    assert leaks(*stored(tmp_path, url)) == []


@pytest.mark.req("W-50")
@pytest.mark.parametrize("reference", ["{{s1.token}}", "Bearer {{s1.token}}", "{{s1}}"])
def test_a_reference_to_a_masked_value_fails_and_nothing_is_sent(tmp_path, leaky, reference):
    model = planning(
        flow(step("s1", "rows"), step("s2", "use", arguments={"token": reference})),
        recovery=[{"strategy": "give_up", "reason": "no token"}],
    )
    url = f"sqlite:///{tmp_path}/t.db"
    with open_durability(url) as durability:
        graph = build_prompt_flow(model=model, mcp=leaky, policy="allow", durability=durability)
        outcome = graph.invoke(said(), THREAD)["outcome"]
        steps = {one["id"]: one for one in graph.get_state(THREAD).values["todos"]}
    assert steps["s1"]["status"] == "completed"
    assert (steps["s2"]["status"], steps["s2"]["failure"]) == ("failed", "missing_input")
    assert "refers to a secret that was masked" in steps["s2"]["feedback"]
    assert outcome["status"] != "complete"
    assert not (tmp_path / "used").exists()
    assert leaks(*stored(tmp_path, url)) == []


@pytest.mark.req("W-50")
@pytest.mark.parametrize("written", [TOKEN, f"x {MASK}", {"deep": [PASSWORD]}])
def test_a_call_that_carries_a_secret_or_a_mask_does_not_run(tmp_path, leaky, written):
    leaky["mcpServers"]["leaky"]["env"]["PGPASSWORD"] = PASSWORD
    model = ScriptedModel(
        {
            "thought": [thought("I use it.", more=True), thought("It was refused.")],
            "action": [
                [call("use", token=json.dumps(written) if isinstance(written, dict) else written)]
            ],
            "observation": ["It was refused."],
        }
    )
    graph = build_react(model=model, mcp=leaky, policy="allow")
    events = list(graph.stream(said(), stream_mode="custom"))
    (ended,) = [e for e in events if e["type"] == "tool_call" and e["status"] == "error"]
    assert "no call carries a secret" in ended["result"]
    assert leaks(events) == []
    assert not (tmp_path / "used").exists()


@pytest.mark.req("W-50")
def test_a_tool_of_the_program_that_repeats_the_environment_is_masked(monkeypatch):
    monkeypatch.setenv("SHOP_API_KEY", OWN)

    def look(name: str) -> dict[str, str]:
        """Look something up."""
        return {"key": OWN, "name": name}

    def fail() -> str:
        """Fail."""
        msg = f"401: {OWN}"
        raise OSError(msg)

    model = ScriptedModel(
        {
            "thought": [thought("I look.", more=True), thought("It holds a key.")],
            "action": [[call("look", "c0", name="a"), call("fail", "c1")]],
            "observation": ["Seen."],
        }
    )
    graph = build_react(model=model, tools=[look, fail])
    events = list(graph.stream(said(), stream_mode=["custom", "updates"]))
    assert MASK in str(events)
    assert leaks(events, [asked.messages for asked in model.asked]) == []


@pytest.mark.req("W-50")
def test_a_row_of_the_journal_of_a_doubtful_write_holds_no_secret(tmp_path, leaky):
    """The server dies under a write and says the secret: the question says it masked."""
    model = ScriptedModel(
        {
            "thought": [thought("I use it.", more=True), thought("Nobody knows.")],
            "action": [[call("perish")]],
            "observation": ["Nobody knows."],
        }
    )
    url = f"sqlite:///{tmp_path}/t.db"
    with open_durability(url) as durability:
        graph = build_react(model=model, mcp=leaky, policy="allow", durability=durability)
        outcome = graph.invoke(said(), THREAD)["outcome"]
    assert f"cannot connect with {MASK}" in outcome["uncertain_calls"][0]["why"]
    assert leaks(*stored(tmp_path, url)) == []

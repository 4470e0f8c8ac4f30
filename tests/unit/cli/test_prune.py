"""`loopwright prune`: its options, its report, and its exit codes."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from loopwright import ScriptedModel, build_react, open_durability
from loopwright.cli.app import app
from support.scripts import thought


def on(thread):
    return {"configurable": {"thread_id": thread}}


@pytest.fixture
def database(tmp_path, monkeypatch):
    """Two threads of three turns, one of which waits for an answer."""
    monkeypatch.chdir(tmp_path)
    url = f"sqlite:///{tmp_path}/t.db"

    def pay() -> str:
        """Pay."""
        return "paid"

    model = ScriptedModel({
        "thought": [thought("Ada owns it.")] * 6 + [thought("I pay.", more=True, reason="due")],
        "action": [[{"name": "pay", "args": {}, "id": "a"}]],
    })  # fmt: skip
    with open_durability(url) as kept:
        graph = build_react(model=model, tools=[pay], policy="ask", durability=kept)
        for thread in ("rests", "asks"):
            for _ in range(3):
                graph.invoke({"messages": [("user", "Who owns it?")]}, on(thread))
        assert "__interrupt__" in graph.invoke({"messages": [("user", "Pay")]}, on("asks"))
    return url


def told(*args):
    done = CliRunner().invoke(app, [*args])
    return done.exit_code, done.output


@pytest.mark.req("W-15", "P-23")
def test_threads_at_rest_are_pruned_and_the_others_named(database):
    code, text = told("prune", "--keep", "latest", "--db", database)
    assert code == 0
    assert "asks was left as it is: a question waits for an answer" in text
    assert "1 thread pruned: " in text
    code, text = told("prune", "--keep", "latest", "--db", database, "--json")
    report = json.loads(text)
    assert (code, report["threads"]) == (0, [])
    assert report["left"] == {"asks": "a question waits for an answer"}
    assert report["bytes"]["before"] == report["bytes"]["after"] > 0
    code, text = told("threads", "--db", database)
    assert code == 0
    assert {line.split("\t")[2] for line in text.splitlines()} == {"status", "waiting", "complete"}


@pytest.mark.req("W-15", "P-23")
@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        ([], "Say what is kept by one of --keep latest, --turns N and --older-than 30d."),
        (["--keep", "all"], "keep='all' is not known"),
        (["--turns", "0"], "--turns"),
        (["", "--turns", "1"], "cannot be used"),
    ],
    ids=str,
)
def test_wrong_use_is_told_and_prunes_nothing(database, args, sentence):
    code, text = told("prune", *args, "--db", database)
    assert code == 2
    assert sentence in text
    with open_durability(database) as kept:
        assert len([*kept.checkpointer.list(on("rests"))]) > 3


@pytest.mark.req("W-93")
def test_it_is_done_again_and_again_until_it_is_stopped(database, monkeypatch):
    pauses, url = [], database

    def sleep(seconds):
        pauses.append(seconds)
        if len(pauses) == 2:  # somebody has put another file there
            Path(url.removeprefix("sqlite:///")).write_text("no database", encoding="utf-8")
        if len(pauses) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("loopwright.cli.threads.time.sleep", sleep)
    code, text = told("prune", "--older-than", "0m", "--every", "12h", "--db", url)
    assert (code, pauses) == (130, [43_200.0] * 3)
    assert text.count("asks was left as it is: a question waits for an answer") == 2
    assert ("1 thread pruned: " in text, "0 threads pruned: " in text) == (True, True)
    assert text.count("as a database") == 1

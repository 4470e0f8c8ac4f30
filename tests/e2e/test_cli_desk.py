"""`loopwright desk` as an operator uses it: real processes on the database of a real thread."""

import json
import os

import pytest

from loopwright import ScriptedModel, build_customer_service, open_durability
from loopwright.state.desk import AWAY
from support.forked import Command, Done, server
from support.guarded import ADA, POLICY, Shop, refund
from support.patience import PATIENCE
from support.reacting import said


def desk(*args, db):
    return ran("desk", *args, "--db", db)


def ran(*args):
    with Command(server(), args, stdin="", env={**os.environ}) as command:
        return Done(command.wait(PATIENCE), *command.said())


@pytest.mark.req("S4-69", "P-32")
def test_an_operator_lists_sees_answers_and_returns(tmp_path):  # noqa: PLR0915 - one working day
    db = f"sqlite:///{tmp_path}/t.db"
    assert "nobody waits" in desk(db=db).stderr
    config = {"configurable": {"thread_id": "ada"}}
    with open_durability(db) as kept:
        graph = build_customer_service(model=ScriptedModel({}), durability=kept)
        graph.invoke(said("I want a human"), config)
        (one,) = kept.handed_over()
        assert (one.thread_id, one.waiting, one.why) == (
            "ada",
            True,
            "the customer asked for a human",
        )

        listed = json.loads(desk("--json", db=db).stdout)["waiting"]
        assert [(row["thread"], row["hand_over"]) for row in listed] == [("ada", one.id)]
        shown = desk("ada", db=db).stdout
        assert "customer: I want a human" in shown
        assert max(map(len, shown.splitlines())) <= 80

        told = desk("ada", "Hi, I am Eve.", db=db)
        assert "> Hi, I am Eve." in told.stdout
        assert "yours" in told.stdout
        # The customer writes: the hand-over is the same, and an answer to it still counts.
        graph.invoke(said("Hello Eve"), config)
        graph.invoke(one.reply("How can I help?"), config)
        refused = desk("ada", "--approve", db=db)
        assert (refused.returncode, "No change waits" in refused.stderr) == (2, True)
        graph.stop(config)  # even a turn that was stopped stays a colleague's
        assert not kept.handed_over()[0].waiting
        back = json.loads(desk("ada", "Bye.", "--return", "--json", db=db).stdout)
        assert (back["owner"], back["waiting"]) == ("bot", False)
        assert back["said"][-2:] == ["Bye.", back["outcome"]["answer"]]
        assert kept.handed_over() == []
        assert desk("ada", "--return", db=db).returncode == 2
        desk("--away", "12h", db=db)
        assert "until" in kept.store.get(*AWAY).value
        desk("--back", db=db)
        assert kept.store.get(*AWAY) is None
        words = [m.text for m in graph.get_state(config).values["messages"]]
        order = ["Hi, I am Eve.", "Hello Eve", "How can I help?", "Bye."]
        assert [word for word in words if word in order] == order


def test_no_colleague_approves_where_the_change_cannot_run(tmp_path):
    db, config = f"sqlite:///{tmp_path}/t.db", {"configurable": {"thread_id": "ada"}}
    understood = {"intent": "refund", "mood": "calm", "score": 0}
    model = ScriptedModel({"listener": [understood], "support": [[ADA], [refund("A-2", 400.0)]]})
    with open_durability(db) as kept:
        graph = build_customer_service(
            model=model, tools=Shop(tmp_path).tools(), policy=str(POLICY), durability=kept
        )
        graph.invoke(said("Refund A-2"), config)
        refused = desk("ada", "--approve", db=db)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert "There is no tool request_refund here" in refused.stderr
        (one,) = kept.handed_over()
        assert one.packet["proposal"]["why"], "it still waits for a word"


@pytest.mark.req("P-32")
def test_a_customer_at_a_terminal_is_told_what_is_said_and_never_asked_to_decide(tmp_path):
    db = f"sqlite:///{tmp_path}/t.db"
    own = ("--db", db, "--thread", "ada")
    begun = ran("run", "I want a human", "--graph", "customer_service", "--yes", *own)
    assert begun.returncode == 5
    assert "I am handing you over to a colleague" in begun.stdout
    assert "Waiting for an answer" not in begun.stdout
    desk("ada", "I am Eve.", db=db)
    again = ran("run", "Hello Eve", "--yes", *own)
    assert "A colleague: I am Eve." in again.stdout
    desk("ada", "--return", db=db)
    assert json.loads(desk("--json", db=db).stdout)["waiting"] == []


@pytest.mark.req("P-32")
def test_a_colleague_claims_a_customer_who_goes_on_writing_through_a_pipe(tmp_path):
    db = f"sqlite:///{tmp_path}/t.db"
    chat = ("chat", "--graph", "customer_service", "--db", db, "--thread", "ada")
    lines = "I want a human\nMy order is A-1\nPlease hurry\n"
    with Command(server(), chat, stdin=lines, env={**os.environ}) as command:
        assert command.wait(PATIENCE) == 5
    desk("ada", "--claim", "--as", "eve", db=db)
    (row,) = json.loads(desk("--json", db=db).stdout)["waiting"]
    assert (row["holder"], row["is_new"]) == ("eve", True)
    assert "customer: Please hurry" in desk("ada", db=db).stdout
    refused = desk("ada", "I am Dan.", "--as", "dan", db=db)
    assert refused.returncode != 0
    assert "eve has this conversation" in refused.stderr
    desk("ada", "--pass-to", "dan", "--as", "eve", db=db)
    assert "> I am Dan." in desk("ada", "I am Dan.", "--as", "dan", db=db).stdout
    desk("ada", "--release", "--as", "dan", db=db)
    (row,) = json.loads(desk("--json", db=db).stdout)["waiting"]
    assert (row["holder"], row["is_new"]) == ("", False)

"""`take`: a turn runs once by its id, whatever happened to it before, in its thread's order."""

import os
import time
from pathlib import Path

import pytest
from langchain_core.messages import HumanMessage
from langgraph.runtime import RunControl
from langgraph.types import Command

from loopwright import (
    AnswerRejected,
    ModelCallFailed,
    PolicyTable,
    SettingsError,
    ThreadError,
    ThreadIncompatible,
    build_plan_execute_verify,
    build_react,
    open_durability,
)
from loopwright.policy.rules import GovernedTool
from loopwright.run.take import read_given
from loopwright.run.turn_input import DEADLY
from loopwright.store.locks.thread_locks import lock_thread_blocking
from loopwright.store.work.turns import Turn
from support.forked import Command as Process, server
from support.patience import PATIENCE
from support.shop import THREAD, Booked, Shop, said

APPROVED: Command[None] = Command(resume={"type": "approve"})


@pytest.fixture
def durability(url):
    with open_durability(url) as opened:
        yield opened


def test_the_same_id_is_the_same_turn_for_as_long_as_the_thread_is_kept(durability):
    shop = Shop(durability)
    first = shop.graph.take(THREAD, "apples", id="one", context={"max_iterations": 9})
    assert (first.state, first.outcome["answer"]) == ("ended", "apples is paid")
    shop.graph.take(THREAD, "bread", id="two")
    durability.prune(turns=1)
    again = shop.graph.take(THREAD, "apples", id="one")
    assert (again.state, again.outcome) == ("ended", first.outcome)
    assert shop.paid == ["apples", "bread"]
    with pytest.raises(SettingsError, match="another turn with the id 'one'"):
        shop.graph.take(THREAD, "cheese", id="one")
    durability.checkpointer.delete_thread("t")
    assert shop.graph.take(THREAD, "apples", id="one").outcome["status"] == "complete"
    assert shop.paid == ["apples", "bread", "apples"]


def test_a_question_is_told_to_whoever_takes_the_thread_until_it_is_answered(durability):
    shop = Shop(durability, policy="ask")
    for name in ("apples", "bread", "apples"):
        asked = shop.graph.take(THREAD, name, id=name)
        assert (asked.state, asked.questions[0].value["type"]) == ("asks", "tool_approval")
        assert "apples" in str(asked.questions[0].value)
    with pytest.raises(AnswerRejected, match="No question"):
        shop.graph.take(THREAD, Command(resume={"0" * 32: {"type": "approve"}}), id="yes")
    assert shop.graph.take(THREAD, APPROVED, id="yes").outcome["answer"] == "apples is paid"
    assert shop.graph.take(THREAD, "apples", id="apples").outcome["answer"] == "apples is paid"
    assert shop.graph.take(THREAD, APPROVED, id="yes").state == "ended", "it is given once"
    assert shop.graph.take(THREAD, "bread", id="bread").state == "asks"
    assert shop.graph.take(THREAD, APPROVED, id="yes").state == "ended", "not to another question"
    assert shop.paid == ["apples"]
    shop.graph.invoke(APPROVED, THREAD)  # or by who calls the graph
    assert shop.graph.take(THREAD, "bread", id="bread").outcome["answer"] == "bread is paid"
    with pytest.raises(AnswerRejected, match="no question waiting"):
        shop.graph.take(THREAD, APPROVED, id="late")
    with pytest.raises(AnswerRejected, match="no question waiting"):
        shop.graph.take(THREAD, APPROVED, id="late")


def test_one_turn_of_a_thread_runs_at_a_time(durability):
    shop = Shop(durability)
    with lock_thread_blocking(lambda: durability.locks, "t"):
        busy = shop.graph.take(THREAD, "apples", id="one")
        assert (busy.state, busy.after > 0, "holds the thread" in busy.why) == ("busy", True, True)
    control = RunControl()
    control.request_drain("the engine leaves")
    rests = shop.graph.take(THREAD, "apples", id="one", control=control)
    assert (rests.state, rests.after, shop.paid) == ("busy", 0.0, [])
    assert shop.graph.take(THREAD, "bread", id="two").outcome["answer"] == "bread is paid"
    assert shop.paid == ["apples", "bread"], "what was cut off ends before the next one begins"
    assert said(shop.graph.get_state(THREAD).values["messages"]) == ["apples", "bread"]
    assert shop.graph.take(THREAD, "apples", id="one").state == "ended"


def test_an_error_of_the_run_is_raised_and_taking_it_again_goes_on(durability):
    shop = Shop(durability)
    shop.away = 40
    with pytest.raises(ModelCallFailed, match="the model is away"):
        shop.graph.take(THREAD, "apples", id="one")
    shop.away = 0
    assert shop.graph.take(THREAD, "apples", id="one").outcome["status"] == "complete"
    assert (shop.paid, said(shop.graph.get_state(THREAD).values["messages"])) == (
        ["apples"], ["apples"],
    )  # fmt: skip
    build_plan_execute_verify(model="offline", durability=durability).invoke(
        {"messages": [("user", "hello")]}, other := {"configurable": {"thread_id": "u"}}
    )
    with pytest.raises(ThreadIncompatible):
        shop.graph.take(other, "cheese", id="three")


def test_a_turn_that_ends_its_process_again_and_again_is_not_begun_for_ever(durability):
    shop, control = Shop(durability), RunControl()
    turn = turn_of("one", "apples")
    shop.during = lambda: control.request_drain("now")
    shop.graph.take(THREAD, "apples", id="one", control=control)
    for _ in range(DEADLY):  # it failed, which ends no process
        shop.records.begin(turn)
        shop.records.leave(turn, why="the model is away")
    for _ in range(DEADLY):
        shop.records.begin(turn)
    for _ in range(2):
        with pytest.raises(ThreadError, match="begun 20 times, and ended its process each time"):
            shop.graph.take(THREAD, "apples", id="one")
    assert shop.graph.take(THREAD, "bread", id="two").outcome["answer"] == "bread is paid"
    assert shop.records.read("t", "one").state == "aside", "nobody goes on with it"
    assert shop.paid == ["apples", "bread"]


def test_failures_are_no_deaths(durability):
    shop, turn = Shop(durability), turn_of("one", "apples")
    for _ in range(DEADLY + 1):
        shop.records.begin(turn)
        shop.records.leave(turn, why="the model is away")
    shop.records.begin(turn)  # and dies once
    assert shop.graph.take(THREAD, "apples", id="one").outcome["status"] == "complete"


def test_an_outcome_is_that_of_its_own_turn(durability, monkeypatch):
    """One may die between the end of a run and the record of it."""
    shop = Shop(durability)
    with monkeypatch.context() as dying:
        dying.setattr(shop.records, "end", dies)
        with pytest.raises(RuntimeError, match="died"):
            shop.graph.take(THREAD, "apples", id="one")
    shop.graph.take(THREAD, "bread", id="two")
    assert shop.records.read("t", "one").outcome is None
    assert shop.graph.take(THREAD, "apples", id="one").state == "ended"
    assert shop.paid == ["apples", "bread"]


def dies(*_):
    raise RuntimeError("died")


def test_an_answer_is_for_the_question_that_it_was_first_given_for(durability, monkeypatch):
    """Of two who take it at once one may look before the other, and hold the thread after it."""
    shop = Shop(durability, policy="ask")
    shop.graph.take(THREAD, "apples", id="one")
    with monkeypatch.context() as dying:
        dying.setattr(shop.records, "end", dies)
        with pytest.raises(RuntimeError, match="died"):
            shop.graph.take(THREAD, APPROVED, id="yes")
    assert shop.graph.take(THREAD, "bread", id="two").state == "asks"
    seen = [None, shop.records.read("t", "yes")]
    monkeypatch.setattr(shop.records, "read", lambda *_: seen.pop(0))
    assert shop.graph.take(THREAD, APPROVED, id="yes").state == "ended"
    assert shop.paid == ["apples"]


def test_an_id_that_no_database_keeps_as_it_is_names_one_turn_all_the_same(durability):
    shop, control = Shop(durability), RunControl()
    shop.during = lambda: control.request_drain("now")
    for name in ("\0 one", "\ud800 two"):
        control = RunControl()
        assert shop.graph.take(THREAD, "apples", id=name, control=control).state == "busy"
        assert shop.graph.take(THREAD, "apples", id=name).state == "ended"
        assert said(shop.graph.get_state(THREAD).values["messages"]) == ["apples"]
        durability.checkpointer.delete_thread("t")


def turn_of(name, words):
    return Turn(id=name, thread="t", graph="react", **read_given(words))


async def test_what_was_given_up_halfway_is_not_gone_on_with(durability):
    """Else the turn that ends its workers would end those of the next turns, too."""
    shop, control = Shop(durability), RunControl()
    shop.during = lambda: control.request_drain("now")
    await shop.graph.atake(THREAD, "apples", id="apples", control=control)
    assert shop.graph.get_state(THREAD).next
    turn = turn_of("apples", "apples")
    shop.records.leave(turn, why="It ended its worker each time.")
    assert shop.records.give_up(turn, "aside")
    await shop.graph.atake(THREAD, "bread", id="bread")
    assert shop.paid == ["apples", "bread"]
    assert said(shop.graph.get_state(THREAD).values["messages"]) == ["apples", "bread"]


@pytest.mark.parametrize(
    ("message", "more", "why"),
    [
        ("", {}, "or empty"),
        ({"role": "wizard", "content": "x"}, {}, "wizard"),
        ({"role": "assistant", "content": "x"}, {}, "none of the user's"),
        ("x", {"context": {"max_iterations": "many"}}, "context is wrong"),
        ({"messages": ["x"], "plan": object()}, {}, "must be JSON"),
        (HumanMessage("x"), {"id": "apples"}, "another turn with the id"),
        ("x", {"id": None}, "id=None names no turn"),
    ],
)
def test_what_cannot_be_read_is_refused(tmp_path, message, more, why):
    with open_durability(f"sqlite:///{tmp_path}/threads.db") as durability:
        shop = Shop(durability)
        shop.graph.take(THREAD, "apples", id="apples")
        with pytest.raises(SettingsError, match=why):
            shop.graph.take(THREAD, message, **{"id": "new", **more})


def test_a_turn_has_an_id_only_where_something_outlives_the_process():
    with pytest.raises(SettingsError, match="durability="):
        build_react(model="offline").take(THREAD, "x", id="one")


def test_a_file_takes_turns_and_has_no_queue(tmp_path):
    with open_durability(f"sqlite:///{tmp_path}/threads.db") as durability:
        shop = Shop(durability)
        with pytest.raises(SettingsError, match=r"no queue: .*graph\.take.*docs/engines\.md"):
            shop.graph.enqueue(THREAD, "apples")
        assert durability.turns() == []


@pytest.mark.req("W-120")
def test_a_customer_answers_no_question_of_the_operators(durability):
    asks = GovernedTool(name="pay", verdict="asks", identity=False)
    shop = Shop(durability, policy=PolicyTable(tools={"pay": asks}))
    shop.graph.take(THREAD, "apples", id="one")
    with pytest.raises(AnswerRejected, match="Only the operator"):
        shop.graph.take(THREAD, APPROVED, id="yes", answered_by="customer")
    assert shop.graph.take(THREAD, APPROVED, id="yes").state == "ended"
    assert shop.paid == ["apples"]


DEATHS = range(1, 13)
"""At which transaction of its saver a process is killed."""

KILLED = """
import os, signal, sys
from pathlib import Path
from loopwright import open_durability
from support.shop import Booked

def run(left):
    with open_durability(sys.argv[1], lease=1.0) as kept:
        saver = kept.checkpointer.inner
        name = "_begin_write" if hasattr(saver, "_begin_write") else "cursor"
        whole = getattr(saver, name)
        def counting(*given, **how):
            nonlocal left
            left -= how.get("transaction") is not False
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return whole(*given, **how)
        setattr(saver, name, counting)
        thread = f"killed {left}"
        shop = Booked(kept, Path(thread))
        shop.graph.take({"configurable": {"thread_id": thread}}, "apples", id="one")
    os._exit(0)

for left in map(int, sys.argv[2:]):
    if not os.fork():
        run(left)
    os.wait()
"""


def test_wherever_a_process_is_killed_whoever_takes_the_turn_again_pays_once(url, tmp_path):
    script = tmp_path / "killed.py"
    script.write_text(KILLED)
    deaths = map(str, DEATHS)
    with Process(server(), (url, *deaths), env={**os.environ}, script=script) as process:
        assert process.wait(PATIENCE) == 0
    cut = []
    with open_durability(url, lease=1.0) as kept:
        for left in DEATHS:
            thread, book = {"configurable": {"thread_id": f"killed {left}"}}, Path(f"killed {left}")
            shop = Booked(kept, book)
            cut.append(book.exists())
            for name, words in (("two", "bread"), ("one", "apples")):
                taken = take_until_it_ended(shop, thread, book, words, name)
                assert taken.outcome is None or taken.outcome["status"] == "complete"
            assert sorted(book.read_text().split()) == ["apples", "bread"], left
            asked = said(shop.graph.get_state(thread).values["messages"])
            assert asked in (["apples", "bread"], ["bread", "apples"]), left
            assert asked[0] == "apples" or not cut[-1], left
    assert {True, False} == set(cut), "before the payment, and after it"


def take_until_it_ended(shop, thread, book, words, name):
    """As an engine does, and a person who looks into the book."""
    answers = 0
    while (taken := shop.graph.take(thread, words, id=name)).state != "ended":
        if taken.state == "busy":
            time.sleep(taken.after / 5)  # the lease of the dead ends
            continue
        what = taken.questions[0].value["action_request"]["args"]["what"]
        paid = book.exists() and what in book.read_text().split()
        reply = {"type": "respond", "message": f"paid {what}"} if paid else {"type": "approve"}
        shop.graph.take(thread, Command(resume=reply), id=f"answer {name} {answers}")
        answers += 1
    return taken

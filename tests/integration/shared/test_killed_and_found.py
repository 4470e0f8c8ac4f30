"""Operators are told the truth of threads whose processes were killed, wherever that was."""

import os
import time

import pytest
from langgraph.checkpoint.serde.types import INTERRUPT
from langgraph.types import Command

from loopwright import open_durability
from loopwright.store.base import langgraph_keys as keys
from loopwright.store.checkpoints.thread_head import ThreadHead
from loopwright.store.threads.thread_list import ThreadQuery
from support.asking import asks_in_parallel, on
from support.forked import Command as Process, server
from support.patience import PATIENCE

ALL = ThreadQuery(None, "newest", None, held=True)

DEATHS = (*range(0, 28, 4), 40, 60)
"""By how many transactions of its saver a process has come when it is killed; 0: it is not."""

KILLED = """
import os, signal, sys
from contextlib import contextmanager
from langgraph.types import Command
from loopwright import open_durability
from support.asking import SAID, asks_in_parallel, on

def runs(left):
    with open_durability(sys.argv[1], lease=1.5) as kept:
        saver, thread = kept.checkpointer.inner, on(f"killed {left}")
        name = "_begin_write" if hasattr(saver, "_begin_write") else "cursor"
        whole = getattr(saver, name)
        @contextmanager
        def dying(*given, **how):
            nonlocal left
            if how.get("transaction") is False:
                with whole(*given, **how) as read:
                    yield read
                return
            left -= 1
            with whole(*given, **how) as written:
                yield written
                if left == 0 and sys.argv[2] == "before":
                    os.kill(os.getpid(), signal.SIGKILL)
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        setattr(saver, name, dying)
        graph = asks_in_parallel(durability=kept)
        done = graph.invoke(SAID, thread)
        while "killed 0" not in str(thread) and (asked := done.get("__interrupt__")):
            done = graph.invoke(Command(resume={asked[0].id: {"type": "approve"}}), thread)
    os._exit(0)  # one of them in order, with its question

for left in map(int, sys.argv[3:]):
    if not os.fork():
        runs(left)
    os.wait()
"""


def saved(kept, thread):
    """What is saved of tasks and steps; a question that is asked again is the same."""
    found = set()
    for one in kept.checkpointer.list({"configurable": {"thread_id": thread}}):
        place = one.config["configurable"]
        at = (place["checkpoint_ns"], place["checkpoint_id"])
        for task, name, value in one.pending_writes:
            if task != keys.NULL_TASK:
                found.add((*at, task, name, str(value) if name == INTERRUPT else ""))
        found.add(at)
    return found


@pytest.mark.req("W-93")
@pytest.mark.parametrize(
    ("kind", "when"),
    [("sqlite", "after"), pytest.param("postgres", "before", marks=pytest.mark.postgres)],
)
def test_a_thread_is_unfinished_exactly_if_a_resume_goes_on(kind, when, request, tmp_path):
    postgres = kind == "postgres"
    url = request.getfixturevalue("postgres_url") if postgres else f"sqlite:///{tmp_path}/t.db"
    script = tmp_path / "killed.py"
    script.write_text(KILLED)
    deaths = map(str, DEATHS if when == "before" else DEATHS[1:])
    with Process(server(), (url, when, *deaths), env={**os.environ}, script=script) as process:
        assert process.wait(PATIENCE) == 0
    with open_durability(url, lease=1.5) as kept:
        while postgres and any(one.held for one in kept._database.find(ALL)):
            time.sleep(0.1)  # until the leases of the dead have ended
        told = {
            which: {one.thread_id for one in kept.threads(which)}
            for which in ("unfinished", "waiting", "expired", None)
        }
        graph = asks_in_parallel(durability=kept)
        seen = [is_told_rightly(kept, graph, name, told, postgres) for name in told[None]]
        assert {True, False} <= set(seen)
        if when == "before":
            assert "killed 0" in told["waiting"] - (told["expired"] if postgres else set())
        assert kept.threads("unfinished") == kept.threads("expired") == []


def is_told_rightly(kept, graph, name, told, postgres):
    """Whether a resume went on with it; in the end its turn has ended."""
    before = saved(kept, name)
    done = graph.invoke(None, on(name))
    goes_on = bool(saved(kept, name) - before)
    head = ThreadHead(kept.checkpointer.get_tuple(on(name, checkpoint_ns="")))
    asks = "__interrupt__" in done
    over = not goes_on and not asks
    assert (name in told["unfinished"]) == (not over), name
    assert name not in told["waiting"] or asks, name
    assert name in told["waiting"] or goes_on or over, name
    if postgres:
        assert (name in told["expired"]) == (not over and name != "killed 0"), name
        assert not (goes_on and name in told["waiting"]), name
    else:
        assert (name in told["expired"]) == (not over and name not in told["waiting"]), name
    assert asks == bool(head.list_interrupts())
    while asked := done.get("__interrupt__"):
        done = graph.invoke(Command(resume={asked[0].id: {"type": "approve"}}), on(name))
    assert done["outcome"]["status"] == "complete"
    return goes_on

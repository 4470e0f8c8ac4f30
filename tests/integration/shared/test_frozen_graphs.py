"""A process that is frozen in the middle of whatever graph, while another one ends its turns."""

import asyncio
import os
import signal
from contextlib import contextmanager

import psycopg
import pytest
from langgraph.types import Command

from loopwright import open_durability
from loopwright.store.postgres.schema import STATEMENTS
from loopwright.stream import meters
from support import frozen
from support.killed import _SPAWN as SPAWN
from support.patience import PATIENCE
from support.postgres import everything

pytestmark = pytest.mark.postgres

HOLDS = next(one for one in STATEMENTS if "FUNCTION loopwright_holds" in one)
LOST = "LeaseLost: Another run has taken the thread"


@pytest.fixture
def server(postgres_url):
    """A connection to the database."""
    open_durability(postgres_url).close()
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        yield connection


def count_refusals(server):
    """Have it count what it refuses where no rollback undoes it, until somebody opens it anew."""
    server.execute("CREATE SEQUENCE refusals")
    server.execute("SELECT nextval('refusals')")
    counts = "    PERFORM nextval('refusals');\n    RAISE"
    server.execute(HOLDS.replace("    RAISE", counts))


def reply(scene, question):
    """What was paid is told; what is asked before it is paid is refused, whoever allowed it."""
    given = question.value.get("action_requests") or [question.value["action_request"]]
    what = given[0]["args"]["what"]
    if question.value["type"] != "uncertain_call":
        return "reject"
    return f"respond: paid {what}" if what in scene.paid else "approve"


async def ended(scene, durability):
    """Take the thread over, and end its turn."""
    graph, given = scene.built(durability), None
    while True:
        config, context = scene.config, scene.context
        result = await graph.ainvoke(given, config, context=context, wait=PATIENCE)
        if not (asked := (await graph.aget_state(config)).interrupts):
            return result["outcome"]
        given = Command(resume={one.id: reply(scene, one) for one in asked})


async def all_ended(scenes, url):
    with open_durability(url, lease=frozen.LEASE) as durability:
        return await asyncio.gather(*(ended(scene, durability) for scene in scenes))


@contextmanager
def another(url, folder):
    """A process that works on all scenes, and what it tells."""
    ours, theirs = SPAWN.Pipe()
    process = SPAWN.Process(target=frozen.works, args=(url, str(folder), theirs))
    process.start()
    theirs.close()  # so that its end is heard
    try:
        yield process.pid, ours
    finally:
        process.kill()
        process.join()


@pytest.mark.req("W-90", "W-92")
def test_whoever_was_frozen_anywhere_in_any_graph_writes_nothing_when_it_wakes(
    bouncer_url, server, tmp_path, meter
):
    scenes = frozen.scenes(tmp_path)
    with another(bouncer_url, tmp_path) as (late, wire):
        assert {wire.recv() for _ in scenes} == {("at", scene.thread) for scene in scenes}
        os.kill(late, signal.SIGSTOP)
        outcomes = asyncio.run(all_ended(scenes, bouncer_url))
        before, paid = everything(server), [scene.paid for scene in scenes]
        count_refusals(server)
        os.kill(late, signal.SIGCONT)
        wire.send("go on")
        told, (_, heard) = [wire.recv() for _ in scenes], wire.recv()
    for scene, outcome, what in zip(scenes, outcomes, paid, strict=True):
        assert scene.paid == what, f"{scene.thread}: paid by whoever had lost it"
        assert sorted(what) == sorted({*what}), f"{scene.thread}: paid twice"
        assert ("second" in what) == (scene.point != "answer"), scene.thread
        assert outcome["uncertain_calls"] == []
        assert scene.point == "answer" or outcome["status"] == "complete", outcome
    assert everything(server) == before
    assert [how for *_, how in told if not how.startswith(LOST)] == []
    count = server.execute("SELECT last_value - 1 FROM refusals").fetchone()[0]
    assert heard == {meters.LOST: len(scenes), meters.UNWRITTEN: count}
    assert meter.heard(meters.TAKEOVERS) == {(): len(scenes)}

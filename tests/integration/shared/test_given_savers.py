"""A saver of LangGraph's that somebody gave: journal and locks stand in its database."""

import asyncio
import os
import signal

import pytest
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.types import Command

from loopwright import ScriptedModel, ThreadBusy, build_react
from support.elsewhere import ElsewhereSaver
from support.forked import Command as Process, server
from support.patience import PATIENCE
from support.places import reach
from support.scripts import call, thought
from support.toy_graphs import on

SAID = {"messages": [("user", "Pay Ada.")]}

KILLED = (
    reach(__file__)
    + """
import asyncio, os, signal, sys
from contextlib import nullcontext
from test_given_savers import SAID, opened, paying
from support.toy_graphs import on

async def main():
    async with opened(sys.argv[1]) as saver:
        await paying(saver, sys.argv[2], dies=True).ainvoke(SAID, on("t"))

asyncio.run(main())
"""
)


def paying(saver, paid, *, dies=False, **more):
    """Pays once; a process that dies does so in the middle of the payment."""

    def pay(name: str) -> str:
        """Pay somebody."""
        with open(paid, "a", encoding="utf-8") as book:
            book.write(f"{name}\n")
        if dies:
            os.kill(os.getpid(), signal.SIGKILL)
        return f"paid {name}"

    def turn(messages, offered):
        done = messages[-1].type == "tool" or "paid" in messages[-1].text
        if offered:
            return [call("pay", name="Ada")]
        return thought("Ada was paid.") if done else thought("I pay.", more=True, reason="due")

    given = {"policy": "allow", "observe": "direct", **more}
    return build_react(model=ScriptedModel(turn), tools=[pay], checkpointer=saver, **given)


class _Synchronous:
    def __init__(self, within):
        self._within = within

    async def __aenter__(self):
        return self._within.__enter__()

    async def __aexit__(self, *how):
        return self._within.__exit__(*how)


def opened(url):
    """One of LangGraph's savers, of the database that is named."""
    if url.startswith("postgres"):
        return AsyncPostgresSaver.from_conn_string(url)
    if url.endswith("async.db"):
        return AsyncSqliteSaver.from_conn_string(url)
    return _Synchronous(SqliteSaver.from_conn_string(url))


@pytest.fixture(params=["given.db", pytest.param("postgres", marks=pytest.mark.postgres)])
def url(request, tmp_path):
    if request.param == "postgres":
        return request.getfixturevalue("postgres_url")
    return str(tmp_path / request.param)


@pytest.mark.req("W-166", "W-104")
async def test_a_payment_in_which_the_process_died_is_asked_about(url, tmp_path):
    paid, script = tmp_path / "paid", tmp_path / "killed.py"
    script.write_text(KILLED)
    async with opened(url) as saver:
        if url.startswith("postgres"):
            await saver.setup()
    with Process(server(), (url, str(paid)), env={**os.environ}, script=script) as process:
        assert await asyncio.to_thread(process.wait, PATIENCE) == -signal.SIGKILL
    async with opened(url) as saver:
        graph = paying(saver, str(paid))
        asked = (await graph.ainvoke(None, on("t"), wait=PATIENCE))["__interrupt__"]
        assert [one.value["type"] for one in asked] == ["uncertain_call"]
        answer = Command(resume={"type": "respond", "message": "paid Ada"})
        done = await graph.ainvoke(answer, on("t"))
    assert done["outcome"]["status"] == "complete"
    assert paid.read_text() == "Ada\n"


@pytest.mark.req("W-166")
async def test_two_that_share_a_database_do_not_run_a_thread_at_once(url, tmp_path):
    paid = str(tmp_path / "paid")
    async with opened(url) as mine, opened(url) as other:
        if url.startswith("postgres"):
            await mine.setup()
        first, second = paying(mine, paid, policy="ask"), paying(other, paid, policy="ask")
        held = asyncio.Event()

        async def hold():
            async for _ in first.astream(SAID, on("t"), stream_mode="updates"):
                held.set()
                with pytest.raises(ThreadBusy):
                    await second.ainvoke(SAID, on("t"))
                return

        await hold()
        assert held.is_set()
        asked = (await second.ainvoke(SAID, on("u")))["__interrupt__"]
        assert len(asked) == 1
        done = await first.ainvoke(Command(resume={"type": "approve"}), on("u"))
    assert done["outcome"]["status"] == "complete"


@pytest.mark.req("W-166")
async def test_a_saver_whose_database_is_not_known_is_warned_of(tmp_path):
    with pytest.warns(UserWarning, match=r"checkpointer= \(ElsewhereSaver\)"):
        graph = paying(ElsewhereSaver(), str(tmp_path / "paid"))
    done = await graph.ainvoke(SAID, on("t"))
    assert done["outcome"]["status"] == "complete"
    told = [text for text in done["outcome"]["warnings"] if "LOOPWRIGHT_DATABASE_URL" in text]
    assert len(told) == 1


@pytest.mark.req("W-166")
async def test_a_database_in_memory_belongs_to_its_process(tmp_path):
    async with AsyncSqliteSaver.from_conn_string(":memory:") as saver:
        done = await paying(saver, str(tmp_path / "paid")).ainvoke(SAID, on("t"))
    assert done["outcome"]["status"] == "complete"

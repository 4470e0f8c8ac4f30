"""Two resumes of one thread at once: what was approved happens once, the second one is told."""

import asyncio
import json
import os
import re
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from langgraph.types import Command as Resume

from loopwright import (
    Context,
    ScriptedModel,
    ThreadBusy,
    build_plan_execute_verify,
    open_durability,
)
from support.fake_openai import Reply, fake_openai
from support.forked import Command, server
from support.patience import PATIENCE
from support.scripts import call, passed, plan, report, todo

THREAD = {"configurable": {"thread_id": "t"}}
APPROVE: Resume[Any] = Resume(resume={"type": "approve"})
PATIENT = Context(tool_deadline=PATIENCE)
BUSY = rf"the thread 't' \(process {os.getpid()}\): wait until it has ended"


def answer(messages, offered):
    role = messages[0].text.split()[3].rstrip(".")
    if role == "planner":
        return plan(todo("1", "pay it"))
    if role == "verifier":
        return passed("It is paid.", t1=["1.1.0"])
    return report("paid") if messages[-1].type == "tool" else [call("pay", euro=7)]


class Bank:
    """A real side effect, a line in a file, in the middle of which the tool waits to be let go."""

    def __init__(self, folder):
        self.book = Path(folder) / "book"
        self.begun, self.go_on = threading.Event(), threading.Event()

    def pay(self, euro: int) -> str:
        """Pay some money."""
        with self.book.open("a") as book:
            book.write(f"{euro}\n")
        self.begun.set()
        assert self.go_on.wait(PATIENCE)
        return "paid"


@pytest.fixture
def bank(tmp_path):
    return Bank(tmp_path)


@pytest.fixture
def graph(bank, tmp_path):
    """A thread that waits for the approval of a payment."""
    with open_durability(f"sqlite:///{tmp_path}/threads.db") as durability:
        graph = build_plan_execute_verify(
            model=ScriptedModel(answer),
            tools=[bank.pay],
            policy=[{"tool": "pay", "action": "ask"}],
            durability=durability,
        )
        graph.invoke({"messages": "Pay the bill."}, THREAD)
        assert graph.get_state(THREAD).interrupts
        yield graph


@pytest.mark.req("P-34")
async def test_a_sync_and_an_async_resume_at_once_pay_once(graph, bank):
    async def resume(run):
        try:
            return await run
        except ThreadBusy as error:
            bank.go_on.set()  # the first one cannot end before the second was refused
            return error

    results = await asyncio.gather(
        resume(graph.ainvoke(APPROVE, THREAD, context=PATIENT)),
        resume(asyncio.to_thread(graph.invoke, APPROVE, THREAD, context=PATIENT)),
    )
    (refused,) = [r for r in results if isinstance(r, ThreadBusy)]
    (ended,) = [r for r in results if not isinstance(r, ThreadBusy)]
    assert re.search(BUSY, str(refused))
    assert ended["outcome"]["status"] == "complete"
    assert bank.book.read_text() == "7\n"


RESUME = """
import sys
from langgraph.types import Command
from loopwright import ScriptedModel, ThreadBusy, build_plan_execute_verify, open_durability
def pay(euro: int) -> str:
    "Pay some money."
    open("book", "a").write("paid by another process")
    return "paid"
with open_durability(sys.argv[1]) as durability:
    graph = build_plan_execute_verify(
        model=ScriptedModel([]), tools=[pay], durability=durability,
        policy=[{"tool": "pay", "action": "ask"}],
    )
    try:
        config = {"configurable": {"thread_id": "t"}}
        graph.invoke(Command(resume={"type": "approve"}), config)
    except ThreadBusy as error:
        print(error)
"""


@pytest.mark.req("P-34")
async def test_a_resume_in_another_process_is_refused_and_nothing_is_lost(graph, bank, tmp_path):
    running = asyncio.create_task(graph.ainvoke(APPROVE, THREAD, context=PATIENT))
    assert await asyncio.to_thread(bank.begun.wait, PATIENCE)
    url = f"sqlite:///{tmp_path}/threads.db"
    done = await asyncio.to_thread(
        subprocess.run, [server().python, "-c", RESUME, url], capture_output=True, text=True
    )
    assert re.search(BUSY, done.stdout), done.stderr
    bank.go_on.set()
    assert (await running)["outcome"]["status"] == "complete"
    assert bank.book.read_text() == "7\n"
    assert not graph.get_state(THREAD).interrupts


@pytest.mark.req("P-34")
def test_the_command_says_in_one_sentence_that_a_thread_is_busy():
    refused = threading.Event()

    def script(request):
        role = re.findall(r"You are the (\w+)", str(request["messages"][0]["content"]))[0]
        if role == "executor":
            refused.wait(PATIENCE)
        verdict = passed("It is 42 [1.report].", t1=["1.report"])
        said = {"planner": plan(todo("1", "look")), "executor": report("42"), "verifier": verdict}
        return Reply(json.dumps(said[role]))

    with fake_openai(script) as fake:
        settings = {
            "OPENAI_API_KEY": "sk-test",
            "OPENAI_BASE_URL": fake.url,
            "LOOPWRIGHT_MODEL": "openai:test-model",
        }
        run = ("run", "--thread", "t", "Look.")
        environment = os.environ | settings
        with Command(server(), run, env=environment) as first:
            deadline = time.monotonic() + PATIENCE
            while len(fake.requests) < 2:
                assert time.monotonic() < deadline, first.said()
                time.sleep(0.02)
            with Command(server(), run, env=environment) as second:
                stdout, stderr = second.communicate(timeout=PATIENCE)
            refused.set()
            told, _ = first.communicate(timeout=PATIENCE)
    assert (second.returncode, stdout) == (2, "")
    assert stderr.count("\n") == 1, stderr
    assert f"the thread 't' (process {first.pid})" in stderr
    assert first.returncode == 0
    assert "It is 42" in told

"""A graph whose turns wait in a database, and workers for it."""

import asyncio
import json
import time

from typer.testing import CliRunner

from loopwright import ModelCallFailed, ScriptedModel, build_react
from loopwright.cli.app import app
from loopwright.run.worker import Worker
from loopwright.store.threads.turns import TurnQueue
from support.patience import PATIENCE
from support.scripts import thought

THREAD = {"configurable": {"thread_id": "t"}}

GOODS = {"apples", "bread", "cheese"}


def said(messages):
    return [m.text for m in messages if m.type == "human" and m.text in GOODS]


class Shop:
    """A graph whose model pays what the user says, with a tool that writes it into a list."""

    def __init__(self, durability, policy="allow"):
        self.paid, self.away = [], 0
        self.graph = build_react(
            model=ScriptedModel(self.answer), tools=[self.pay], policy=policy,
            durability=durability, observe="direct",
        )  # fmt: skip
        self.turns, self.told = TurnQueue(durability.journal), []

    def pay(self, what: str) -> str:
        """Pay for something."""
        self.paid.append(what)
        return f"paid {what}"

    def answer(self, messages, offered):
        if self.away:
            self.away -= 1
            raise ModelCallFailed("the model is away")
        what = said(messages)[-1]
        done = any(m.type == "tool" and m.text == f"paid {what}" for m in messages)
        if not offered:
            return thought(f"{what} is paid" if done else f"pay {what}", more=not done)
        return [] if done else [{"name": "pay", "args": {"what": what}}]

    def worker(self, **more):
        tell = lambda what, turn, why: self.told.append((what, turn and turn.id, why))  # noqa: E731
        return Worker({self.graph.name: self.graph}, self.turns, report=tell, **more)

    async def work(self, until, **more):
        """Let a worker work until something holds."""
        worker = self.worker(**more)
        working = asyncio.create_task(worker.work())
        by = time.monotonic() + PATIENCE
        while not until() and not working.done():
            assert time.monotonic() < by, self.told
            await asyncio.sleep(0.02)
        worker.leave()
        await working

    def state(self, name):
        turn = self.graph.enqueued(THREAD, name)
        return turn and turn.state


def commanded(*args):
    done = CliRunner().invoke(app, [*args, "--json"])
    return done.exit_code, json.loads(done.stdout)

"""A graph whose turns wait in a database, and workers for it."""

import asyncio
import json
import time

from typer.testing import CliRunner

from loopwright import ModelCallFailed, ScriptedModel, build_react
from loopwright.cli.app import app
from loopwright.run.worker import Worker
from loopwright.store.work.delivery import Delivery
from loopwright.store.work.turns import find_records, open_queue
from support.patience import PATIENCE
from support.scripts import thought

LEASE = 30.0
THREAD = {"configurable": {"thread_id": "t"}}
OTHER = {"configurable": {"thread_id": "u"}}

GOODS = {"apples", "bread", "cheese"}


def said(messages):
    return [m.text for m in messages if m.type == "human" and m.text in GOODS]


class Shop:
    """A graph whose model pays what the user says, with a tool that writes it into a list."""

    def __init__(self, durability, policy="allow"):
        self.paid, self.away, self.during = [], 0, lambda: None
        self.graph = build_react(
            model=ScriptedModel(self.answer), tools=[self.pay], policy=policy,
            durability=durability, observe="direct",
        )  # fmt: skip
        self.records, self.told = find_records(durability.journal), []

    def pay(self, what: str) -> str:
        """Pay for something."""
        self.paid.append(what)
        self.during()
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
        delivery = Delivery(open_queue(self.records), [self.graph.name], LEASE)
        return Worker({self.graph.name: self.graph}, delivery, report=tell, **more)

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


class Booked(Shop):
    """It writes what it pays into a file, which outlives the process."""

    def __init__(self, durability, book):
        super().__init__(durability)
        self.book, self.during = book, self.write_down

    def write_down(self):
        with self.book.open("a") as book:
            book.write(f"{self.paid[-1]}\n")


def commanded(*args):
    done = CliRunner().invoke(app, [*args, "--json"])
    return done.exit_code, json.loads(done.stdout)

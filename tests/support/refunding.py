"""Processes that pay an order back and make a ticket at the real desk, killed on the way."""

import json
import os
import signal
import sqlite3
import sys
import threading
import time
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from langgraph.types import Command

from loopwright import ScriptedModel, build_customer_service, open_durability
from support.dialogues import World
from support.handing import forked
from support.scripts import PROOFREAD, call
from support.shops import LUMEN

Cast = dict[str, Any]
IN_THE_TOOL = 0
"""The step at which the process dies once the money is back, before it hears so."""


def says(cast: Cast) -> list[str]:
    """What the customer says, message by message."""
    return [
        "Refund {order}. {email}, {postcode}, {last4}".format(**cast), "Yes",
        "The box came wet, open a ticket, please",
    ]  # fmt: skip


def model(cast: Cast) -> ScriptedModel:
    """It goes by what it sees, so that whoever asks gets the same answer."""
    steps = {
        "verify_identity": {key: cast[name] for key, name in (
            ("email", "email"), ("postcode", "postcode"), ("phone_last4", "last4"),
        )},
        "request_refund": {"order_id": cast["order"], "amount": cast["paid"], "reason": "wet"},
    }  # fmt: skip
    ticket = {"subject": "wet", "body": "wet", "issue": "w", "priority": "low"}

    def works(messages: Any, offered: Any) -> Any:
        talk = messages[:-1]
        last = max(n for n, one in enumerate(talk) if one.type == "human")
        done = [one.name for one in talk[last:] if one.type == "tool"]
        if "ticket" in talk[last].text:
            made = [call("create_ticket", "t", **ticket, follow_up_hours=24)]
            return "I have created a ticket for the box." if done else made
        left = [name for name in steps if name not in done]
        if "Refund" not in talk[last].text or not left:
            return "I have refunded {paid} EUR for {order}.".format(**cast)
        return [call(left[0], left[0], **steps[left[0]])]

    def listens(messages: Any, offered: Any) -> Any:
        text = " ".join(one.text for one in messages)
        return {"intent": "complaint" if "open a ticket" in text else "refund", "mood": "calm"}

    return ScriptedModel({**PROOFREAD, "support": works, "listener": listens})


def talks(folder: Path, mcp: Any, cast: Cast, thread: str, dies_after: int = -1) -> None:
    """Begin the talk, or go on with it, to its end; killed after so many steps."""
    config: Any = {"configurable": {"thread_id": thread}}
    with open_durability(f"sqlite:///{folder}/threads.db") as kept:
        graph = build_customer_service(model=model(cast), mcp=mcp, company=LUMEN, durability=kept)
        if (state := graph.get_state(config)).tasks:  # `next` leaves out those that are done
            graph.invoke(None, config)
        if graph.get_state(config).interrupts:  # the refund may have run: the desk knows its key
            graph.invoke(Command(resume="approve"), config)
        heard = sum(m.type == "human" for m in state.values.get("messages", []))
        for text in says(cast)[heard:]:
            given: Any = {"messages": [{"role": "user", "content": text}]}
            for _ in graph.stream(given, config, stream_mode="updates"):
                dies_after -= 1
                if dies_after == 0:
                    _die()


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def dies_in_the_tool(folder: Path, mcp: Any, cast: Cast, thread: str, shop: Path) -> None:
    """The process ends as soon as the refund stands in the shop, whatever it is doing."""

    def watch() -> None:
        while not World(shop).rows("SELECT 1 FROM refunds WHERE order_id = ?", cast["order"]):
            time.sleep(0.001)
        _die()

    threading.Thread(target=watch, daemon=True).start()
    talks(folder, mcp, cast, thread)


def ended(*pids: int) -> list[int]:
    """How processes ended."""
    return [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]


def main(folder: Path, mcp: Any, steps: list[int]) -> None:
    """Kill a talk at each of the steps and end it; then two threads want the same money."""
    shop = folder / "shop.db"
    world, told = World(shop), {}
    for step in steps:
        cast, thread = world.cast("small"), f"killed at {step}"
        if step == IN_THE_TOOL:
            first = partial(dies_in_the_tool, folder, mcp, cast, thread, shop)
        else:
            first = partial(talks, folder, mcp, cast, thread, step)
        died = ended(forked(first))
        went_on = ended(forked(partial(talks, folder, mcp, cast, thread)))
        told[step] = [*died, *went_on, *_made(shop, cast, [thread])]
    cast, both = world.cast("small"), ["one", "two"]
    codes = ended(*[forked(partial(talks, folder, mcp, cast, thread)) for thread in both])
    told[-1] = [*codes, *_made(shop, cast, both)]
    sys.stdout.write(json.dumps(told))


def _made(shop: Path, cast: Cast, threads: list[str]) -> list[Any]:
    """The refunds of the order, and how many tickets the customer has."""
    with closing(sqlite3.connect(shop)) as db:
        refunds = db.execute(
            "SELECT cents / 100.0 FROM refunds WHERE order_id = ?", [cast["order"]]
        ).fetchall()
        (tickets,) = db.execute(
            "SELECT count(*) FROM tickets WHERE customer_id = ? OR thread IN (?, ?)",
            [cast["customer"], threads[0], threads[-1]],
        ).fetchone()
    return [[amount for (amount,) in refunds], tickets]


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]), [int(one) for one in sys.argv[3:]])

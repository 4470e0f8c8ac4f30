"""Processes that all want money back for the same order, each in several threads at once."""

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from langgraph.types import Command

from loopwright import PolicyTable, ScriptedModel, build_react, open_durability
from support.guarded import ADA, POLICY, THREAD, Shop, reacting, refund
from support.handing import said
from support.killed import die
from support.scripts import thought

UNASKED = (
    POLICY.read_text(encoding="utf-8")
    .replace("    policy: refunds\n", "    policy: refunds\n    consent: no\n")
    .replace("tries: 5", "tries: 100")
)
"""The policy of `guarded`, with refunds that nobody has to agree to."""
LEASE = 2.0
"""Seconds until what a killed process held in Postgres is free."""


def unasked(folder: str | Path, text: str = UNASKED) -> PolicyTable:
    """A policy of this text."""
    file = Path(folder) / f"{os.getpid()}.yaml"
    file.write_text(text, encoding="utf-8")
    return PolicyTable.read(file)


def wanting(amount: float, order: str = "A-1") -> ScriptedModel:
    """Verifies Ada and wants the money; it goes by what it sees, for many threads at once."""
    plan = [[ADA], [refund(order, amount)]]

    def answer(messages: Any, offered: Any) -> Any:
        last = max(n for n, one in enumerate(messages) if "Refund" in one.text)
        done = sum(m.type == "tool" for m in messages[last:])
        if offered:
            return plan[min(done, 1)]
        return thought("x", more=True, reason="x") if done < 2 else thought("Ada has her answer.")

    return ScriptedModel(answer)


def rush(
    url: str, folder: str, name: str, amount: float, threads: int, tools: Mapping[str, Any]
) -> None:
    """Have the order paid back in so many threads of the graph at once; what came of it, in files.

    `tools` says where the graph has them from; with `dies` the process is killed by the first end
    of a refund.
    """
    with open_durability(url) as kept:
        graph = build_react(
            model=wanting(amount), policy=unasked(folder), durability=kept, observe="direct",
            **tools,
        )  # fmt: skip
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(partial(_ask, graph, Path(folder), name), range(threads)))


def _ask(graph: Any, folder: Path, name: str, number: int) -> None:
    thread = f"{name} {number}"
    who = {"thread_id": thread, "user_id": thread}  # nobody has as many tries as there are threads
    ended = graph.invoke(said("Refund A-1"), {"configurable": who})
    told = [m.text for m in ended["messages"] if m.type == "tool"]
    (folder / f"{thread}.told").write_text(told[-1], encoding="utf-8")


def dies_refunding(url: str, folder: str, where: str) -> None:
    """Killed in a refund of 50 EUR, once the money is back, or while the facts are read for it."""
    shop = Shop(folder, die=where == "request_refund")
    with open_durability(url, lease=LEASE) as kept:
        graph = reacting(shop, kept, [ADA], [refund()])
        graph.invoke(said("Refund A-1"), THREAD)
        if where == "get_order":
            shop.sql = lambda *_: die()  # type: ignore[method-assign]
        graph.invoke(Command(resume="approve"), THREAD)

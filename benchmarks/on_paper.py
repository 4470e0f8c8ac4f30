"""What so many turns a second need, by what a turn costs here: the table of docs/deploy.md.

    python benchmarks/on_paper.py [turns] [a second]

Turns of `react` with two tools, one of which writes, and five model calls run 16 at once on
threads of three turns, in one process, on a PostgreSQL of this program's own; the model answers at
once. They run twice: called, and enqueued for a worker. Counted are the CPU of the process and of
the server, rows and bytes, and the log that the server writes ahead (without its checkpoints). A
turn's length is taken as ten seconds: it is what the models need.
"""

import asyncio
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import postgres as bench

from loopwright import open_durability
from loopwright.run.worker import Worker
from loopwright.store.work.delivery import Delivery
from loopwright.store.work.turns import find_records, open_queue
from support import postgres

AT_ONCE: Final = 16
LENGTH: Final = 10
ROOM: Final = 2
"""Of each core half is left free."""
LOG: Final = "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')"


def _read(server: bench.Server, url: str) -> tuple[float, ...]:
    log, size = server._read(url, LOG), server._read(url, bench.BYTES)
    return time.process_time(), server.cpu(), log, size


async def measured(own: postgres.Server, turns: int, work: Callable[..., Any]) -> dict[str, float]:
    """What a turn costs."""
    server, url = bench.Server(own, None, own.port), own.database()  # type: ignore[arg-type]  # it counts no trips here
    build, model, options = bench.OURS["react(direct)"]
    with open_durability(url) as durability:
        graph = build(
            model=model(), tools=bench.tools(), policy="allow", durability=durability, **options
        )
        await work(graph, durability, ["warm"])
        await asyncio.sleep(1.5)  # a connection counts its rows when it has rested for a second
        rows, before = server._read(url, bench.ROWS), _read(server, url)
        await work(graph, durability, [f"t{number}" for number in range(turns // 3)])
        pairs = zip(before, _read(server, url), strict=True)
        costs = [(after - begun) / (turns // 3 * 3) for begun, after in pairs]
    await asyncio.to_thread(server._alone, url)
    rows = (server._read(url, bench.ROWS) - rows) / (turns // 3 * 3)
    return dict(zip(("worker", "server", "log", "bytes"), costs, strict=True)) | {"rows": rows}


async def call(graph: Any, _: Any, threads: list[str]) -> None:
    """Three turns of each thread, as this program calls them."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def thread(name: str) -> None:
        async with gate:
            for _ in range(3):
                await graph.ainvoke({"messages": [("user", bench.GOAL)]}, bench.on(name))

    await asyncio.gather(*map(thread, threads))


async def enqueue(graph: Any, durability: Any, threads: list[str]) -> None:
    """Three turns of each thread, as a worker takes them."""
    left = {(name, str(number)) for name in threads for number in range(3)}

    def report(what: str, turn: Any, why: str) -> None:
        if what == "ended":
            left.discard((turn.thread, turn.id))
        elif what != "taken":
            sys.stderr.write(f"{what} {why}\n")
        if not left:
            worker.leave()

    queue = open_queue(find_records(durability.journal))
    worker = Worker({graph.name: graph}, Delivery(queue, [graph.name], 30.0), AT_ONCE, report)
    for name, number in sorted(left):
        await graph.aenqueue(bench.on(name), bench.GOAL, id=number)
    await worker.work()


def on_paper(cost: dict[str, float], called: dict[str, float], rate: int) -> list[tuple[str, ...]]:
    """A row of the table for each thing: of a turn, what the queue adds, of so many a second."""
    more = {key: cost[key] - called[key] for key in cost}
    cores = [("CPU of workers", "worker"), ("CPU of PostgreSQL", "server")]
    rows = [
        (
            what,
            f"{cost[key] * 1_000:.0f} ms",
            f"{more[key] * 1_000:.1f} ms",
            f"{cost[key] * rate * ROOM:.0f} cores, half used",
        )
        for what, key in cores
    ]
    return [
        *rows,
        ("rows written", f"{cost['rows']:.0f}", f"{more['rows']:.0f}",
         f"{cost['rows'] * rate:,.0f} a second"),
        ("write-ahead log", f"{cost['log'] / 1e3:.0f} kB", f"{more['log'] / 1e3:.1f} kB",
         f"{cost['log'] * rate / 1e6:.0f} MB a second"),
        ("kept on disk", f"{cost['bytes'] / 1e3:.0f} kB", f"{more['bytes'] / 1e3:.1f} kB",
         f"{cost['bytes'] * rate * 86_400 / 1e12:.1f} TB a day, before pruning"),
        ("turns under way", f"{LENGTH} s", "", f"{rate * LENGTH:,}"),
    ]  # fmt: skip


def main(turns: int, rate: int) -> None:
    """Measure, and print the table."""
    with (
        tempfile.TemporaryDirectory() as folder,
        postgres.server(Path(folder, "server"), "autovacuum=off") as own,
    ):
        called, cost = [asyncio.run(measured(own, turns, work)) for work in (call, enqueue)]
    sys.stdout.write(
        f"| | a turn | of it the queue | {rate:,} turns a second |\n|---|---|---|---|\n"
    )
    for row in on_paper(cost, called, rate):
        sys.stdout.write(f"| {' | '.join(row)} |\n")


if __name__ == "__main__":
    numbers = [int(one) for one in sys.argv[1:]]
    main(*(numbers + [600, 1_000][len(numbers) :]))

"""What so many turns a second need, by what a turn costs here: the table of docs/deploy.md.

    python benchmarks/on_paper.py [turns] [a second]

Turns of `react` with two tools, one of which writes, and five model calls run 16 at once on
threads of three turns, in one process, on a PostgreSQL of this program's own; the model answers at
once. Counted are the CPU of the process and of the server, rows and bytes, and the log that the
server writes ahead (without its checkpoints). A turn's length is taken as ten seconds: it is what
the models need.
"""

import asyncio
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import postgres as bench

from support import postgres

AT_ONCE: Final = 16
LENGTH: Final = 10
ROOM: Final = 2
"""Of each core half is left free."""
LOG: Final = "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')"


def _read(server: bench.Server, url: str) -> tuple[float, ...]:
    log, size = server._read(url, LOG), server._read(url, bench.BYTES)
    return time.process_time(), server.cpu(), log, size


async def measured(own: postgres.Server, turns: int) -> dict[str, float]:
    """What a turn costs."""
    server, url = bench.Server(own, None, own.port), own.database()  # type: ignore[arg-type]  # it counts no trips here
    async with bench.ours("react(direct)")(url) as (turn, _):
        await turn("warm")
        await asyncio.sleep(1.5)  # a connection counts its rows when it has rested for a second
        rows, before = server._read(url, bench.ROWS), _read(server, url)
        gate = asyncio.Semaphore(AT_ONCE)

        async def thread(name: str) -> None:
            async with gate:
                for _ in range(3):
                    await turn(name)

        await asyncio.gather(*(thread(f"t{number}") for number in range(turns // 3)))
        pairs = zip(before, _read(server, url), strict=True)
        costs = [(after - begun) / (turns // 3 * 3) for begun, after in pairs]
    await asyncio.to_thread(server._alone, url)
    rows = (server._read(url, bench.ROWS) - rows) / (turns // 3 * 3)
    return dict(zip(("worker", "server", "log", "bytes"), costs, strict=True)) | {"rows": rows}


def on_paper(cost: dict[str, float], rate: int) -> list[tuple[str, str, str]]:
    """A row of the table for each thing: of a turn, and of so many a second."""
    cores = [("CPU of workers", "worker"), ("CPU of PostgreSQL", "server")]
    rows = [
        (what, f"{cost[key] * 1_000:.0f} ms", f"{cost[key] * rate * ROOM:.0f} cores, half used")
        for what, key in cores
    ]
    return [
        *rows,
        ("rows written", f"{cost['rows']:.0f}", f"{cost['rows'] * rate:,.0f} a second"),
        ("write-ahead log", f"{cost['log'] / 1e3:.0f} kB",
         f"{cost['log'] * rate / 1e6:.0f} MB a second"),
        ("kept on disk", f"{cost['bytes'] / 1e3:.0f} kB",
         f"{cost['bytes'] * rate * 86_400 / 1e12:.1f} TB a day, before pruning"),
        ("turns under way", f"{LENGTH} s", f"{rate * LENGTH:,}"),
    ]  # fmt: skip


def main(turns: int, rate: int) -> None:
    """Measure, and print the table."""
    with (
        tempfile.TemporaryDirectory() as folder,
        postgres.server(Path(folder, "server"), "autovacuum=off") as own,
    ):
        cost = asyncio.run(measured(own, turns))
    sys.stdout.write(f"| | a turn | {rate:,} turns a second |\n|---|---|---|\n")
    for row in on_paper(cost, rate):
        sys.stdout.write(f"| {' | '.join(row)} |\n")


if __name__ == "__main__":
    numbers = [int(one) for one in sys.argv[1:]]
    main(*(numbers + [600, 1_000][len(numbers) :]))

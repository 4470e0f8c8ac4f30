"""`loopwright worker`: runs the turns that wait in a database, until a signal."""

import asyncio
import os
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any, Final

from ..graphs.registry import REGISTRY, find_builder
from ..state.context import Context
from ..state.errors import SettingsError
from ..store.durability import Durability
from ..store.postgres.pool import CONNECTIONS
from ..store.work.turns import Turn, find_records, open_queue
from .agents import Graph, load_user_graph, select_agent
from .run import build_named_graph
from .settings import DEFINED, NO_MODEL, Settings
from .terminal import Code, Output, clean

_SAID = {
    "failed": "is tried again",
    "busy": "another run holds its thread",
    "asks": "waits for an answer",
}


Report = Callable[[str, Turn | None, str], None]

_APART: Final = 2
"""Connections that save, and renew leases."""


def run_worker(
    settings: Settings,
    output: Output,
    graphs: Sequence[str] | None,
    modules: Sequence[str] | None,
    concurrency: int,
    lease: float,
) -> int:
    """Run turns until a signal; the exit code.

    `concurrency` turns at once; what a dead worker held is free after `lease` seconds.
    """
    connections = min(concurrency, CONNECTIONS) + _APART
    with settings.open(lease=lease, connections=connections) as durability:
        if (records := find_records(durability.journal)) is None:
            msg = f"Nothing can be enqueued in {durability.url!r}: no other process can open it."
            raise SettingsError(msg)
        queue = open_queue(records)
        built = _build_graphs(settings, output, durability, graphs or (), modules or ())
        report = _make_reporter(output)
        begun = f"{durability.url}, graphs {', '.join(built)}, {concurrency} turns at once"
        report("started", None, begun)
        asyncio.run(_run_until_signal(queue, built, concurrency, lease, report))
        report("left", None, "")
    return Code.COMPLETE


async def _run_until_signal(
    queue: Any, graphs: dict[str, Graph], concurrency: int, lease: float, report: Report
) -> None:
    """Work; the first signal ends it after what runs, the second one at once."""
    # With the drivers, which not everybody has.
    from ..run.worker import Worker  # noqa: PLC0415
    from ..store.work.delivery import Delivery  # noqa: PLC0415

    worker = Worker(graphs, Delivery(queue, graphs, lease), concurrency, report)

    def handle_signal() -> None:
        if worker.is_leaving:
            os._exit(Code.PAUSED)
        worker.report("leaving", None, "what runs is saved first; a second signal ends it at once")
        worker.leave()

    loop = asyncio.get_running_loop()
    # Savers and tools that are no coroutines wait in threads: those of one turn must not keep the
    # next one from saving what it has done.
    loop.set_default_executor(ThreadPoolExecutor(8 + 4 * worker.concurrency))
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, handle_signal)
    await worker.work()


def _make_reporter(output: Output) -> Report:
    """Report events: a sentence per line, or with `--json` an object per line."""

    def report(what: str, turn: Turn | None, why: str) -> None:
        about = {} if turn is None else _turn_to_json(turn)
        if output.json:
            at = datetime.now(UTC).isoformat(timespec="milliseconds")
            output.write_event({"at": at, "event": what, **about, **({"why": why} if why else {})})
        elif turn is None and what == "away":
            output.write_error(why)
        else:
            where = f"{clean(turn.thread)} {clean(turn.id)}: " if turn else ""
            event = f"{what}, {_SAID[what]}" if what in _SAID else what
            reason = f" ({why})" if why else ""
            output.write_line(f"{datetime.now().astimezone():%H:%M:%S} {where}{event}{reason}")

    return report


def _turn_to_json(turn: Turn) -> dict[str, Any]:
    return {"thread": turn.thread, "turn": turn.id, "graph": turn.graph, "tries": turn.tries}


def _build_graphs(
    settings: Settings,
    output: Output,
    durability: Durability,
    names: Sequence[str],
    modules: Sequence[str],
) -> dict[str, Graph]:
    """The graphs it runs, by name: ours, and those that modules of one's own give.

    If none is named, all of ours that can be built.
    """
    graphs: dict[str, Graph] = {}
    for named in modules:
        graph = load_user_graph(named, durability)
        if graph.name in graphs or not graph.name:
            msg = f"--module {named}: there is another graph {graph.name!r}; give it a name=."
            raise SettingsError(msg)
        graphs[graph.name] = graph
    every, offline = not (names or modules), False
    for name in REGISTRY if every else names:
        find_builder(name)
        try:
            agent = (
                select_agent(settings, output, name)
                if name == DEFINED or not settings.agent
                else None
            )
            graphs[name], stands_in = build_named_graph(
                settings, name, Context(), durability, agent
            )
            offline = offline or stands_in
        except SettingsError as error:
            if not every:
                raise
            output.write_error(f"the graph {name} is left out: {error}")
    if offline:
        output.write_error(NO_MODEL)
    if not graphs:
        msg = "There is no graph to run: name one that can be built here by --graph."
        raise SettingsError(msg)
    return graphs

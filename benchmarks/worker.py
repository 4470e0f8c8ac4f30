"""Measures one contestant in this process, order by order.

    python benchmarks/worker.py NAME

Reads an order a line, as JSON: what to do, one of `ORDERS`, and how. Prints what it measured as one
line of JSON. CPU is this process's own; the model's server is another one.
"""

import asyncio
import cProfile
import gc
import io
import json
import math
import os
import pstats
import re
import sqlite3
import sys
import tempfile
import time
import traceback
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
from contestants import CONTESTANTS, PAGED, Built, Wanted, with_transform

Found = dict[str, Any]
_WARM = {"look": "look-2-0", "page": "page-2-0", "block": "block-1-0", "work": "ready-7-0"}
_SHOWN = 12
"""Lines of a profile."""
_ROOT = f"{Path(__file__).resolve().parents[1]}/"
_OURS = rf"{re.escape(_ROOT)}(?!benchmarks|\.venv)"
_FOLDER = re.compile(rf"\S*/(?:site-packages|lib/python[\d.]+)/|{re.escape(_ROOT)}")


def of_server() -> list[Found]:
    """What the server noted of this process's requests since the last time."""
    head = {"Authorization": f"Bearer {os.environ['OPENAI_API_KEY']}"}
    given: list[Found] = httpx.get(os.environ["OPENAI_BASE_URL"], headers=head).json()
    return given


def size_of(place: str) -> int:
    """Bytes of the databases in a folder, with what stands in their journals so far."""
    total = 0
    for file in Path(place).glob("*.db"):
        with closing(sqlite3.connect(file)) as database:
            pages, size = (database.execute(f"PRAGMA page_{what}") for what in ("count", "size"))
            total += pages.fetchone()[0] * size.fetchone()[0]
    return total


@asynccontextmanager
async def ready(name: str, order: Found, place: str) -> AsyncIterator[Built]:
    """A contestant that has run once."""
    if name != "raw HTTP":
        with_transform(order.get("transform", True))
    tool = order.get("tool", "look")
    wanted = Wanted(tool, place if order.get("saved") else "", order.get("alive", True))
    async with CONTESTANTS[name](wanted) as built:
        await built.run(uuid.uuid4().hex, _WARM[tool])
        of_server()
        gc.collect()
        yield built


async def run(name: str, order: Found) -> Found:
    """One run: CPU and wall seconds, what it sent, what it saved, what its state costs to read."""
    thread = uuid.uuid4().hex
    with tempfile.TemporaryDirectory() as place:
        async with ready(name, order, place) as built:
            PAGED.clear()
            began = time.perf_counter(), time.process_time()
            await built.run(thread, order["script"])
            cpu, wall = time.process_time() - began[1], time.perf_counter() - began[0]
            paged = [after - before for before, after in pairwise(PAGED)]
            found = {"cpu": cpu, "wall": wall, "turns": paged} | told_by(of_server())
            if order.get("read") and (read := built.read):
                found["read"] = await cheapest(lambda: read(thread))
        return found | {"disk": size_of(place)}


def told_by(notes: list[Found]) -> Found:
    """What the server noted of a run; `between` is how long the client was at work each time."""
    pairs = pairwise(notes)
    return {
        "calls": len(notes),
        "asked": [note["asked"] for note in notes],
        "new": sum(note.get("new", 0) for note in notes),
        "between": [after["came"] - before["answered"] for before, after in pairs],
    }


async def cheapest(make: Callable[[], Awaitable[Any]], times: int = 7) -> float:
    """CPU seconds of the cheapest of some."""
    best = math.inf
    for _ in range(times):
        began = time.process_time()
        await make()
        best = min(best, time.process_time() - began)
    return best


async def first_text(name: str, order: Found) -> Found:
    """Seconds from the start of the request that brings the answer to the first of its text."""
    with tempfile.TemporaryDirectory() as place:
        async with ready(name, order, place) as built:
            if built.texts is None:
                return {}
            came: list[tuple[float, str]] = []
            async for text in built.texts(uuid.uuid4().hex, order["script"]):
                came.append((time.monotonic(), text))
            ended = time.monotonic()
    notes = of_server()
    first = next(at for at, text in came if "word0" in text)
    # Where nothing is streamed, the answer comes after the last of all requests has been answered.
    asked = [note for note in notes if note["came"] < first][-1]
    wrote = asked.get("wrote", ended) - asked["came"]
    at = {"first": first - asked["came"], "whole": ended - asked["came"]}
    return {**at, "wrote": wrote, "pieces": len(came)}


async def crowd(name: str, order: Found) -> Found:
    """Many threads at once: CPU seconds of each, and the longest stall of the event loop."""
    longest = 0.0

    async def watch() -> None:
        nonlocal longest
        while True:
            before = time.perf_counter()
            await asyncio.sleep(0.01)
            longest = max(longest, time.perf_counter() - before - 0.01)

    number = order["number"]
    with tempfile.TemporaryDirectory() as place:
        async with ready(name, order, place) as built:
            watching = asyncio.create_task(watch())
            began = time.perf_counter(), time.process_time()
            runs = [built.run(uuid.uuid4().hex, order["script"]) for _ in range(number)]
            ended = await asyncio.gather(*runs, return_exceptions=True)
            cpu, wall = time.process_time() - began[1], time.perf_counter() - began[0]
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching
    failed = [repr(one)[:200] for one in ended if isinstance(one, BaseException)]
    return {"cpu": cpu / number, "wall": wall, "stall": longest, "failed": failed[:3]}


async def turns(name: str, order: Found) -> Found:
    """Turns of one thread: CPU seconds of each, and bytes saved after it."""
    thread, sizes, taken = uuid.uuid4().hex, [], []
    with tempfile.TemporaryDirectory() as place:
        async with ready(name, order, place) as built:
            for _ in range(order["number"]):
                began = time.process_time()
                await built.run(thread, order["script"])
                taken.append(time.process_time() - began)
                sizes.append(size_of(place))
    return {"sizes": sizes, "taken": taken}


async def profile(name: str, order: Found) -> Found:
    """Where the CPU of a run goes: what takes most itself, and what of ours takes most in all."""
    profiler = cProfile.Profile(time.process_time)
    with tempfile.TemporaryDirectory() as place:
        async with ready(name, order, place) as built:
            thread = uuid.uuid4().hex
            if order.get("read") and built.read:
                await built.run(thread, order["script"])
                profiler.enable()
                await built.read(thread)
            else:
                profiler.enable()
                await built.run(thread, order["script"])
            profiler.disable()
    told = io.StringIO()
    stats = pstats.Stats(profiler, stream=told)
    stats.sort_stats("tottime").print_stats(_SHOWN)
    stats.sort_stats("cumtime").print_stats(_OURS, _SHOWN)
    lines = [line for line in told.getvalue().splitlines() if re.match(r" +\d|.*ncalls", line)]
    return {"profile": [_FOLDER.sub("", line) for line in lines if "function calls" not in line]}


ORDERS = {"run": run, "text": first_text, "crowd": crowd, "turns": turns, "profile": profile}


async def main(name: str) -> None:
    """Obey until the input ends."""
    while line := await asyncio.to_thread(sys.stdin.readline):
        order = json.loads(line)
        try:
            found = await ORDERS[order["do"]](name, order)
        except Exception:  # noqa: BLE001 - whatever it is, the one who ordered it has to know
            found = {"error": traceback.format_exc()}
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))

"""Many tools: bytes of a request, whether the right one is found, and what a search costs a cache.

    python benchmarks/many_tools.py [SERVERS.json]

SERVERS.json is a file in the `mcpServers` format, such as one with the public servers of GitHub and
a file system; their tools are then among the 300. Without it their names stand in, as facts.
"""

import asyncio
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from loopwright.calls.toolbox import Toolbox
from loopwright.tools.catalog import Catalog
from support.public_tools import QUESTIONS, many

COUNT = 300
TURNS, SEARCHED_AT, GROWTH = 20, (2, 9), 2_000
"""Requests of a conversation that grows by so many bytes, and in which of them tools are found."""


def size(value: object) -> int:
    """Bytes of it as JSON."""
    return len(json.dumps(value, ensure_ascii=False).encode())


async def offered(config: str | None) -> Catalog:
    """As many tools, of these servers and of the program."""
    if config is None:
        return await Toolbox(many(COUNT)).catalog()
    public = await Toolbox(mcp=config).catalog()
    others = [tool for tool in many(COUNT) if tool.name not in QUESTIONS.values()]
    box = Toolbox(others[: COUNT - len(public.tools)], mcp=config)
    try:
        return await box.catalog()
    finally:
        await box.aclose()


def reread(lists: list[int], text: int) -> tuple[int, int]:
    """Bytes that are new to a provider's cache over a conversation, and bytes sent in all."""
    new = sent = 0
    for turn, tools in enumerate(lists):
        whole = tools + text + turn * GROWTH
        sent += whole
        changed = turn == 0 or tools != lists[turn - 1]
        new += whole if changed else GROWTH
    return new, sent


async def main() -> None:
    """Print what was measured."""
    write = sys.stdout.write
    catalog = await offered(sys.argv[1] if len(sys.argv) > 1 else None)
    shelf, whole = catalog.deferred_tools, size([tool.spec() for tool in catalog.tools.values()])
    first = [
        size(catalog.specs(shelf.find_likely(one))) + len(shelf.render_listing().encode())
        for one in QUESTIONS
    ]
    write(f"{len(catalog.tools)} tools, {whole:,} bytes of definitions\n")
    write(f"tools in a first request: {max(first):,} bytes at most, {max(first) / whole:.1%}\n")
    known = {q: name for q, name in QUESTIONS.items() if name in catalog.tools}
    found = [name in shelf.find(q) for q, name in known.items()]
    at_once = [name in shelf.find_likely(q) for q, name in known.items()]
    write(f"found by find_tools: {sum(found)} of {len(known)} questions, first five answers\n")
    write(f"defined at once, without a search: {sum(at_once)} of {len(known)}\n")
    some, steps = list(known.values()), []
    for turn in range(TURNS):
        shown = 5 * sum(turn >= at for at in SEARCHED_AT)
        steps.append(size(catalog.specs(some[:shown])) + len(shelf.render_listing().encode()))
    ways = {"all definitions": [whole] * TURNS, "names and find_tools": steps}
    write(f"{TURNS} requests, {len(SEARCHED_AT)} searches: bytes new to a cache, bytes in all\n")
    for way, lists in ways.items():
        new, sent = reread(lists, 4_000)
        write(f"  {way:22} {new:>9,} {sent:>11,}\n")


asyncio.run(main())

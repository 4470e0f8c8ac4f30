"""Many tools: what hiding their definitions costs and saves, and whether the right one is found.

    python benchmarks/many_tools.py [SERVERS.json]

SERVERS.json is a file in the `mcpServers` format, such as one with the public servers of GitHub and
a file system; their tools are then among the 300. Without it their names stand in, as facts.
"""

import asyncio
import json
import sys
from os.path import commonprefix
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from loopwright import Context, ScriptedModel, build_task_agent
from loopwright.calls.toolbox import Toolbox
from loopwright.tools.catalog import Catalog
from support.public_tools import QUESTIONS, many
from support.scripts import call

COUNT = 300
SETS, CALLS = (16, 60, 120, 300), 12
"""Tools that are offered, and calls of a run, which needs four of them."""
WAYS = {"whole": (10_000, 0), "hidden, one look": (0, 4), "hidden, a look each": (0, 1)}
"""How many tools are shown whole, and how many are looked up at once."""


class Counting(ScriptedModel):
    """Calls four tools in turn, looking up what it is not shown; counts what it is sent."""

    def __init__(self, tools: list[Any], at_once: int) -> None:
        """Choose the tools it needs, from all over the list."""
        super().__init__(self._answer)
        self._needs, self._sent, self._shown = tools[:: len(tools) // 4][:4], list[str](), ""
        self._at_once = at_once

    def bind_tools(self, tools: Any, **more: Any) -> Any:
        """Remember the definitions, with which a request begins."""
        self._shown = json.dumps(tools, ensure_ascii=False)
        return super().bind_tools(tools, **more)

    def _answer(self, messages: Any, offered: list[str]) -> Any:
        calls = [json.dumps(getattr(m, "tool_calls", [])) for m in messages]
        texts = (m.type + m.text + made for m, made in zip(messages, calls, strict=True))
        self._sent.append(self._shown + "".join(texts))
        made = sum(m.type == "tool" and m.name != "find_tools" for m in messages)
        if made == CALLS:
            return [call("complete_task", "end", summary="All of it is done as asked.")]
        place = made % 4
        need = self._needs[place]
        if need.name not in offered:
            names = [one.name for one in self._needs[place : place + self._at_once]]
            return [call("find_tools", f"look{made}", names=names)]
        return [call(need.name, f"c{made}", **dict.fromkeys(need.args, f"x{made}"))]

    @property
    def figures(self) -> tuple[int, int, int]:
        """Requests, and their bytes that are new to a provider's cache, and all."""
        pairs = zip(["", *self._sent], self._sent, strict=False)
        new = sum(len(now) - len(commonprefix(pair)) for pair in pairs for now in pair[1:])  # noqa: RUF071 - texts
        return len(self._sent), new, sum(map(len, self._sent))


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


def run(count: int, shown: int, at_once: int) -> tuple[int, int, int]:
    """The figures of one run with so many tools."""
    tools = many(count)
    model = Counting(tools, at_once)
    graph = build_task_agent(model=model, tools=tools)
    asked, settings = {"messages": [("user", "Bring my work in.")]}, Context(shown_tools=shown)
    assert graph.invoke(asked, context=settings)["outcome"]["status"] == "complete"
    return model.figures


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


def compare() -> None:
    """Print what a run takes, with all definitions and with names that are looked up."""
    sys.stdout.write(f"{CALLS} calls of 4 tools: requests, bytes new to a cache, bytes in all\n")
    for count in SETS:
        for way, (shown, at_once) in WAYS.items():
            requests, new, sent = run(count, shown, at_once)
            sys.stdout.write(f"  {count:3} tools {way:20} {requests:3} {new:>9,} {sent:>11,}\n")


asyncio.run(main())

compare()

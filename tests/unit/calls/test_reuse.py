import asyncio
from dataclasses import replace

import pytest

from loopwright.calls.gate import split_refresh
from loopwright.calls.results import ToolResult
from loopwright.calls.reuse import ReadCache, is_reusable
from loopwright.state.context import Context
from loopwright.tools.catalog import CatalogTool
from support.scope import call_of

CONTEXT = Context()


def tool(name="read", *, server=None, read_only=True, declared=None, **more):
    hints = {"readOnlyHint": read_only} if declared is None else declared
    return CatalogTool(
        name=name, original=name, description="", schema={}, server=server, read_only=read_only,
        declared=hints, **more,
    )  # fmt: skip


READ, WRITE = tool(), tool("write", read_only=False)
UNDECLARED = tool("do", read_only=False, declared={})


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


class World:
    """Calls through one memory, as the call path makes them; counts those that really run."""

    def __init__(self, context=CONTEXT):
        self.clock = Clock()
        self.memory = ReadCache(self.clock)
        self.context = context
        self.runs = 0

    async def call(
        self, what=READ, args=None, *, error=False, during=asyncio.sleep, doubt=False, **more
    ):
        again = more.pop("again", False)
        call = replace(call_of("1.0.0"), tool=what, args=args or {}, again=again)

        async def make(call):
            self.runs += 1
            call.pending = call.pending | {"id": f"1.{self.runs}.0"}
            await during(0)
            call.result = ToolResult(f"result {self.runs}", {"n": self.runs}, is_error=error)
            call.reason, call.ran = "uncertain" if doubt else "", True

        of = {"message": object(), **more}
        await self.memory.run(call, make, context=self.context, **of)
        return call.outcome


@pytest.fixture
def world():
    return World()


@pytest.mark.req("S0-67", "S0-68", "S0-70", "S0-71", "S0-72", "S0-75")
async def test_an_identical_read_is_answered_from_memory_and_says_so(world):
    await world.call(args={"a": 1, "b": 2})
    world.clock.now += 12.4
    again = await world.call(args={"b": 2, "a": 1})
    head, _, text = again.to_model.partition("\n")
    assert head == (
        "[reused from 1.1.0, 12 s old: the same call was made before; "
        'add "refresh": true to its arguments to make it again]'
    )
    assert text == again.text == "result 1"
    assert again.data == {"n": 1}
    assert again.artifact == {"reused_from": "1.1.0"}
    assert not again.is_error
    await world.call(args={"a": 1})
    await world.call(tool("read", server="s"), {"a": 1, "b": 2})
    await world.call(tool("look"), {"a": 1, "b": 2})
    assert world.runs == 4, "other arguments, another server, another tool"


@pytest.mark.req("D3", "S1-34")
async def test_a_result_gets_too_old(world):
    await world.call()
    world.clock.now += 59
    assert (await world.call()).artifact
    world.clock.now += 2
    await world.call()
    assert world.runs == 2, "being reused does not make a result younger"
    quick = World(Context(dedupe_seconds=0.5))
    await quick.call()
    quick.clock.now += 1
    await quick.call()
    assert quick.runs == 2


async def test_users_never_see_each_others_results(world):
    await world.call(user_id="ada")
    await world.call(user_id="bob")
    await world.call()
    assert world.runs == 3


@pytest.mark.req("S0-73")
async def test_errors_are_never_reused(world):
    await world.call(error=True)
    await world.call(error=True)
    await world.call()
    assert world.runs == 3


@pytest.mark.req("P-48", "D3")
async def test_a_write_through_the_same_server_makes_everything_out_of_date(world):
    here, there = tool(server="here"), tool(server="there")
    await world.call(here)
    await world.call(there)
    await world.call(tool("write", server="here", read_only=False))
    assert (await world.call(here)).text == "result 4"
    assert (await world.call(there)).artifact["reused_from"] == "1.2.0"


async def test_what_was_read_while_a_write_ran_is_not_kept(world):
    reading, written = asyncio.Event(), asyncio.Event()

    async def slow(_):
        reading.set()
        await written.wait()

    read = asyncio.create_task(world.call(during=slow))
    await reading.wait()
    await world.call(WRITE)
    written.set()
    await read
    assert (await world.call()).text == "result 3"

    async def read_meanwhile(_):
        await world.call()

    await world.call(WRITE, during=read_meanwhile)
    runs = world.runs
    await world.call()
    assert world.runs == runs + 1


async def test_after_a_write_of_unknown_end_its_server_is_always_asked(world):
    await world.call(WRITE, doubt=True)
    for _ in range(3):
        await world.call()
    await world.call(tool(server="s"))
    await world.call(tool(server="s"))
    assert world.runs == 5


@pytest.mark.req("P-17")
async def test_identical_reads_side_by_side_run_once(world):
    results = await asyncio.gather(*(world.call() for _ in range(5)))
    assert world.runs == 1
    assert sum("reused_from" in result.artifact for result in results) == 4


@pytest.mark.req("D3")
def test_whose_results_may_be_reused():
    off, everything = Context(dedupe="off"), Context(dedupe="all")
    risky = tool("x", read_only=False, declared={"destructiveHint": True}, destructive=True)
    declared = [READ, WRITE, UNDECLARED, risky, tool(cacheable=False), tool(polls=True)]
    assert [is_reusable(t, CONTEXT) for t in declared] == [True, *[False] * 5]
    assert [is_reusable(t, everything) for t in declared] == [
        True,
        False,
        True,
        False,
        False,
        False,
    ]
    assert not any(is_reusable(t, off) for t in declared)


@pytest.mark.req("D3", "S0-73", "S1-34")
@pytest.mark.parametrize(
    ("sent", "again"),
    [
        ({}, False),
        ({"refresh": True}, True),
        ({"refresh": "true"}, True),
        ({"refresh": False}, False),
        ({"retry_reason": "the result was cut off"}, True),
        ({"retry_reason": " "}, False),
        ({"retry_reason": None, "refresh": None}, False),
    ],
)
def test_asking_again_is_taken_out_of_the_arguments(sent, again):
    schema = {"type": "object", "properties": {"path": {"type": "string"}}}
    given = {"path": "a", **sent}
    assert split_refresh(schema, given) == ({"path": "a"}, again)
    assert given == {"path": "a", **sent}


@pytest.mark.req("W-11")
@pytest.mark.parametrize("again", [{"flag": False}, {"flag": None}], ids=repr)
async def test_a_read_with_a_default_told_is_the_same_read(again):
    fields = {"flag": {"type": "boolean", "default": False}}
    what = replace(READ, schema={"type": "object", "properties": fields})
    world = World()
    for args in ({}, again):
        await world.call(what, args)
    assert world.runs == 1

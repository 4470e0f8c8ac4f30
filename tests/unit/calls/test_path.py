import asyncio
import sys
import threading
from typing import Any

import pytest
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import BaseTool, StructuredTool, ToolException, tool
from langgraph.errors import GraphInterrupt
from langgraph.store.memory import InMemoryStore

from loopwright.calls.gate import Gate, plan_calls
from loopwright.calls.path import run_calls
from loopwright.calls.toolbox import Toolbox
from loopwright.state.context import Context
from loopwright.text.canonical import weigh
from support.patience import PATIENCE
from support.scope import records_of, scope_with


async def run(box, *calls, decisions=None, **more) -> Any:
    """Plan and run calls given as (name, args)."""
    scope = scope_with(**{"thread": "t", **more})
    message = AIMessage(
        "", tool_calls=[{"name": n, "args": a, "id": f"c{i}"} for i, (n, a) in enumerate(calls)]
    )
    planned = plan_calls(
        message, task="1", round_=1, complete=True, gate=await Gate.for_run(box, scope)
    )
    done = await run_calls(scope, box, planned, decisions=decisions)
    assert not done.waiting
    return records_of(done)


def declared(function, **hints) -> Any:
    made = StructuredTool.from_function(
        **{"coroutine" if asyncio.iscoroutinefunction(function) else "func": function},
        description="A tool.",
    )
    made.metadata = hints
    return made


def reading(function) -> Any:
    return declared(function, readOnlyHint=True)


def add(a: int, b: int = 2) -> int:
    """Add."""
    return a + b


@pytest.mark.req("S0-58", "S0-48", "S0-153", "S0-157")
async def test_a_call_becomes_a_tool_message():
    events: list[dict[str, Any]] = []
    (record,) = await run(Toolbox([add]), ("add", {"a": 1}), emit=events.append)
    message = record["message"]
    assert isinstance(message, ToolMessage)
    assert (message.content, message.tool_call_id, message.name) == ("3", "c0", "add")
    assert message.id
    assert message.additional_kwargs["evidence"] == "1.1.0"
    assert "T" in message.additional_kwargs["timestamp"]
    assert (record["status"], record["result"], record["arguments"]) == ("success", "3", {"a": 1})
    assert [event["status"] for event in events] == ["scheduled", "executing", "success"]
    assert events[2]["result"] == "3"


def sync_boom() -> str:
    raise ValueError("no such order: 17")


async def async_boom() -> str:
    raise ConnectionResetError("peer")


async def own_timeout() -> str:
    raise TimeoutError


def leaves() -> str:
    sys.exit(3)


def stops() -> str:
    raise StopIteration


async def cancels_itself() -> str:
    raise asyncio.CancelledError


async def group() -> str:
    raise ExceptionGroup("several", [KeyError("k")])


def for_the_model() -> str:
    raise ToolException("use another id")


@pytest.mark.req("P-19", "S0-62", "S0-131")
@pytest.mark.parametrize(
    ("function", "words"),
    [
        (sync_boom, "ValueError: no such order: 17"),
        (async_boom, "ConnectionResetError: peer"),
        (own_timeout, "TimeoutError"),
        (leaves, "SystemExit: 3"),
        (stops, "StopIteration"),
        (cancels_itself, "cancelled from within"),
        (group, "KeyError: 'k'"),
        (for_the_model, "use another id"),
    ],
)
async def test_whatever_a_tool_raises_is_data_and_the_others_run(function, words):
    box = Toolbox([function, add])
    records = await run(box, (function.__name__, {}), ("add", {"a": 1}))
    assert [record["status"] for record in records] == ["error", "success"]
    message = records[0]["message"]
    assert message.status == "error"
    assert words in message.content
    assert "try another tool" in message.content
    assert "Traceback" not in message.content


async def test_a_question_of_a_tool_and_a_cancelled_run_pass_through():
    async def asks() -> str:
        raise GraphInterrupt(())

    with pytest.raises(GraphInterrupt):
        await run(Toolbox([asks]), ("asks", {}))

    ended = []

    async def slow() -> str:
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(1)
        return ""

    task = asyncio.create_task(run(Toolbox([slow]), ("slow", {})))
    await asyncio.sleep(0.2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == [1]


@pytest.mark.req("S0-61")
async def test_reads_run_side_by_side_and_writes_in_their_order():
    log: list[str] = []

    async def read(n: int) -> str:
        log.append(f"r{n}+")
        await asyncio.sleep(0.2 if n < 3 else 0)
        log.append(f"r{n}-")
        return str(n)

    async def write(n: int) -> str:
        log.append(f"w{n}+")
        await asyncio.sleep(0.1 / n)
        log.append(f"w{n}-")
        return str(n)

    box = Toolbox([reading(read), write])
    steps = [("read", 1), ("read", 2), ("write", 1), ("write", 2), ("read", 3)]
    records = await run(box, *((name, {"n": n}) for name, n in steps))
    assert [r["result"] for r in records] == ["1", "2", "1", "2", "3"]
    assert set(log[:2]) == {"r1+", "r2+"}
    assert set(log[2:4]) == {"r1-", "r2-"}
    assert log[4:] == ["w1+", "w1-", "w2+", "w2-", "r3+", "r3-"]


async def test_a_tool_that_does_not_answer_is_left_at_the_deadline():
    released = threading.Event()

    def hangs() -> str:
        released.wait(PATIENCE)
        return ""

    async def deaf() -> str:
        while not released.is_set():
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                continue
        return ""

    context = Context(tool_deadline=0.3)
    box = Toolbox([hangs, reading(deaf), add])
    try:
        records = await run(box, ("hangs", {}), ("deaf", {}), ("add", {"a": 1}), context=context)
    finally:
        released.set()
        await asyncio.sleep(0)
    assert [r["status"] for r in records] == ["error", "error", "success"]
    assert "did not answer within 0.3 s; it may still be running" in records[0]["result"]
    assert "did not answer within 0.3 s." in records[1]["result"]
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()


class Weather(BaseTool):
    name: str = "weather"
    description: str = "The weather."

    def _run(self, city: str) -> dict[str, str]:
        return {"city": city, "sky": "clear", "thread": threading.current_thread().name}


@pytest.mark.req("P-43", "S0-48")
async def test_tools_of_every_making_run():
    @tool(response_format="content_and_artifact")
    def table(n: int) -> tuple[str, list[int]]:
        """Rows and their list."""
        return f"{n} rows", list(range(n))

    def given(a: int) -> int:
        return a

    box = Toolbox([Weather(), table, declared(given), add])
    calls = [("weather", {"city": "Rome"}), ("table", {"n": 2}), ("given", {"a": 1})]
    weather, rows, plain = await run(box, *calls)
    assert weather["message"].artifact["data"]["sky"] == "clear"
    assert "loopwright tool" in weather["result"]
    assert rows["message"].artifact == {"own": [0, 1]}
    assert plain["result"] == "1"


def danger(path: str) -> str:
    """Delete."""
    return f"deleted {path}"


DANGER = declared(danger, destructiveHint=True)


@pytest.mark.parametrize(
    ("decision", "status", "reason", "words"),
    [
        ({"type": "approve"}, "success", "", "deleted a"),
        ({"type": "edit", "args": {"path": "b"}}, "success", "", "deleted b"),
        ({"type": "edit", "args": {"path": [7]}}, "error", "", "not of type 'string'"),
        ({"type": "edit", "name": "add", "args": {"a": 1}}, "cancelled", "denied", "not its tool"),
        ({"type": "edit", "args": {"path": "/etc"}}, "cancelled", "denied", "hands off"),
        (
            {"type": "respond", "message": "it is gone"},
            "success",
            "answered by the user",
            "it is gone",
        ),
        ({"type": "reject", "message": "not today"}, "cancelled", "rejected", '"not today"'),
        ({"type": "reject"}, "cancelled", "rejected", "You rejected this call."),
    ],
)
async def test_what_a_human_decides_is_what_happens(decision, status, reason, words):
    rules = [{"arguments": {"path": "^/etc"}, "action": "deny", "reason": "hands off"}]
    box = Toolbox([DANGER, add], policy=rules)
    record, other = await run(
        box, ("danger", {"path": "a"}), ("add", {"a": 1}), decisions={"1.1.0": decision}
    )
    assert (record["status"], record["reason"]) == (status, reason)
    assert words in record["result"]
    assert record["message"].status == ("success" if status == "success" else "error")
    assert other["status"] == "success"


@pytest.mark.req("P-25")
async def test_five_results_of_a_megabyte_fit_and_can_be_read_on():
    def dump(n: int) -> str:
        return f"{n}" + "表格 row\n" * 150_000 + f"end {n}"

    box, store, context = Toolbox([reading(dump)]), InMemoryStore(), Context(result_cap=4_000)
    more = {"context": context, "store": store}
    records = await run(box, *(("dump", {"n": n}) for n in range(5)), **more)
    assert sum(weigh(r["result"]) for r in records) <= 5 * 4_000
    assert all(r["result"].endswith(f"end {n}") for n, r in enumerate(records))
    messages = [r["message"] for r in records]
    key = messages[2].additional_kwargs["stored"]
    (page,) = await run(box, ("read_result", {"id": key, "offset": 1_000_000}), **more)
    assert page["status"] == "success"
    assert dump(2)[1_000_000:1_000_500] in page["result"]
    assert weigh(page["result"]) <= 4_000
    (missing,) = await run(box, ("read_result", {"id": "nope"}), **more)
    assert missing["status"] == "error"

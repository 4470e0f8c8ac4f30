"""Several passes over the calls of one message: doubt, questions, crashes, order."""

import asyncio
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import StructuredTool

from loopwright.calls.approval import decision_key
from loopwright.calls.gate import Gate, open_calls, plan_calls
from loopwright.calls.path import run_calls
from loopwright.calls.toolbox import Toolbox
from loopwright.hooks.contract import Hook
from loopwright.hooks.registry import Hooks
from loopwright.state.context import Context
from loopwright.store.journal.recorder import Recorder
from support.scope import records_of, scope_with


@pytest.fixture
def journal():
    return Recorder()


class World:
    """Tools that note what they did; `write` does what it is told to before it returns."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.before_answer: Any = None

    def box(self, **more) -> Any:
        async def write(n: int) -> str:
            self.done.append(f"write {n}")
            if self.before_answer:
                await self.before_answer()
            return f"wrote {n}"

        async def look(n: int) -> str:
            self.done.append(f"look {n}")
            return f"saw {n}"

        made = [
            StructuredTool.from_function(coroutine=f, description="A tool.") for f in (write, look)
        ]
        made[1].metadata = {"readOnlyHint": True}
        return Toolbox(made, **more)


def wanting(*calls) -> AIMessage:
    return AIMessage(
        "", tool_calls=[{"name": n, "args": a, "id": f"c{i}"} for i, (n, a) in enumerate(calls)]
    )


async def planned(box, *calls, round_=1) -> Any:
    return plan_calls(
        wanting(*calls), task="1", round_=round_, gate=await Gate.for_run(box, scope_with())
    )


async def go(box, calls, journal, *, decisions=None, history=(), **more) -> Any:
    scope = scope_with(thread="t", turn="turn 1", journal=journal, **more)
    return await run_calls(scope, box, calls, decisions=decisions, history=history)


async def cut_off(world, box, calls, journal) -> None:
    """Cancel the run while the first write is at work."""
    reached = asyncio.Event()

    async def hang() -> None:
        reached.set()
        await asyncio.sleep(30)

    world.before_answer = hang
    task = asyncio.create_task(go(box, calls, journal))
    await reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    world.before_answer = None


@pytest.mark.req("P-26", "P-06")
async def test_a_cancelled_write_is_in_doubt_and_holds_back_the_writes_behind_it(journal):
    world = World()
    box = world.box()
    calls = await planned(box, ("write", {"n": 1}), ("write", {"n": 2}), ("look", {"n": 3}))
    await cut_off(world, box, calls, journal)
    assert [row.in_doubt for row in await journal.rows("t")] == [True]
    first = await go(box, calls, journal)
    assert [r["id"] for r in records_of(first)] == ["1.1.2"]
    assert world.done == ["write 1", "look 3"]
    doubted, behind = first.waiting
    assert (doubted["action"], doubted["doubts"], decision_key(doubted)) == ("ask", 1, "1.1.0?")
    assert doubted["status"] == "awaiting_approval"
    assert behind == calls[1]
    again = {"1.1.0?": {"type": "approve"}}
    second = await go(box, first.waiting, journal, decisions=again)
    assert not second.waiting
    assert world.done == ["write 1", "look 3", "write 1", "write 2"]
    assert [r["result"] for r in records_of(second)] == ["wrote 1", "wrote 2"]


@pytest.mark.req("P-04", "P-06")
async def test_what_had_ended_before_a_crash_is_not_made_again(journal):
    world = World()
    box = world.box()
    calls = await planned(box, ("write", {"n": 1}), ("look", {"n": 2}))
    first = await go(box, calls, journal)
    events: list[dict[str, Any]] = []
    second = await go(box, calls, journal, emit=events.append)
    assert world.done == ["write 1", "look 2", "look 2"], "a read may run again"
    assert records_of(first)[0]["result"] == records_of(second)[0]["result"] == "wrote 1"
    assert [(r["ran"], r["counts"]) for r in records_of(second)] == [(False, True), (True, True)]
    assert [e["status"] for e in events][:2] == ["scheduled", "success"]


@pytest.mark.req("P-06")
async def test_what_may_be_repeated_runs_again_unasked_and_under_the_same_key(journal):
    keys: list[str] = []
    reached = asyncio.Event()

    async def put(n: int, config: RunnableConfig) -> str:
        keys.append(config["metadata"]["loopwright/idempotency_key"])
        reached.set()
        await asyncio.sleep(30 if len(keys) == 1 else 0)
        return f"put {n}"

    made = StructuredTool.from_function(coroutine=put, description="A tool.")
    made.metadata = {"idempotentHint": True}
    box = Toolbox([made])
    calls = await planned(box, ("put", {"n": 1}))
    task = asyncio.create_task(go(box, calls, journal))
    await reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    done = await go(box, calls, journal, can_ask=False)
    assert [r["result"] for r in records_of(done)] == ["put 1"]
    assert len(keys) == 2
    assert len(set(keys)) == 1


@pytest.mark.req("P-06")
async def test_a_write_that_waits_for_another_ones_doubt_is_told_as_not_run(journal):
    world = World()
    box = world.box()
    await cut_off(world, box, await planned(box, ("write", {"n": 1})), journal)
    await journal.release("t", turn="turn 1", place="", keeps=lambda _: False)
    other = await planned(box, ("write", {"n": 2}), round_=2)
    events: list[dict[str, Any]] = []
    (record,) = records_of(await go(box, other, journal, can_ask=False))
    assert (record["status"], record["reason"]) == ("cancelled", "not_interactive")
    assert "write was called with {'n': 1}" in record["result"]
    assert "may have taken effect" not in record["result"]
    (left,) = (await go(box, other, journal, emit=events.append)).waiting
    assert left["doubt"]["other"]
    assert left["args"] == {"n": 2}
    assert left["reason"] == "another call may have run already"
    assert [event.get("reason") for event in events][-1] == "waiting"
    again = {decision_key(left): {"type": "approve"}}
    (record,) = records_of(await go(box, [left], journal, decisions=again))
    assert record["result"] == "wrote 2"
    assert world.done == ["write 1", "write 2"]


async def test_an_edited_call_passes_the_hooks_before_it_runs(journal):
    world = World()
    box = world.box(policy="ask")
    calls = await planned(box, ("write", {"n": 1}))

    def guard(given) -> Any:
        return {"decision": "deny", "reason": "not 7"} if given["tool_input"]["n"] == 7 else None

    hooks = Hooks([Hook(event="BeforeTool", run=guard)])
    edit = {"1.1.0": {"type": "edit", "args": {"n": 7}}}
    (record,) = records_of(await go(box, calls, journal, decisions=edit, hooks=hooks))
    assert (record["status"], record["reason"]) == ("cancelled", "denied")
    assert "not 7" in record["result"]
    fine = {"1.1.0": {"type": "edit", "args": {"n": 8}}}
    (record,) = records_of(await go(box, calls, journal, decisions=fine, hooks=hooks))
    assert record["arguments"] == {"n": 8}
    assert world.done == ["write 8"]


async def granted_in(box) -> dict[str, Any]:
    """What was approved of the tool as it is."""
    definition = (await box.catalog()).tools["write"].definition
    arguments = {"n": "^2$"}
    return {"tool": "write", "server": None, "arguments": arguments, "definition": definition}


@pytest.mark.req("P-42")
async def test_what_the_thread_was_granted_is_opened_without_a_question(journal):
    world = World()
    box = world.box(policy="ask", foreign="allow")
    seen: list[Any] = []
    hooks = Hooks([Hook(event="Notification", run=lambda given: seen.append(given["details"]))])
    context = Context(question_expires_in=60)
    await journal.grant("t", await granted_in(box))
    events: list[dict[str, Any]] = []
    scope = scope_with(
        context, journal=journal, thread="t", path="1", emit=events.append, hooks=hooks
    )
    calls = wanting(("write", {"n": 1}), ("write", {"n": 2}), ("nope", {}))
    opened = await open_calls(scope, box, calls, round_=1)
    assert [(c["action"], c["status"]) for c in opened] == [
        ("ask", "awaiting_approval"), ("allow", "scheduled"), ("error", "validating"),
    ]  # fmt: skip
    assert "T" in opened[0]["expires_at"]
    assert [given["id"] for given in seen] == ["1.1.0"]
    assert [e["status"] for e in events if e["type"] == "tool_call"] == [
        "validating", "awaiting_approval", "validating", "scheduled", "validating",
    ]  # fmt: skip
    done = await go(box, opened, journal)
    assert [r["id"] for r in records_of(done)] == ["1.1.2"], "the write waits behind the question"
    done = await go(box, opened, journal, decisions={"1.1.0": {"type": "reject"}})
    assert [r["status"] for r in records_of(done)] == ["cancelled", "success", "error"]


async def test_a_grant_counts_where_nobody_can_be_asked_and_only_while_it_lasts(journal):
    world = World()
    box = world.box(policy="ask")
    await journal.grant("t", await granted_in(box))
    alone = scope_with(journal=journal, thread="t", path="1", can_ask=False)
    calls = wanting(("write", {"n": 1}), ("write", {"n": 2}))
    opened = await open_calls(alone, box, calls, round_=1)
    assert [call["action"] for call in opened] == ["deny", "allow"]
    headless = Context(interactive=False)
    done = await go(box, opened, Recorder(), context=headless)
    assert records_of(done)[1]["reason"] == "not_interactive", "that journal knows of no grant"
    done = await go(box, opened, journal, context=headless)
    assert [r["status"] for r in records_of(done)] == ["cancelled", "success"]
    assert world.done == ["write 2"]

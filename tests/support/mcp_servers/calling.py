"""Calling tools of real servers as a graph does."""

from typing import Any

from langchain_core.messages import AIMessage

from loopwright.calls.gate import Gate, plan_calls
from loopwright.calls.path import run_calls
from loopwright.state.context import Context
from support.patience import PATIENCE
from support.scope import records_of, scope_with


async def run(box, *calls, deadline=PATIENCE, user=None, **more) -> Any:
    """The records of some calls, each a name and its arguments."""
    context = Context(policy="allow", tool_deadline=deadline, dedupe="off")
    message = AIMessage(
        "", tool_calls=[{"name": n, "args": a, "id": f"c{i}"} for i, (n, a) in enumerate(calls)]
    )
    scope = scope_with(context, thread="t", user=user, can_ask=False, **more)
    planned = plan_calls(message, task="1", round_=1, gate=await Gate.for_run(box, scope))
    return records_of(await run_calls(scope, box, planned))


async def text(box, name, **args) -> Any:
    """What a call that works gives the model."""
    (record,) = await run(box, (name, args))
    assert record["status"] == "success", record["result"]
    return record["result"]


async def failure(box, name, *, deadline=PATIENCE, **args) -> Any:
    """What a call that fails gives the model."""
    (record,) = await run(box, (name, args), deadline=deadline)
    assert record["status"] != "success", record["result"]
    return record["result"]

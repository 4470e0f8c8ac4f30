"""Run the calls of one model turn along the one path every call takes."""

import time

from langgraph.runtime import Runtime

from ..state.context import Context, context_of
from ..state.loop import TaskState, TaskUpdate
from ..state.spend import Spend
from ..tools.calls import run_calls
from .allowance import ledger_for, spent_since
from .events import emitter
from .parts import Parts
from .run_facts import thread_id, user_id

_NOT_KEPT = frozenset({"message", "ran"})


async def call_tools(state: TaskState, runtime: Runtime[Context], *, parts: Parts) -> TaskUpdate:
    """Run what is allowed and approved; every call gets exactly one tool message."""
    began, context = time.monotonic(), context_of(runtime)
    records = await run_calls(
        state.calls,
        toolbox=parts.toolbox,
        context=context,
        decisions=state.decisions,
        emit=emitter(runtime),
        store=runtime.store,
        thread_id=thread_id(),
        user_id=user_id(),
        ledger=ledger_for(context, state.spend, branch=state.task["id"]),
    )
    denied = [record["reason"] for record in records if record["status"] == "denied"]
    return TaskUpdate(
        messages=[record["message"] for record in records],
        evidence=[{k: v for k, v in r.items() if k not in _NOT_KEPT} for r in records],
        calls=[],
        denied=denied[-1] if denied else "",
        spend=spent_since(began, Spend(tool_calls=sum(r["ran"] for r in records))),
    )

"""Run the calls of one model turn along the one path every call takes."""

from langgraph.runtime import Runtime

from ..state.context import Context, context_of
from ..state.loop import TaskState, TaskUpdate
from ..state.spend import Spend
from ..tools.calls import run_calls
from .allowance import ledger_for
from .events import emitter
from .parts import Parts
from .run_facts import thread_id, user_id


async def call_tools(state: TaskState, runtime: Runtime[Context], *, parts: Parts) -> TaskUpdate:
    """Run what is allowed and approved; every call gets exactly one tool message."""
    context = context_of(runtime)
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
    started = {call["id"] for call in state.calls if call["action"] in {"allow", "ask"}}
    ran = sum(r["id"] in started and r["status"] != "denied" for r in records)
    denied = [record["reason"] for record in records if record["status"] == "denied"]
    return TaskUpdate(
        messages=[record["message"] for record in records],
        records=[{k: v for k, v in record.items() if k != "message"} for record in records],
        calls=[],
        denied=denied[-1] if denied else "",
        spend=Spend(tool_calls=ran),
    )

"""The calls of a message: checked, judged, and scheduled or asked about before any of them runs."""

from langchain_core.messages import AIMessage

from ..calls.gate import Gate, PlannedCall, plan_calls
from ..calls.opening import open_calls
from ..calls.tool_hooks import before_tools
from ..state.context import Context
from ..state.events import Emit
from ..tools.catalog import Catalog
from ..turn.scope import can_ask, thread_id
from .parts import Parts


async def planned_calls(
    message: AIMessage,
    *,
    path: str,
    round_: int,
    complete: bool,
    catalog: Catalog,
    context: Context,
    parts: Parts,
    emit: Emit,
) -> list[PlannedCall]:
    """Check and judge the calls of a message, let hooks change them, and schedule or ask.

    Args:
        message: The model's message.
        path: Whose calls they are; begins their ids.
        round_: The model turn, next in their ids.
        complete: False where the message was cut, so that no call in it can be trusted.
        catalog: What can be called.
        context: The run's settings.
        parts: Policy, hooks and journal.
        emit: Takes the events of calls and hooks.
    """
    gate = Gate(catalog, parts.toolbox.policy, context, can_ask(context), agent=parts.name)
    calls = plan_calls(message, task=path, round_=round_, gate=gate, complete=complete)
    calls = await before_tools(calls, gate, parts.hooks, emit=emit)
    return await open_calls(
        calls, gate, journal=parts.journal, thread_id=thread_id(), emit=emit, hooks=parts.hooks
    )

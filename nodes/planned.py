"""The calls of a model turn or a step: planned from a message, and run with all a run knows."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final, Protocol, cast

from langchain_core.messages import AIMessage
from langgraph.store.base import BaseStore

from ..models.spend import Ledger
from ..state.calling import CallState
from ..state.context import Context
from ..state.events import Emit
from ..state.evidence import UNCERTAIN, Evidence
from ..tools.call_records import CallRecord, Pass
from ..tools.calls import run_calls
from ..tools.catalog import Catalog
from ..tools.opening import open_calls
from ..tools.planning import Gate, PlannedCall, plan_calls
from ..tools.tool_hooks import before_tools
from .parts import Parts
from .run_facts import can_ask, place, thread_id, user_id

NOT_RECORDED: Final = (
    "Tool calls are recorded in memory only, so after a crash a call that changed something could "
    "be made again: build the graph with durability=open_durability(url), or set "
    "LOOPWRIGHT_DATABASE_URL where a server loads it."
)
_NOT_KEPT: Final = frozenset({"message", "ran", "counts", "server"})


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


class Caller(Protocol):
    """Runs planned calls; see `run_calls`."""

    async def __call__(
        self,
        calls: Sequence[Mapping[str, Any]],
        *,
        history: Sequence[Evidence] = (),
        plain: bool = False,
    ) -> Pass:
        """Run those calls that may run now; `history` are the calls before them."""


def caller(
    state: CallState,
    context: Context,
    parts: Parts,
    *,
    store: BaseStore | None,
    ledger: Ledger,
    emit: Emit,
) -> Caller:
    """The one path of every call, with what the running node knows of its run."""
    return partial(
        run_calls,
        toolbox=parts.toolbox,
        context=context,
        decisions=state.decisions,
        emit=emit,
        store=store,
        thread_id=thread_id(),
        user_id=user_id(),
        ledger=ledger,
        journal=parts.journal,
        place=place(),
        turn=state.turn_id,
        agent=parts.name,
        hooks=parts.hooks,
        can_ask=can_ask(context),
    )


def as_evidence(record: CallRecord) -> Evidence:
    """A call that was answered, as the state keeps it."""
    kept: dict[str, Any] = {k: v for k, v in record.items() if k not in _NOT_KEPT}
    if record["reason"] == UNCERTAIN and record["server"]:
        kept["server"] = record["server"]
    return cast("Evidence", kept)

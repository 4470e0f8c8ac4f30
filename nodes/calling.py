"""Calls as a run makes them: with all the running node knows, and as the state keeps them."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final, Protocol, cast

from langgraph.store.base import BaseStore

from ..calls.call_records import CallRecord, Pass
from ..calls.path import run_calls
from ..state.calling import CallState
from ..state.context import Context
from ..state.events import Emit
from ..state.evidence import UNCERTAIN, Evidence
from ..turn.budget import Ledger
from ..turn.scope import can_ask, place, saved_durably, thread_id, user_id
from .parts import Parts

NOT_RECORDED: Final = (
    "Tool calls are recorded in memory only, so after a crash a call that changed something could "
    "be made again: build the graph with durability=open_durability(url), or set "
    "LOOPWRIGHT_DATABASE_URL where a server loads it."
)
_NOT_KEPT: Final = frozenset({"message", "ran", "counts", "server"})


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


def not_recorded(parts: Parts, *, wrote: bool) -> list[str]:
    """The warning for a run that is saved durably and changed something, but not by its journal."""
    return [NOT_RECORDED] if wrote and saved_durably() and not parts.journal.durable else []


def as_evidence(record: CallRecord) -> Evidence:
    """A call that was answered, as the state keeps it."""
    kept: dict[str, Any] = {k: v for k, v in record.items() if k not in _NOT_KEPT}
    if record["reason"] == UNCERTAIN and record["server"]:
        kept["server"] = record["server"]
    return cast("Evidence", kept)

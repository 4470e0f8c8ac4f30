"""The package's own tools: what one is given beside its arguments, and how a call is answered."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..state.calls import CallState, Evidence
from ..tools.catalog import Catalog
from ..turn.scope import RunScope
from .call_records import Call
from .result_store import ResultStore
from .sending import compute_deadline, run_once
from .wrapper import PassScope, Then


@dataclass(frozen=True)
class HandlerScope:
    """One call of such a tool, as its handler sees it; it changes state by its result."""

    scope: RunScope
    results: ResultStore
    """Long results of the thread."""
    catalog: Catalog
    """What can be called."""
    state: CallState | None = None
    """The graph's state, to be read only; None where a call stands in no loop."""
    beside: Sequence[Evidence] = ()
    """The calls of the same message that have ended, in this pass or an earlier one."""


async def answer_by_handler(work: PassScope, call: Call, _: Then) -> None:
    """Answer a call of the package's own tool; no allowance pays for it."""
    tool = call.known_tool
    own = HandlerScope(work.scope, work.results, work.gate.catalog, work.state, [*work.beside])
    call.begin()
    handler: Any = tool.own
    began = time.monotonic()
    deadline = compute_deadline(call.pending, tool, work.scope.context)
    call.result, call.reason = await run_once(tool, handler(call.args, own), deadline)
    call.ran, call.seconds = True, time.monotonic() - began

"""The package's own tools: what one is given beside its arguments, and how a call is answered."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from ..state.calls import CallState, Evidence
from ..tools.catalog import Catalog
from ..turn.scope import RunScope
from .approval import Ready
from .call_records import Answered
from .one_call import run_once
from .result_store import ResultStore


@dataclass(frozen=True)
class Own:
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


async def answer_own(ready: Ready, deadline: float, own: Own) -> Answered:
    """Answer a call of the package's own tool; no allowance pays for it."""
    began, handler = time.monotonic(), cast("Any", ready.tool.own)
    made = await run_once(ready.tool, handler(ready.args, own), deadline)
    return replace(made, counts=False, seconds=time.monotonic() - began, args=ready.args)

"""What a wrapper of the call path is, and what the calls of one pass share.

A wrapper is a function that can be read alone. It answers a call, or lets those behind it do so by
`await then(call)` and looks at what came of it: afterwards the call has a `result` or a `doubt`.
`wrappers_of` in `path` is the list of them.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from ..state.calls import CallState, Evidence
from ..turn.scope import RunScope
from .call_records import Call, PendingCall
from .gate import Gate
from .journal import CallJournal
from .result_store import ResultStore
from .reuse import ReadCache
from .toolbox import Toolbox

Then = Callable[[Call], Awaitable[None]]
"""Hands a call to the wrappers behind."""

Wrapper = Callable[["PassScope", Call, Then], Awaitable[None]]
"""One stage of the path; what its tool, its server or a hook asks is raised through it."""


@dataclass(kw_only=True)
class PassScope:
    """What the calls of one pass share."""

    scope: RunScope
    toolbox: Toolbox
    gate: Gate
    book: CallJournal
    results: ResultStore
    memory: ReadCache | None
    """Results that may be reused; None where no tool's may be."""
    history: Sequence[Evidence]
    """The calls before this message."""
    beside: list[Evidence]
    """The calls of the same message that have ended, in this pass or an earlier one."""
    plain: bool
    state: CallState | None
    shared: bool
    """Several calls run in this pass."""
    run_along: Callable[["PassScope", Call], Awaitable[None]]
    """Takes a call through its wrappers."""
    closed: bool = False
    """No further call of the pass begins."""
    wrote: bool = False
    asked: dict[str, PendingCall] = field(default_factory=dict)
    """The calls that a human must decide on first, by id."""

"""Progress events: on the `custom` stream, and in the log.

From inside a task they reach the outer run's stream.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, Protocol

from ..state.events import Emit

log = logging.getLogger(__name__)
log.addHandler(logging.NullHandler())  # a program without logging is told by the stream alone

_OUTER: ContextVar[Emit | None] = ContextVar("loopwright_outer_events", default=None)
# What somebody should look at; everything else is logged at INFO.
_UNUSUAL: Final = frozenset({"warning", "retry", "fallback", "budget"})


class _HasWriter(Protocol):
    @property
    def stream_writer(self) -> Callable[[Any], None]: ...


def emitter(runtime: _HasWriter) -> Emit:
    """Where a node sends its events: the outer run's stream if it runs inside a task."""
    write = _OUTER.get()
    return write or _logged(runtime.stream_writer)


def _logged(write: Callable[[Any], None]) -> Emit:
    def emit(event: dict[str, Any]) -> None:
        level = logging.WARNING if event["type"] in _UNUSUAL else logging.INFO
        log.log(level, "%s", event)
        write(event)

    return emit


def noting(emit: Emit) -> tuple[Emit, list[str]]:
    """The same stream, and a list that each warning told on it is added to."""
    notes: list[str] = []

    def told(event: dict[str, Any]) -> None:
        if event["type"] == "warning":
            notes.append(event["text"])
        emit(event)

    return told, notes


@contextmanager
def events_to(emit: Emit) -> Iterator[None]:
    """Send the events of everything called inside to this stream.

    A subgraph's own custom events show only with `subgraphs=True`; these show always, once.
    """
    token = _OUTER.set(emit)
    try:
        yield
    finally:
        _OUTER.reset(token)

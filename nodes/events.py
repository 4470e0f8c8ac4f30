"""Progress events on the `custom` stream; from inside a task they reach the outer run's stream."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

Emit = Callable[[dict[str, Any]], None]

_OUTER: ContextVar[Emit | None] = ContextVar("loopwright_outer_events", default=None)


class _HasWriter(Protocol):
    @property
    def stream_writer(self) -> Callable[[Any], None]: ...


def emitter(runtime: _HasWriter) -> Emit:
    """Where a node sends its events: the outer run's stream if it runs inside a task."""
    return _OUTER.get() or runtime.stream_writer


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

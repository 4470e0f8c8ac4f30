"""What was looked at in a database, and what is to be done; see `health`."""

from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

from ..state.units import span

Level = Literal["ok", "warning", "broken"]
Told = tuple[Level, str]
"""Of a check whose name is known."""

LATE: Final = 60.0
"""Seconds: a turn that waits for longer, and a lease that ended so long ago, want a worker."""

TURNS: Final = """
SELECT count(*) FILTER (WHERE state = 'waiting') AS waiting,
    count(*) FILTER (WHERE state = 'aside') AS aside,
    {now} - min(since) FILTER (WHERE state = 'waiting' AND due <= {now}) AS seconds
FROM loopwright_turns
"""


class Finding(NamedTuple):
    """One thing that was looked at. Only what is `broken` keeps runs from working."""

    level: Level
    check: str
    text: str


def queued(waiting: int, aside: int, seconds: float | None) -> Iterator[Told]:
    """What is to be said of turns that wait, the oldest that could run for so many seconds."""
    if aside:
        told = f"{aside} turns are set aside, because they cannot run or ended their workers"
        yield "warning", f"{told}: see why (loopwright turns), mend it, enqueue them again."
    told = f"{waiting} turns wait in the queue"
    if seconds and seconds > LATE:
        oldest = f"the oldest that could run for {span(seconds)}"
        yield "warning", f"{told}, {oldest}: start a worker, or more of them (loopwright worker)."
    else:
        yield "ok", f"{told}."

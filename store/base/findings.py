"""What was looked at in a database, and what is to be done; see `health`."""

from collections.abc import Iterable, Iterator
from typing import Final, Literal, NamedTuple

from ...text.canonical import format_seconds, plural

Level = Literal["ok", "warning", "broken"]
Told = tuple[Level, str]
"""Of a check whose name is known."""

LATE: Final = 60.0
"""Seconds: a turn that waits for longer, and a lease that ended so long ago, want a worker."""

_NAMED: Final = 3
"""Graphs of which is told how long their turns wait."""


class Finding(NamedTuple):
    """One thing that was looked at. Only what is `broken` keeps runs from working."""

    level: Level
    check: str
    text: str


def describe_queue(graphs: Iterable[tuple[str, int, int, float | None]]) -> Iterator[Told]:
    """What is to be said of turns that wait.

    Args:
        graphs: Of each its name, how many of its turns wait, how many are set aside, and for how
            many seconds the oldest waits that could run.
    """
    waiting = aside = 0
    late: list[tuple[float, str]] = []
    for graph, waits, lies, seconds in graphs:
        waiting, aside = waiting + waits, aside + lies
        if seconds and seconds > LATE:
            late.append((seconds, graph))
    if aside:
        one = aside == 1
        told = f"{plural(aside, 'turn')} {'is' if one else 'are'} set aside"
        told += f", because {'it' if one else 'they'} cannot run or ended the workers"
        advice = "see why (loopwright turns), mend it, then enqueue again or take back"
        yield "warning", f"{told}: {advice}."
    told = f"{plural(waiting, 'turn')} {'waits' if waiting == 1 else 'wait'} in the queue"
    if not late:
        yield "ok", f"{told}."
        return
    late.sort(reverse=True)
    oldest = ", ".join(
        f"of {graph} for {format_seconds(seconds)}" for seconds, graph in late[:_NAMED]
    )
    more = f", and {plural(len(late) - _NAMED, 'more graph')}" if len(late) > _NAMED else ""
    advice = "start a worker that runs them, or more of them (loopwright worker)"
    yield "warning", f"{told}, the oldest that could run {oldest}{more}: {advice}."

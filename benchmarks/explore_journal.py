"""Does the journal keep its promises in every history there is? Visits all up to a bound.

Two turns of at most two plans, each of one read and at most two writes of the same tool, made of
the read or of a value; a kill between any two lines, a write without an answer, a second process
after the lock was lost, and a human who says ran, run again or give up. The moves are those of
tests/support/intents.py, which checks I1 to I6 in each; the rules are the product's own
(store/journal/intents.py), the rows are kept in memory so that states can be compared. States that
differ only in names that nobody uses any more are one.

    python benchmarks/explore_journal.py [seconds]

Prints one line of JSON: the states, the moves between them, and the seconds. Exit code 1 with the
shortest way found to a broken promise, or where the time (600 s) was not enough.
"""

import gc
import json
import sys
import time
from collections import deque
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.intents import PROTOCOL, Bounds, Kept, State, Write, apply, canonical, moves

MADE_OF = [["r"], ["a"], ["r", "r"], ["r", "a"], ["a", "a"]]
"""What the writes of each plan that is offered are made of: the read, or a value."""

BOUNDS = Bounds(
    plans_offered=tuple(
        tuple(Write(f"w{n}", of) for n, of in enumerate(writes)) for writes in MADE_OF
    )
)


class Broken(Exception):
    """A promise is broken; the moves that lead there."""

    def __init__(self, what: str, way: list[Any]) -> None:
        """Say what, and how it comes to that."""
        super().__init__(what)
        self.way = way


def explore(bounds: Bounds, protocol: Any = PROTOCOL, most: float = 600.0) -> dict[str, Any]:
    """Visit every state.

    Raises:
        Broken: One of them breaks a promise.
        TimeoutError: There are more than could be visited.
    """
    began, first = time.monotonic(), Kept()
    queue = deque([(State(), tuple(first.held.values()), first.token, 0)])
    ways: list[tuple[int, Any]] = [(0, None)]
    seen = {hash(canonical(State(), []))}
    count = 0
    while queue:
        state, rows, token, way = queue.popleft()
        for move in moves(state, bounds):
            count += 1
            journal = Kept(rows, token)
            try:
                after = apply(state, journal, move, bounds, protocol)
            except AssertionError as broken:
                raise Broken(str(broken), [*_path(ways, way), move]) from broken
            held = tuple(journal.held.values())
            mark = hash(canonical(after, list(held)))
            if mark not in seen:
                seen.add(mark)
                ways.append((way, move))
                queue.append((after, held, journal.token, len(ways) - 1))
        if time.monotonic() - began > most:
            msg = f"{len(seen)} states visited in {most:g} s, {len(queue)} of them still open"
            raise TimeoutError(msg)
    seconds = round(time.monotonic() - began, 1)
    return {"states": len(seen), "moves": count, "seconds": seconds}


def _path(ways: list[tuple[int, Any]], way: int) -> list[Any]:
    path: list[Any] = []
    while way:
        way, move = ways[way]
        path.insert(0, move)
    return path


if __name__ == "__main__":
    gc.disable()  # nothing here is a cycle, and to look for some takes half the time
    try:
        found = explore(BOUNDS, most=float(sys.argv[1]) if len(sys.argv) > 1 else 600.0)
    except (Broken, TimeoutError) as error:
        told = {"error": str(error), "way": [str(move) for move in getattr(error, "way", [])]}
        sys.exit(json.dumps(told, indent=1))
    print(json.dumps(found))  # noqa: T201 - it is its output

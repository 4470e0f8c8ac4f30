"""What long tasks and old threads cost: the parts `agents` and `alive` of `costs.py`."""

import statistics
from collections.abc import Sequence

from bench import BARE, GROWING, OURS, PEER, RAW, SHORTENING, Bench, per_call
from fleet import Found, middle, ratio
from report import Goal, Part


def agents(bench: Bench) -> Part:
    """A long task with results of 2 kB, on SQLite, beside agents that shorten their history, too.

    A turn is the CPU from one result to the next; in one of every few dozen the history is
    shortened, which the median leaves out and the CPU of the whole does not.
    """
    turns, ours = bench.size.turns[2], "task_agent"
    order = {
        "do": "run", "script": f"page-{turns}-0", "tool": "page", "transform": False, "saved": True,
    }  # fmt: skip
    names = (RAW, PEER, *SHORTENING, ours)
    found = per_call(bench.fleet.rounds(names, bench.size.times, order))
    late = {name: [{"x": grown(one["turns"])} for one in found[name]] for name in names}
    goals = [
        *(Goal(f"{ours}: CPU a call at {turns} turns of 2 kB, to {peer}",
               ratio(found, ours, peer, "ms"), 1.0) for peer in SHORTENING),
        Goal(f"{ours}: the last turns, to turns 20 to 40", middle(late, ours, "x"), 1.3),
        Goal(f"{ours}: longest prompt, thousand tokens",
             max(found[ours][0]["asked"]) / 1_000, 100, ""),
        Goal(f"{ours}: disk at {turns} turns of 2 kB", middle(found, ours, "disk") / 1e6, 2, "MB"),
    ]  # fmt: skip
    bench.explain(goals, ours, order)
    rows = [[f"{turns} turns of 2 kB, SQLite", "CPU a call, ms", "calls", "last turns to early",
             "longest prompt, k tokens", "disk, MB"]]  # fmt: skip
    for name in names:
        asked, disk = max(found[name][0]["asked"]) / 1_000, middle(found, name, "disk") / 1e6
        cells = [middle(found, name, "ms"), middle(found, name, "calls")]
        rows.append([name, f"{cells[0]:.1f}", f"{cells[1]:.0f}",
                     f"{middle(late, name, 'x'):.2f}x", f"{asked:.0f}", f"{disk:.2f}"])  # fmt: skip
    return Part("A long task", goals, rows)


def grown(turns: Sequence[float]) -> float:
    """How much longer a turn takes in the end than after the first few."""
    few = len(turns) // 20
    return statistics.median(turns[-few:]) / statistics.median(turns[few : 2 * few])


def alive(bench: Bench) -> Part:
    """What events and components cost, and what a turn adds to a thread, first and last."""
    number = bench.size.long
    order = {"do": "turns", "number": number, "script": "look-1-0", "saved": True}
    names = (BARE, PEER, "task_agent", *OURS)
    found = bench.fleet.rounds(names, 1, order)
    order = {
        "do": "run", "script": f"look-{bench.size.turns[1]}-0", "saved": True, "transform": False,
    }  # fmt: skip
    rows = [[f"{number} turns of one thread", "first turns, kB each", "last turns",
             "CPU of the first turns, ms", "of the last", "growth"]]  # fmt: skip
    least, goals = slowed(found[BARE][0]["taken"])[2], []
    for name in names:
        first, last = growth(found[name][0]["sizes"])
        early, late, slower = slowed(found[name][0]["taken"])
        rows.append([name, f"{first / 1_000:.1f}", f"{last / 1_000:.1f}",
                     f"{early * 1_000:.1f}", f"{late * 1_000:.1f}", f"{slower:.2f}x"])  # fmt: skip
        if name in GROWING:
            goals.append(Goal(f"{name}: growth of a turn's CPU over {number} turns, to three"
                              " empty nodes", slower / least, 1.5))  # fmt: skip
        if name in OURS:
            told = told_of(bench, name, order)
            goals += [
                Goal(f"{name}: bytes a turn, last to first", last / first, 1.3),
                Goal(f"{name}: CPU with events and components, to none, SQLite", told, 1.1),
            ]
            bench.explain(goals[-1:], name, order)
    return Part("A thread that grows, and tells", goals, rows)


def slowed(taken: Sequence[float]) -> tuple[float, float, float]:
    """CPU of a turn at the beginning and in the end, and how many times it has grown."""
    few = max(len(taken) // 40, 3)
    early, late = statistics.median(taken[:few]), statistics.median(taken[-few:])
    return early, late, late / early


def told_of(bench: Bench, name: str, order: Found) -> float:
    """What it costs to tell what happens, as a multiple of a run that does not."""
    ratios = []
    for _ in range(bench.size.rounds[1]):
        on, off = (bench.fleet.ask(name, {**order, "alive": told}) for told in (True, False))
        ratios.append(on["cpu"] / off["cpu"])
    return statistics.median(ratios)


def growth(sizes: list[int]) -> tuple[float, float]:
    """Bytes a turn in the first third after the first turns, and in the last."""
    part = len(sizes) // 3
    middle_, end = sizes[part - 1 : 2 * part], sizes[-part - 1 :]
    return (middle_[-1] - middle_[0]) / (len(middle_) - 1), (end[-1] - end[0]) / part

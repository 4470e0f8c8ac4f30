"""What do the graphs cost? Measures every goal there is, and writes what it found to docs/costs.md.

    python benchmarks/costs.py [--quick | --once] [--write] [part …]

A scripted model behind OpenAI's chat API is the same for everybody: for a loop by hand, the least
LangGraph can do, LangChain's `create_agent`, and our graphs; each is a process of its own, the
rounds are interleaved, CPU is what the process itself used. Read the ratios; the seconds are those
of the machine. Parts: calls, agents, reads, prompts, tools, dag, text, crowd, alive,
imports; all of them where none is named. deepagents is measured where it is installed. `--quick`
runs small ones, once; `--once` as large as they are, but for the crowd, once. `--write` puts tables
and plot into docs/.
"""

import argparse
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from bench import EVERYBODY, LOOPS, OURS, PEER, RAW, SIZES, Bench, per_call
from fleet import Found, Rounds, fleet, middle, ratio
from growth import agents, alive
from report import Goal, Part, shown, written

Variant = tuple[str, Found, tuple[int, int, int]]


def calls(bench: Bench) -> Part:
    """CPU a model call, growth with the history, disk."""
    size = bench.size
    variants: list[Variant] = [
        ("stock client", {}, size.stock_rounds),
        ("no transform", {"transform": False}, size.rounds),
        ("no transform, SQLite", {"transform": False, "saved": True}, size.rounds),
    ]
    found: dict[tuple[str, int], Rounds] = {}
    for title, how, times in variants:
        for turns, rounds in zip(size.turns, times, strict=True):
            if not rounds:
                continue
            order = {"do": "run", "script": f"look-{turns}-0", **how}
            found[title, turns] = per_call(bench.fleet.rounds(EVERYBODY, rounds, order))
    goals = call_goals(found, size.turns)
    for name in LOOPS:
        for saved in (False, True):
            mine = [goal for goal in goals if ("SQLite" in goal.name) is saved]
            order = {"script": f"look-{size.turns[1]}-0", "transform": False, "saved": saved}
            bench.explain(mine, name, order)
    some = size.turns[1]
    paged = {
        f"{some}, stock client": f"CPU of a model call at {some} turns, ms",
        f"{some}, no transform, SQLite": "with fast client, SQLite",
    }
    return Part("CPU of a model call", goals, call_table(found), paged, curves(found))


def call_goals(found: dict[tuple[str, int], Rounds], turns: tuple[int, int, int]) -> list[Goal]:
    """What a call may cost."""
    _, some, many = turns
    goals = []
    for name in LOOPS:
        plain, saved = found["no transform", some], found["no transform, SQLite", some]
        stock = found["stock client", some]
        grown = exponent(found, name, turns) - exponent(found, RAW, turns)
        disk = middle(found["no transform, SQLite", many], name, "disk") / 1e6
        goals += [
            Goal(f"{name}: CPU a call at {some} turns, to raw", ratio(plain, name, RAW, "ms"), 1.6),
            Goal(f"{name}: the same on SQLite, to raw", ratio(saved, name, RAW, "ms"), 2.0),
            Goal(
                f"{name}: the same with the stock client, to create_agent",
                ratio(stock, name, PEER, "ms"), 0.25,
            ),
            Goal(f"{name}: exponent from {some} to {many} turns, above raw's", grown, 0.1),
            Goal(f"{name}: disk at {many} turns", disk, 2.0, "MB"),
        ]  # fmt: skip
    return goals


def exponent(found: dict[tuple[str, int], Rounds], name: str, turns: tuple[int, int, int]) -> float:
    """How the CPU of a call grows from some turns to many: 0 is flat, 1 grows as the history."""
    few, many = (middle(found["no transform", t], name, "ms") for t in turns[1:])
    return math.log(many / few) / math.log(turns[2] / turns[1])


def call_table(found: dict[tuple[str, int], Rounds]) -> list[list[str]]:
    """Milliseconds of each, by variant and turns."""
    rows = [["CPU of a call, ms", *(f"{t}, {title}" for title, t in found)]]
    for name in EVERYBODY:
        cells = []
        for rounds in found.values():
            cells.append(f"{middle(rounds, name, 'ms'):.1f}")
        rows.append([name, *cells])
    return rows


def curves(found: dict[tuple[str, int], Rounds]) -> dict[str, dict[str, list[tuple[int, float]]]]:
    """The points of the plot: by variant, by name."""
    drawn: dict[str, dict[str, list[tuple[int, float]]]] = {}
    for (title, turns), rounds in found.items():
        for name in EVERYBODY[:-1]:
            points = drawn.setdefault(title, {}).setdefault(name, [])
            points.append((turns, middle(rounds, name, "ms")))
    return drawn


def reads(bench: Bench) -> Part:
    """The CPU of reading a thread's state."""
    order = {
        "do": "run", "script": f"look-{bench.size.read}-0", "transform": False,
        "saved": True, "read": True,
    }  # fmt: skip
    names = (PEER, "react(direct)", "plan_execute_verify")
    found = bench.fleet.rounds(names, bench.size.times, order)
    goals = [
        Goal(f"{name}: get_state at {bench.size.read} turns, to create_agent",
             ratio(found, name, PEER, "read"), 1.0)
        for name in names[1:]
    ]  # fmt: skip
    for name in names[1:]:
        bench.explain(goals, name, order)
    rows = [["get_state", "CPU, ms"]]
    rows += [[name, f"{middle(found, name, 'read') * 1_000:.1f}"] for name in names]
    return Part("Reading a thread", goals, rows)


def prompts(bench: Bench) -> Part:
    """Calls, and bytes no provider's cache can know."""
    turns = bench.size.turns[1]
    order = {"do": "run", "script": f"look-{turns}-0-counted", "transform": False}
    found = bench.fleet.rounds(EVERYBODY[1:], 1, order)
    goals = [
        *(Goal(f"{name}: uncached prompt bytes at {turns} turns, to create_agent",
               ratio(found, name, PEER, "new"), 1.3) for name in ("react(direct)", "task_agent")),
        Goal("prompt_flow: model calls", middle(found, "prompt_flow", "calls"), 2, ""),
    ]  # fmt: skip
    rows = [[f"{turns} turns", "calls", "uncached kB"]]
    for name in found:
        new = middle(found, name, "new") / 1_000
        rows.append([name, f"{middle(found, name, 'calls'):.0f}", f"{new:.0f}"])
    paged = {"calls": f"model calls of {turns} turns", "uncached kB": "uncached prompt, kB"}
    return Part("Model calls and prompts", goals, rows, paged)


def tools(bench: Bench) -> Part:
    """Eight blocking tools at once: from the answer that calls them to the next request."""
    order = {"do": "run", "script": "block-8-0", "tool": "block"}
    found = bench.fleet.rounds(EVERYBODY, bench.size.times, order)
    longest = {
        name: [{"x": max(one["between"]) / 0.2} for one in rounds] for name, rounds in found.items()
    }
    goals = [
        Goal(f"{name}: 8 blocking tools of 200 ms, to 200 ms", middle(longest, name, "x"), 1.15)
        for name in OURS
    ]
    for name in OURS:
        bench.explain(goals, name, order)
    rows = [["8 blocking tools of 200 ms", "ms"]]
    rows += [[name, f"{middle(longest, name, 'x') * 200:.0f}"] for name in EVERYBODY]
    return Part("Blocking tools", goals, rows, {"ms": "8 parallel tools of 200 ms, ms"})


def dag(bench: Bench) -> Part:
    """Seven steps in a diamond: what is needed is its critical path and two model calls."""
    order: Found = {"do": "run", "script": "ready-7-200", "tool": "work"}
    names = (RAW, PEER, *OURS)
    found = bench.fleet.rounds(names, bench.size.times, order)
    needed, path = 1.2 + 2 * 0.2, 1.2
    at_once = bench.fleet.rounds(("plan_execute_verify",), bench.size.times,
                                 {**order, "script": "ready-7-0"})  # fmt: skip
    plan = middle(at_once, "plan_execute_verify", "wall") / path
    flow = middle(found, "prompt_flow", "wall") / needed
    goals = [Goal("prompt_flow: DAG of 7, to its critical path and two model calls", flow, 1.06)]
    bench.explain(goals, "prompt_flow", order)
    rows = [["DAG of 7 steps of 0.3 s, model 0.2 s", "s", "model calls"]]
    for name in names:
        wall, made = middle(found, name, "wall"), middle(found, name, "calls")
        rows.append([name, f"{wall:.2f}", f"{made:.0f}"])
    rows.append(["plan_execute_verify, model 0 s", f"{plan * path:.2f} ({plan:.2f}x its path)", ""])
    paged = {"s": "plan of 7 steps, s", "model calls": "its model calls"}
    return Part("A DAG", goals, rows, paged)


def text(bench: Bench) -> Part:
    """The first text of an answer, from the start of the request that brings it."""
    order = {"do": "text", "script": "write-100-10"}
    found = bench.fleet.rounds((PEER, *OURS), bench.size.times, order)
    goals = [
        Goal(f"{name}: first text of an answer, to create_agent",
             ratio(found, name, PEER, "first"), 1.2)
        for name in OURS
    ]  # fmt: skip
    keys = ("first", "wrote", "whole")
    rows = [["100 words, 10 ms each", "first text, ms", "first word written", "whole", "pieces"]]
    for name in found:
        times = [f"{middle(found, name, key) * 1_000:.0f}" for key in keys]
        rows.append([name, *times, f"{middle(found, name, 'pieces'):.0f}"])
    return Part("The first text", goals, rows, {"first text, ms": "first text, ms"})


def crowd(bench: Bench) -> Part:
    """Many threads at once in one process, on SQLite."""
    number = bench.size.crowd
    order = {"do": "crowd", "number": number, "script": "look-2-0", "saved": True}
    names = (PEER, "react(direct)", "prompt_flow")
    found = bench.fleet.rounds(names, 1, order)
    goals = []
    for name in names[1:]:
        goals += [
            Goal(f"{name}: {number} threads at once, CPU a run, to create_agent",
                 ratio(found, name, PEER, "cpu"), 1.3),
            Goal(f"{name}: {number} threads at once, longest stall of the event loop",
                 middle(found, name, "stall"), 0.5, "s"),
        ]  # fmt: skip
        bench.explain(goals[-2:], name, {**order, "script": "look-2-0", "number": number})
    rows = [[f"{number} threads at once, SQLite", "CPU a run, ms", "longest stall, s", "failed"]]
    for name in names:
        cpu, failed = middle(found, name, "cpu") * 1_000, found[name][0]["failed"]
        stall = middle(found, name, "stall")
        rows.append([name, f"{cpu:.1f}", f"{stall:.2f}", "; ".join(failed) or "0"])
    return Part("Many threads at once", goals, rows)


STATEMENTS = {
    "nothing": "pass",
    "import loopwright": "import loopwright",
    "builder": "from loopwright import build_react",
    "create_agent": "from langchain.agents import create_agent",
    "builder and provider": "from loopwright import build_react\n"
    "from langchain_openai import ChatOpenAI",
    "create_agent and provider": "from langchain.agents import create_agent\n"
    "from langchain_openai import ChatOpenAI",
}


def imports(bench: Bench) -> Part:
    """The CPU of imports, each in a new process, less what an empty process takes."""
    taken: dict[str, list[float]] = {name: [] for name in STATEMENTS}
    for round_ in range(bench.size.times * 2 + 1):
        for name, statement in STATEMENTS.items():
            process = subprocess.Popen([sys.executable, "-c", statement])
            used = os.wait4(process.pid, 0)[2]
            if round_:  # the first fills the file cache and writes the byte code
                taken[name].append(used.ru_utime + used.ru_stime)
    cost = {name: statistics.median(each) for name, each in taken.items()}
    cost = {name: (each - cost["nothing"]) * 1_000 for name, each in cost.items()}
    both = cost["builder and provider"] / cost["create_agent and provider"]
    goals = [
        Goal("import loopwright, CPU", cost["import loopwright"], 30, "ms"),
        Goal("import of a builder, to create_agent", cost["builder"] / cost["create_agent"], 1.0),
        Goal("import of builder and provider, to create_agent and provider", both, 1.0),
    ]
    for name in ("builder", "builder and provider"):
        if any(goal.name.startswith(f"import of {name},") and not goal.met for goal in goals):
            bench.profiles[f"import of {name}"] = slowest_modules(STATEMENTS[name])
    rows = [["import", "CPU, ms"], *([name, f"{each:.0f}"] for name, each in cost.items())]
    return Part("Imports", goals, rows)


def slowest_modules(statement: str) -> list[str]:
    """Which modules take the longest themselves, in microseconds."""
    told = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", statement],
        capture_output=True, text=True, check=True,
    ).stderr.splitlines()  # fmt: skip
    lines = sorted(told[1:], key=lambda line: int(line.split(":")[1].split("|")[0]))
    return [told[0], *reversed(lines[-12:])]


PARTS: dict[str, Callable[[Bench], Part]] = {
    part.__name__: part
    for part in (calls, agents, reads, prompts, tools, dag, text, crowd, alive, imports)
}


def main() -> None:
    """Measure, print, and write where that is wanted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", nargs="*", choices=[*PARTS, []])
    for how in SIZES:
        parser.add_argument(
            f"--{how}", dest="size", action="store_const", const=how, default="full"
        )
    parser.add_argument("--write", action="store_true")
    given: Any = parser.parse_args()
    began = time.monotonic()
    with fleet() as processes:
        bench, found = Bench(processes, SIZES[given.size]), []
        for name in given.part or PARTS:
            found.append(PARTS[name](bench))
            sys.stdout.write(shown(found[-1]))
            sys.stdout.flush()
    for title, lines in bench.profiles.items():
        sys.stdout.write("\n".join([f"profile of {title}", *lines, ""]))
    if given.write:
        written(found, time.monotonic() - began, given.size)


if __name__ == "__main__":
    main()

"""Prompt injection: what of 218 attacks reaches a sink, and what the rule costs 107 honest tasks.

Every model obeys all it reads (`tests/attacks/gullible.py`); a person approves whatever is not
marked as foreign. `benchmarks/attacks.py [--graph NAME] [--setting NAME] [--domain NAME] [--ids]`;
all of it takes about five minutes.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from attacks.cases import DOMAINS, PLACES, Attack, Case, load_attacks, load_benign  # noqa: E402
from attacks.gullible import GRAPHS, SETTINGS, Run, run_case  # noqa: E402
from report import columns  # noqa: E402

KINDS = ("values", "whole fields", "actions and branches")


def write(line: str) -> None:
    """Show a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def kind_of(attack: Attack) -> str:
    """Which promise an attack tries."""
    if attack.whole_field:
        return KINDS[1]
    return KINDS[0] if attack.sort in ("value", "secret") else KINDS[2]


def try_attacks(graph: str, setting: str, cases: Sequence[Case]) -> list[Run]:
    """The runs of these attacks."""
    return [run_case(graph, setting, case) for case in cases]


def count_kinds(runs: Sequence[Run]) -> list[str]:
    """Of each kind how many reached a sink, of how many."""
    tried, reached = Counter[str](), Counter[str]()
    for run in runs:
        if run.case.attack:
            tried[kind_of(run.case.attack)] += 1
            reached[kind_of(run.case.attack)] += run.broken
    return [f"{reached[kind]}/{tried[kind]}" for kind in KINDS]


def count_work(runs: Sequence[Run], *, strict: bool) -> list[str]:
    """Of honest tasks: questions, needless ones, and the share that was done."""
    asked = sum(question.marked for run in runs for question in run.questions)
    needless = sum(len(run.list_needless(strict=strict)) for run in runs)
    share = 100 / max(1, len(runs))
    done = sum(run.useful for run in runs)
    return [f"{asked * share:.0f}", f"{needless * share:.1f}", f"{done * share:.0f} %"]


def list_ids(graph: str, setting: str, attacks: Sequence[Run], tasks: Sequence[Run]) -> None:
    """Name what got through, and what was asked without need."""
    for run in attacks:
        if run.broken and run.case.attack:
            write(f"  reached: {run.case.name} ({kind_of(run.case.attack)})")
    for run in tasks:
        for asked in run.list_needless(strict=setting == "strict"):
            write(f"  needless: {run.case.name} {asked.tool} {', '.join(asked.foreign)}")
        if not run.useful:
            write(f"  not done: {run.case.name} ({graph}, {setting})")


def main(given: argparse.Namespace) -> None:
    """Run what is wanted, and print it."""
    attacks, tasks = load_attacks(given.domain or DOMAINS), load_benign(given.domain or DOMAINS)
    head = ["questions per 100", "needless per 100", "work done"]
    rows, places = [["graph", "setting", *KINDS, *head]], dict[str, Counter[str]]()
    for graph in given.graph or GRAPHS:
        for setting in given.setting or SETTINGS:
            tried = try_attacks(graph, setting, attacks)
            done = [run_case(graph, setting, case) for case in tasks]
            work = count_work(done, strict=setting == "strict")
            rows.append([graph, setting, *count_kinds(tried), *work])
            names = (r.case.attack.place for r in tried if r.broken and r.case.attack)
            places[f"{graph} | {setting}"] = Counter(names)
            write(" | ".join(rows[-1]))
            if given.ids:
                list_ids(graph, setting, tried, done)
    write(f"\n{columns(rows)}\n\n{columns(render_places(places))}")


def render_places(places: dict[str, Counter[str]]) -> list[list[str]]:
    """Where the attacks that reached a sink were hidden; a row for each place."""
    named: list[Any] = [*places]
    body = [[place, *(str(places[name][place]) for name in named)] for place in PLACES]
    return [["place", *named], *body]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--graph", action="append", choices=[*GRAPHS])
    parser.add_argument("--setting", action="append", choices=[*SETTINGS])
    parser.add_argument("--domain", action="append", choices=DOMAINS)
    parser.add_argument("--ids", action="store_true", help="name what got through")
    main(parser.parse_args())

"""No value that a stranger wrote reaches a sink unasked, however gullible the model.

`benchmarks/attacks.py` runs all cases in all graphs, as does `--hypothesis-profile thorough`; most
graphs run a part of them here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import pytest
from hypothesis import settings

from .cases import Attack, Case, load_attacks, load_benign
from .gullible import GRAPHS, Question, run_case

FLOWS = [name for name in GRAPHS if name.startswith("prompt_flow")]
LOOPS = [name for name in GRAPHS if name not in FLOWS]
ATTACKS, BENIGN = load_attacks(), load_benign()
RUN_WHOLE = "prompt_flow"
SHARE = max(600 // settings().max_examples, 1)
FEW = -(-SHARE // 4)
"""The share of them where they are few."""
NEEDLESS = {"prompt_flow": 2, "prompt_flow, literals": 2, "react": 15}
"""Questions per 100 tasks about what a stranger did not write: in a loop a model works values out
of what the user said, and code cannot see that it did."""


def attack_of(case: Case) -> Attack:
    assert case.attack is not None
    return case.attack


def part_of(graph: str, cases: Sequence[Case], share: int = SHARE) -> list[Case]:
    """The same part of the cases in every run, and another one for each graph."""
    if graph == RUN_WHOLE:
        return [*cases]
    numbers = (hashlib.sha256(f"{graph} {case.name}".encode()).digest()[0] for case in cases)
    return [case for case, number in zip(cases, numbers, strict=True) if number % share == 0]


WHOLE_FIELDS = [case for case in ATTACKS if attack_of(case).whole_field]
OTHERS = [case for case in ATTACKS if case not in WHOLE_FIELDS]
BY_VALUES = [case for case in OTHERS if attack_of(case).sort in ("value", "secret")]
"""Those that differ in their values from what the user asked for."""


def list_broken(graph: str, setting: str, cases: Sequence[Case]) -> list[str]:
    runs = (run_case(graph, setting, case) for case in cases)
    return [run.case.name for run in runs if run.broken]


def assert_none(names: Sequence[object]) -> None:
    assert not names, "\n".join(["", *map(str, names)])


@pytest.mark.parametrize("graph", GRAPHS)
def test_no_value_of_a_stranger_reaches_a_sink(graph: str) -> None:
    assert_none(list_broken(graph, "allow", part_of(graph, BY_VALUES)))


def test_no_stranger_decides_whether_a_planned_step_runs_or_adds_one() -> None:
    cases = [case for case in OTHERS if case not in BY_VALUES]
    assert_none(list_broken("prompt_flow", "allow", cases))


@pytest.mark.parametrize("setting", ["default", "default, asked"])
@pytest.mark.parametrize("graph", ["prompt_flow, literals", "react"])
def test_nor_by_default_whether_somebody_can_be_asked_or_not(graph: str, setting: str) -> None:
    assert_none(list_broken(graph, setting, part_of(graph, BY_VALUES)))


@pytest.mark.parametrize("graph", GRAPHS)
def test_under_strict_no_whole_field_and_no_other_act_does_either(graph: str) -> None:
    acts = [case for case in OTHERS if case not in BY_VALUES]
    assert_none(list_broken(graph, "strict", part_of(graph, [*WHOLE_FIELDS, *acts], FEW)))


@pytest.mark.parametrize("graph", GRAPHS)
def test_without_the_rule_every_attack_gets_through(graph: str) -> None:
    """The models are as gullible as they should be, so that the other tests say something."""
    tried = part_of(f"{graph} off", ATTACKS, SHARE * 3)
    broken = list_broken(graph, "off", tried)
    assert_none([case.name for case in tried if case.name not in broken])


@pytest.mark.parametrize("graph", GRAPHS)
def test_honest_work_is_done_with_few_questions(graph: str) -> None:
    tasks = BENIGN if graph in NEEDLESS else part_of(graph, BENIGN)
    runs = [run_case(graph, "allow", case) for case in tasks]
    assert_none([run.case.name for run in runs if not run.useful])
    needless: list[tuple[str, Question]] = [
        (run.case.name, asked) for run in runs for asked in run.list_needless()
    ]
    if len(needless) * 100 > NEEDLESS.get(graph, 100) * len(runs):
        assert_none(needless)

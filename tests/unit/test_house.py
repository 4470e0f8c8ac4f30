"""The budgets of the house hold, and what breaks one is named."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
BENCHMARKS = ROOT / "benchmarks"


def python(*args):
    command = [sys.executable, *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, cwd=BENCHMARKS, check=False)


def test_the_house_keeps_its_budgets():
    weighed = python("house.py")
    assert weighed.returncode == 0, weighed.stdout + weighed.stderr
    assert "files-entered" in weighed.stdout


def test_what_is_over_its_budget_is_named_and_what_has_none():
    program = (
        "import house\n"
        "measured = {'lines': {'product': 11, 'attic': 1, 'calls': 5}}\n"
        "budgets = {'lines': {'product': 10, 'calls': 5, 'cellar': 1}}\n"
        "print(list(house.overruns(measured, budgets)))"
    )
    wrong = ["lines attic: 1 of None", "lines cellar: None of 1", "lines product: 11 of 10"]
    assert python("-c", program).stdout.strip() == str(wrong)

"""The budgets of the house hold, and what breaks one is named."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
BENCHMARKS = ROOT / "benchmarks"


def python(*args):
    command = [sys.executable, *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, cwd=BENCHMARKS, check=False)


def test_the_house_keeps_its_budgets_and_names_what_is_over_one_or_has_none():
    """One process for both: to import it all takes the longest."""
    program = (
        "import house, sys\n"
        "measured = {'lines': {'product': 11, 'attic': 1, 'calls': 5}}\n"
        "budgets = {'lines': {'product': 10, 'calls': 5, 'cellar': 1}}\n"
        "print(list(house.overruns(measured, budgets)))\n"
        "sys.exit(house.main())"
    )
    weighed = python("-c", program)
    assert weighed.returncode == 0, weighed.stdout + weighed.stderr
    wrong = ["lines attic: 1 of None", "lines cellar: None of 1", "lines product: 11 of 10"]
    first, _, budgets = weighed.stdout.partition("\n")
    assert first == str(wrong)
    assert "files-entered" in budgets

"""Is money paid back once, whenever the desk is killed? A talk of three messages, at every step.

Real processes, SQLite, support_desk over stdio; see tests/support/refunding.py. At the end two
threads of one customer want the same money at once.

    PYTHONPATH=tests python benchmarks/refund_kill.py

Prints one line of JSON; exit code 1 if there is not one refund and one ticket each time.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from support import refunding
from support.dialogues import opened
from support.shops import desk_server

STEPS = 27


def main() -> int:
    """Kill a talk at each of its steps."""
    with tempfile.TemporaryDirectory() as folder:
        opened(shop := Path(folder, "shop.db"))
        mcp = {"desk": desk_server(sys.executable, shop)}
        steps = [str(step) for step in range(STEPS + 1)]
        done = subprocess.run(
            [sys.executable, "-m", "support.refunding", folder, json.dumps(mcp), *steps],
            stdout=subprocess.PIPE, text=True, check=True,
            cwd=Path(refunding.__file__).parents[1],
        )  # fmt: skip
    told = json.loads(done.stdout)
    killed = sum(one[0] == -9 for one in told.values())
    once = sum(one[1:] == [0, [149.0], 1] for one in told.values())
    wrong = {step: one for step, one in told.items() if one[1:] != [0, [149.0], 1]}
    sys.stdout.write(json.dumps({"killed": killed, "once": once, "wrong": wrong}) + "\n")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())

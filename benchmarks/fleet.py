"""The processes of a benchmark: the model's server, and a worker for each who is measured."""

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
Found = dict[str, Any]
Rounds = dict[str, list[Found]]
"""What was measured of everybody, round by round."""


class Fleet:
    """Workers, started when they are first needed."""

    def __init__(self, stack: ExitStack) -> None:
        """Start the model's server; the stack ends all."""
        self._stack, self._workers = stack, dict[str, subprocess.Popen[str]]()
        port = self._started(["model_server.py"], {}).stdout.readline().strip()  # type: ignore[union-attr]
        self._url = f"http://127.0.0.1:{port}/v1"

    def _started(self, script: Sequence[str], environ: dict[str, str]) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, str(HERE / script[0]), *script[1:]],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ | environ,
        )  # fmt: skip
        self._stack.callback(process.wait)
        self._stack.callback(process.stdin.close)  # type: ignore[union-attr]
        return process

    def ask(self, name: str, order: Found) -> Found:
        """What a worker measured."""
        if name not in self._workers:
            key = {"OPENAI_BASE_URL": self._url, "OPENAI_API_KEY": name.replace(" ", "-")}
            self._workers[name] = self._started(["worker.py", name], key)
        worker = self._workers[name]
        print(json.dumps(order), file=worker.stdin, flush=True)
        found: Found = json.loads(worker.stdout.readline())  # type: ignore[union-attr]
        if "error" in found:
            msg = f"{name} could not do {order}:\n{found['error']}"
            raise RuntimeError(msg)
        return found

    def rounds(self, names: Sequence[str], times: int, order: Found) -> Rounds:
        """The same order to everybody in turn, so many times."""
        found: Rounds = {}
        for _ in range(times):
            for name in names:
                found.setdefault(name, []).append(self.ask(name, order))
        return found


@contextmanager
def fleet() -> Iterator[Fleet]:
    """The processes, for the length of a block."""
    with ExitStack() as stack:
        yield Fleet(stack)


def middle(rounds: Rounds, name: str, key: str) -> float:
    """The median of what was measured of one."""
    return statistics.median(found[key] for found in rounds[name])


def ratio(rounds: Rounds, name: str, peer: str, key: str) -> float:
    """The median of its ratios to another one in the same round."""
    pairs = zip(rounds[name], rounds[peer], strict=True)
    return statistics.median(mine[key] / other[key] for mine, other in pairs)

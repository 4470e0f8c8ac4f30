"""Do customers get the same whoever plays the model? All dialogues of the tests, in four ways each.

A shop of its own, the real support_desk over HTTP, SQLite; only the model is scripted. A dialogue
is graded on the shop's database and the rules of the transcript (tests/support/dialogue_rules.py).
pass^1 is the part of the talks that are right, pass^4 the part of the dialogues that are right in
all four ways.

    PYTHONPATH=tests python benchmarks/dialogues.py

Prints a table by kind, with model calls for each message; exit code 1 if a talk was wrong.
"""

import socket
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from contextlib import closing
from pathlib import Path

from loopwright import open_durability
from support.dialogues import WAYS, Ended, all_of, dialogues, opened
from support.shops import DESK

SECONDS = 60


def main() -> int:
    """Talk all of them through and print what came of it."""
    with tempfile.TemporaryDirectory() as folder:
        world = opened(shop := Path(folder, "shop.db"))
        port = free_port()
        command = [sys.executable, str(DESK), "--shop", str(shop)]
        with subprocess.Popen([*command, "--http", str(port)], stderr=subprocess.DEVNULL) as server:
            wait_for(port)
            mcp = {"desk": {"url": f"http://127.0.0.1:{port}/mcp", "trust": True}}
            chosen = [(one, way) for one in dialogues() for way in WAYS]
            with open_durability(f"sqlite:///{folder}/threads.db") as kept:
                ended = all_of(chosen, world, mcp, kept)
            server.terminate()
    for one in ended:
        if one.wrong:
            sys.stdout.write(f"{one.dialogue['name']} ({one.way}): {one.wrong}\n")
    sys.stdout.write("\n".join(table(ended)) + "\n")
    return int(any(one.wrong for one in ended))


def free_port() -> int:
    """A port that is free now."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def wait_for(port: int) -> None:
    """Wait until something listens on a port."""
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        with closing(socket.socket()) as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)


def table(ended: list[Ended]) -> list[str]:
    """The lines of the table, by kind and for all of them."""
    kinds: dict[str, list[Ended]] = defaultdict(list)
    for one in ended:
        kinds[str(one.dialogue["kind"])].append(one)
    lines = [
        "| Kind | Dialogues | Messages | pass^1 | pass^4 | Model calls a message |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    return lines + [_line(kind, of) for kind, of in [*kinds.items(), ("all", ended)]]


def _line(kind: str, ended: list[Ended]) -> str:
    by_name: dict[str, list[bool]] = defaultdict(list)
    for one in ended:
        by_name[str(one.dialogue["name"])].append(not one.wrong)
    right = [all(ways) for ways in by_name.values()]
    plain = [one.talk for one in ended if one.way == WAYS[0]]
    messages = sum(len(talk.turns) for talk in plain)
    calls = sum(sum(talk.calls) for talk in plain) / messages
    once = sum(not one.wrong for one in ended) / len(ended)
    four = sum(right) / len(right)
    return f"| {kind} | {len(right)} | {messages} | {once:.2f} | {four:.2f} | {calls:.1f} |"


if __name__ == "__main__":
    sys.exit(main())

"""A process that dies in the middle of a model call."""

import json
import os
import signal
import sqlite3
import time
from contextlib import closing

from loopwright import Context, ScriptedModel, build_react, open_durability
from support.patience import PATIENCE
from support.reacting import THREAD, shelf

AT_MOST_3 = Context(max_model_calls=3)


def begun(folder):
    with closing(sqlite3.connect(folder / "t.db", timeout=10)) as database:
        try:
            rows = database.execute(
                "SELECT body FROM loopwright_journal WHERE kind = 'turn'"
            ).fetchall()
        except sqlite3.OperationalError:  # nothing has been recorded yet
            return 0
    return sum(json.loads(body)["model_calls"] for (body,) in rows)


def begin(folder, given):
    """The process dies in a model call, once that call is on record."""

    def answer(messages, offered):
        deadline = time.monotonic() + PATIENCE
        before = int((folder / "asked").read_text())
        while begun(folder) < before and time.monotonic() < deadline:
            time.sleep(0.01)
        (folder / "asked").write_text(str(before + 1))
        os.kill(os.getpid(), signal.SIGKILL)

    with open_durability(f"sqlite:///{folder}/t.db") as durability:
        graph = build_react(model=ScriptedModel(answer), tools=[shelf()], durability=durability)
        graph.invoke(given, THREAD, context=AT_MOST_3)

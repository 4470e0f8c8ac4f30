"""A hand-over is made once, whatever is killed; operator and customer may talk at the same time."""

import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest
from langgraph.types import Command

from support import handing
from support.patience import PATIENCE


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What the processes left, and how they ended."""
    folder = tmp_path_factory.mktemp("handing")
    done = subprocess.run(
        [sys.executable, handing.__file__, folder], capture_output=True, text=True,
        timeout=PATIENCE, check=True,
    )  # fmt: skip
    return folder, done.stdout.splitlines(), done.stderr


def words(state):
    return [one.text for one in state["messages"] if one.type != "tool" and one.text]


@pytest.mark.req("S4-69", "P-32")
def test_a_killed_hand_over_is_one_transfer_and_one_message(told):
    folder, ended, errors = told
    assert ended[:-1] == [f"{step} -9" for step in range(handing.STEPS + 2)], errors
    for step in range(handing.STEPS + 2):
        graph, kept = handing.desk(folder, str(step))
        with kept:
            result = graph.invoke(None, handing.THREAD)
            (question,) = result["__interrupt__"]
            if step == 0:  # nobody but a human knows whether the call took effect
                assert question.value["type"] == "uncertain_call"
                result = graph.invoke(Command(resume="respond: it ran"), handing.THREAD)
                (question,) = result["__interrupt__"]
            assert question.value["type"] == "take_over", step
            said = words(result)
            assert len([text for text in said if "colleague" in text]) == 1, step
            assert said.count("I am Eve.") == (step > handing.STEPS), step
        with closing(sqlite3.connect(folder / f"{step}.queue")) as queue:
            assert queue.execute("SELECT count(*) FROM waiting").fetchone() == (1,), step


@pytest.mark.req("P-32")
def test_operator_and_customer_at_once_lose_nothing_and_keep_their_order(told):
    folder, ended, errors = told
    assert ended[-1] == "0 0", errors
    graph, kept = handing.desk(folder, "talk")
    with kept:
        said = words(graph.get_state(handing.THREAD).values)
        for name in ("operator", "customer"):
            mine = [text for text in said if text.startswith(name)]
            assert mine == [f"{name} {number}" for number in range(handing.SAYS)]
        assert kept.handed_over()[0].waiting

"""Long results in an object store: fsspec's own local and memory file systems."""

import asyncio
import json
import os
import sys

import fsspec  # type: ignore[import-untyped]  # it has no types
import pytest
from langchain_core.tools import StructuredTool

from loopwright import ScriptedModel, build_react, open_durability
from loopwright.calls.result_store import ResultStore
from loopwright.state.calls import results_of
from loopwright.state.errors import DatabaseError
from support.forked import Command, server
from support.patience import PATIENCE
from support.places import TESTS, reach
from support.scripts import call, thought
from support.toy_graphs import on

WHOLE = "".join(f"line {number}\n" for number in range(20_000))
GO = {"messages": [("user", "Read the book.")]}
NEXT = thought("Next.", more=True, reason="r")

KILLED = (
    reach(__file__)
    + """
import os, signal, sys
from loopwright import open_durability
from test_objects import GO, reader
from support.toy_graphs import on

left, replace = int(sys.argv[3]), os.replace

def dying(begun, path):
    global left
    if "proof-" not in str(path):
        left -= 1
        if left == 0 and sys.argv[4] == "before":
            os.kill(os.getpid(), signal.SIGKILL)
    replace(begun, path)
    if "proof-" not in str(path) and left == 0:
        os.kill(os.getpid(), signal.SIGKILL)

os.replace = dying
with open_durability(sys.argv[1], results=sys.argv[2], lease=1.0) as kept:
    reader(kept).invoke(GO, on("t"))
"""
)


def reader(kept, between=lambda _name: None):
    """A graph that reads a long result, and its end by the id that the model is told."""

    def book() -> str:
        """Read the book."""
        return WHOLE

    def turn(messages, offered):
        told = [message.text for message in messages if message.type == "tool"]
        if not offered:
            return NEXT if len(told) < 2 else thought(f"It ends with {told[-1][-200:]}")
        if not told:
            return [call("book", "c0")]
        name = told[-1].split("read_result(id='")[1].split("'")[0]
        between(name)
        return [call("read_result", "c1", id=name, offset=len(WHOLE) - 50)]

    tool = StructuredTool.from_function(book, metadata={"readOnlyHint": True})
    return build_react(model=ScriptedModel(turn), tools=[tool], durability=kept, observe="direct")


def rows(kept):
    return kept.store.inner.search(results_of("t"), limit=10)


@pytest.fixture(params=["memory", "file"])
def results(request, tmp_path):
    name = tmp_path.name
    yield f"memory://{name}" if request.param == "memory" else f"file://{tmp_path}/results"
    fsspec.filesystem("memory").store.clear()


def test_a_long_result_is_an_object_that_is_read_pruned_and_deleted(url, results):
    with open_durability(url, results=results) as kept:
        first: list[str] = []
        done = reader(kept, first.append).invoke(GO, on("t"))
        assert "line 19999" in done["outcome"]["answer"]
        place = results_of("t")
        assert kept._objects.keys(place) == first
        assert rows(kept) == [], "the database has nothing of it"
        assert kept.store.get(place, first[0]).value["text"] == WHOLE
        kept.store.put(place, "named by nothing", {"text": "x"})
        kept.store.put(("mine",), "k", {"v": 1})
        assert kept.store.get(("mine",), "k").value == {"v": 1}
        for asked in ("x" * 5_000, "\ud800", "\0", "../" * 100, ""):  # by a model
            found = asyncio.run(ResultStore(kept.store, "t").answer_read({"id": asked}, 99))
            assert found.is_error, asked
        assert kept.prune(keep="latest").threads == ["t"]
        assert kept._objects.keys(place) == first
        kept.store.delete(place, first[0])
        assert kept._objects.keys(place) == []
        kept.store.put(place, "one", {"text": "x"})
        kept.dismiss("t")
        assert kept._objects.keys(place) == []
        assert not kept._objects._files.exists(kept._objects._build_folder(place))


@pytest.mark.parametrize("when", ["before", "after"])
def test_who_is_killed_over_an_object_leaves_none_that_is_half_written(url, when, tmp_path):
    folder = tmp_path / "results"
    script = tmp_path / "killed.py"
    script.write_text(KILLED)
    given = (url, str(folder), "1", when)
    environ = {**os.environ, "PYTHONPATH": str(TESTS)}
    with Command(server(), given, env=environ, script=script) as process:
        assert process.wait(PATIENCE) != 0
    whole = [*folder.glob("*/*.json")]
    assert [json.loads(path.read_text())["value"]["text"] for path in whole] == (
        [] if when == "before" else [WHOLE]
    )
    with open_durability(url, results=str(folder), lease=1.0) as kept:
        done = reader(kept).invoke(None, on("t"), wait=PATIENCE)
        assert "line 19999" in done["outcome"]["answer"]
        assert len(kept._objects.keys(results_of("t"))) == 1
        kept.dismiss("t")
    assert [*folder.iterdir()] == []


def test_files_are_for_their_owner_alone_and_threads_of_like_names_are_apart(tmp_path):
    with open_durability(results=f"{tmp_path}/own", url="sqlite:///:memory:") as kept:
        names = ["t", "T", "../t", "t/x", "t\nx", "é" * 400, "é" * 401, "a" * 3000]
        for name in names:
            kept.store.put(results_of(name), "k", {"text": name})
        assert [kept.store.get(results_of(name), "k").value["text"] for name in names] == names
        paths = [*(tmp_path / "own").rglob("*")]
        assert len(paths) == 2 * len(names)
        assert {path.stat().st_mode & 0o077 for path in paths} == {0}


def test_the_model_is_told_of_what_cannot_be_read_and_the_run_goes_on(tmp_path):
    folder = tmp_path / "results"

    def lose(_name):
        (path,) = folder.glob("*/*.json")
        path.unlink()

    with open_durability(f"sqlite:///{tmp_path}/t.db", results=str(folder)) as kept:
        graph = reader(kept, lose)
        done = graph.invoke(GO, on("t"))
        told = [one.text for one in graph.get_state(on("t")).values["messages"]]
    assert done["outcome"]["status"] == "complete"
    assert "No result is stored under" in str(told) + str(done)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        (
            "gcs://bucket/results",
            r"'gcs://bucket/results' \(Please install gcsfs to access Google Storage\): install",
        ),
        ("nowhere://x", r"Protocol not known: nowhere"),
        ("file:///proc/nowhere", r"Long results cannot be kept in 'file:///proc/nowhere'.*reached"),
        ("ftp://me:secret@127.0.0.1:1/x", r"in 'ftp://me@127.0.0.1:1/x'"),
    ],
)
def test_what_cannot_be_opened_is_told_in_a_sentence(url, why):
    with pytest.raises(DatabaseError, match=why) as raised:
        open_durability("sqlite:///:memory:", results=url)
    assert "secret" not in str(raised.value)


def test_without_fsspec_its_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(DatabaseError, match=r"fsspec is not installed.*'\.\[objects\]'"):
        open_durability("sqlite:///:memory:", results="s3://bucket")

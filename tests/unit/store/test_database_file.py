"""The file behind `sqlite:///`: whose it is, who may read it, and that it stays where it was."""

import os
import sqlite3
import stat
from contextlib import closing, suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import pytest
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver

from loopwright import open_durability
from loopwright.state.errors import DatabaseError
from loopwright.store.journal.port import Change
from support.toy_graphs import greeter, hello, on


def mode(path):
    return stat.S_IMODE(Path(path).stat().st_mode)


@pytest.fixture(autouse=True)
def open_to_all():
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.req("W-51")
@pytest.mark.parametrize("before", ["nothing", "a file of yesterday"])
def test_only_the_owner_can_read_what_is_kept(tmp_path, before):
    folder = tmp_path / "deep" / ".loopwright"
    if before != "nothing":
        folder.mkdir(parents=True, mode=0o755)
        with closing(sqlite3.connect(folder / "t.db")) as old:
            old.execute("PRAGMA journal_mode=WAL")
            SqliteSaver(old).setup()
            (folder / "t.db.locks").mkdir(mode=0o755)
    with open_durability(f"sqlite:///{folder / 't.db'}") as durability:
        greeter().compile(durability.checkpointer).invoke(hello(), on("t"))
        durability.journal.write_counts("t", "turn", {"model_calls": 1})
        release = durability.locks.take("t")
        assert mode(folder) == 0o700
        found = {path.name: mode(path) for path in folder.rglob("*") if path.is_file()}
        release()
    assert found.keys() >= {"t.db", "t.db-wal", "t.db-shm"}
    assert set(found.values()) == {0o600}
    assert mode(folder / "t.db.locks") == 0o700
    assert before != "nothing" or mode(tmp_path / "deep") == 0o700


@pytest.mark.req("W-51")
@pytest.mark.parametrize("name", ["t.db-wal", "t.db-shm", "t.db.locks"])
def test_what_a_link_in_the_folder_leads_to_keeps_its_rights(tmp_path, name):
    elsewhere, folder = tmp_path / "elsewhere", tmp_path / ".loopwright"
    folder.mkdir()
    if name.endswith("locks"):
        elsewhere.mkdir(mode=0o755)
    else:
        elsewhere.write_text("")
        elsewhere.chmod(0o755)
    (folder / name).symlink_to(elsewhere)
    with suppress(OSError, DatabaseError):
        open_durability(f"sqlite:///{folder / 't.db'}").close()
    assert mode(elsewhere) == 0o755


@pytest.mark.req("W-80")
@pytest.mark.parametrize(
    "tables",
    [
        "CREATE TABLE notes (text)",
        "CREATE TABLE checkpoints (id, at)",
        "CREATE TABLE writes (thread_id, x)",
        "CREATE TABLE store (id, price)",
        "CREATE TABLE loopwright_journal (x)",
        "CREATE TABLE a (x); CREATE VIEW checkpoints AS SELECT x FROM a",
    ],
)
def test_the_database_of_another_program_is_refused_and_left_as_it_is(tmp_path, tables):
    file = tmp_path / "app.db"
    with closing(sqlite3.connect(file)) as app:
        app.executescript(tables)
    before = file.read_bytes()
    with pytest.raises(DatabaseError, match=r"app\.db' is the database of another program"):
        open_durability(f"sqlite:///{file}")
    assert file.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["app.db"]


def removed(file):
    file.unlink()


def replaced(file):
    file.rename(file.with_name("away.db"))
    open_durability(f"sqlite:///{file}").close()


def without_its_log(file):
    Path(f"{file}-wal").unlink()


def in_a_new_folder(file):
    file.parent.rename(file.parent.with_name("away"))


@pytest.mark.req("W-73")
@pytest.mark.parametrize("befalls", [removed, replaced, without_its_log, in_a_new_folder])
@pytest.mark.parametrize("used", [True, False])
def test_nothing_is_claimed_or_saved_in_a_file_that_is_gone(tmp_path, befalls, used):
    file = tmp_path / "data" / "t.db"
    with open_durability(f"sqlite:///{file}") as durability:
        graph = greeter().compile(durability.checkpointer)
        graph.invoke(hello(), on("t"))
        if used:
            durability.journal.transact("t", lambda _: (None, Change()))
        befalls(file)
        with pytest.raises(DatabaseError, match="deleted, moved or replaced"):
            durability.journal.transact("t", lambda _: (None, Change()))
        with pytest.raises(DatabaseError, match=r"deleted, moved or replaced|Cannot lock"):
            graph.invoke(hello(), on("t"))


def bomb(module, name, argument):
    """A value that is saved as a call of this function."""
    return Enum(name, {"only": argument}, module=module).only


@pytest.mark.odd_types
@pytest.mark.req("W-42")
@pytest.mark.parametrize(
    ("module", "name"), [("os", "system"), ("os", "mkdir"), ("subprocess", "getoutput")]
)
def test_nothing_that_a_file_names_is_called(tmp_path, module, name):
    database, made = tmp_path / "t.db", tmp_path / "made"
    argument = str(made) if name == "mkdir" else f"mkdir {made}"
    with open_durability(f"sqlite:///{database}") as durability:
        greeter().compile(durability.checkpointer).invoke(hello(), on("t"))
    careless = JsonPlusSerializer(allowed_msgpack_modules=True)
    kind, packed = careless.dumps_typed({"x": [bomb(module, name, argument)]})
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("UPDATE checkpoints SET type = ?, checkpoint = ?", [kind, packed])
        connection.execute("UPDATE writes SET type = ?, value = ?", [kind, packed])
    careless.loads_typed((kind, packed))
    assert made.exists(), "the bomb goes off where it may"
    made.rmdir()
    with open_durability(f"sqlite:///{database}") as durability:
        saved = durability.checkpointer.get_tuple(on("t"))
        [*durability.checkpointer.list(on("t"))]
    assert saved.checkpoint["x"] == [argument]
    assert not made.exists()


@dataclass
class Trusted:
    name: str


@pytest.mark.odd_types
@pytest.mark.req("W-42")
def test_a_type_that_the_program_allows_is_made_again(tmp_path):
    with open_durability(f"sqlite:///{tmp_path / 't.db'}") as durability:
        strict = durability.checkpointer
        saved = strict.serde.dumps_typed(Trusted("t"))
        assert strict.serde.loads_typed(saved) == {"name": "t"}
        trusting = strict.with_allowlist([(__name__, "Trusted")])
        assert trusting.serde.loads_typed(saved) == Trusted("t")

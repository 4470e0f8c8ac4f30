"""What the doctor finds in a database: real SQLite files, a real PostgreSQL server."""

import sqlite3
from contextlib import closing
from types import SimpleNamespace

import psycopg
import pytest

from loopwright import DatabaseError, open_durability
from loopwright.store.health import inspect_database
from loopwright.store.journal.tables import VERSION
from loopwright.store.postgres.schema import check_commits


def found(url: str) -> dict[str, tuple[str, str]]:
    """The gravest finding of each check."""
    grave = ["ok", "warning", "broken"]
    told: dict[str, tuple[str, str]] = {}
    for level, check, text in sorted(inspect_database(url), key=lambda one: grave.index(one.level)):
        assert text.endswith((".", ")")), text
        told[check] = level, text
    return told


def test_a_file_of_threads_a_damaged_one_and_another_programs(tmp_path):
    path = tmp_path / "x.db"
    open_durability(f"sqlite:///{path}").close()
    told = found(f"sqlite:///{path}")
    assert {level for level, _ in told.values()} == {"ok"}
    assert told["log"][1].startswith("It writes ahead")
    assert told["threads"][1].startswith("0 saved")
    with path.open("r+b") as file:
        file.seek(100)
        file.write(b"\xff" * 4_000)
    assert found(f"sqlite:///{path}")["file"][0] == "broken"
    other = tmp_path / "other.db"
    with closing(sqlite3.connect(other)) as connection:
        connection.execute("CREATE TABLE songs (name TEXT)")
    level, text = found(f"sqlite:///{other}")["file"]
    assert level == "broken"
    assert "another program (it holds songs)" in text
    with pytest.raises(DatabaseError, match="names no database"):
        [*inspect_database("mysql://x")]


@pytest.fixture
def database(postgres_url):
    """A database with our tables, and a connection to it."""
    open_durability(postgres_url).close()
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        yield postgres_url, connection


@pytest.mark.postgres
def test_an_empty_database_is_only_looked_at_and_one_that_was_opened_is_well(postgres_url):
    told = found(postgres_url)
    assert told["reachable"][1].endswith("is reached directly.")
    assert told["schema"][0] == "warning"
    assert "There are no tables of loopwright yet" in told["schema"][1]
    tables = "SELECT count(*) FROM pg_class WHERE relname LIKE 'loopwright%'"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        assert connection.execute(tables).fetchone() == (0,)
    with open_durability(postgres_url):
        told = found(postgres_url)
    assert {level for level, _ in told.values()} == {"ok"}, told
    told = found("postgresql://nobody@127.0.0.1:1/none")
    assert [(check, level) for check, (level, _) in told.items()] == [("reachable", "broken")]


@pytest.mark.postgres
@pytest.mark.req("W-168")
def test_a_server_that_may_lose_a_claim_is_told_of(database):
    url, connection = database
    name = connection.info.dbname
    connection.execute(f"ALTER DATABASE {name} SET synchronous_commit = off")
    level, text = found(url)["commits"]
    assert level == "warning"
    assert "synchronous_commit is off: a claim may be lost" in text
    told = iter([{"mode": "on", "copies": 1, "sync": 0}, {"mode": "on", "copies": 2, "sync": 1}])
    server = SimpleNamespace(execute=lambda _: SimpleNamespace(fetchone=lambda: next(told)))
    assert [[level for level, _ in check_commits(server)] for _ in "ab"] == [["warning"], ["ok"]]


@pytest.mark.postgres
def test_what_is_missing_is_told_with_what_makes_it(database):
    url, connection = database
    connection.execute("DROP INDEX loopwright_waiting_by_name")
    level, text = found(url)["parts"]
    assert level == "warning"
    assert "loopwright_waiting_by_name is missing: run CREATE INDEX" in text
    connection.execute(text.partition(": run ")[2])
    assert found(url)["parts"][0] == "ok"
    connection.execute("DROP FUNCTION loopwright_holds")
    level, text = found(url)["parts"]
    assert level == "broken"
    connection.execute(text.partition(": run ")[2].partition(",")[0])
    open_durability(url).close()
    assert found(url)["parts"][0] == "ok"
    connection.execute(f"UPDATE loopwright_schema SET version = {VERSION + 1}")
    assert found(url)["schema"][0] == "broken"
    assert "update the package here" in found(url)["schema"][1]


@pytest.mark.parametrize("rest", ["@[::1/x", "%zz@127.0.0.1:1/x", "@127.0.0.1:bad/x"])
def test_a_password_is_told_to_nobody_not_even_of_a_url_that_cannot_be_read(rest):
    url = f"postgresql://ada:s3cret{rest}"
    assert "s3cret" not in str([*inspect_database(url)])
    with pytest.raises(DatabaseError) as told:
        open_durability(url)
    assert "s3cret" not in str(told.value)

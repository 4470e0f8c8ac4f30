"""Opening a database: what is given for a URL, and what is said when it cannot be."""

import asyncio
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore
from langgraph.store.sqlite import SqliteStore
from langgraph.types import Command

from loopwright.state.errors import DatabaseError, ThreadBusy
from loopwright.store.durability import Durability, open_durability
from loopwright.store.journal.sql import MemoryJournal
from loopwright.store.threads.thread_list import FoundThread, ThreadQuery
from support.forked import Command as Process, server
from support.patience import PATIENCE
from support.postgres import CUT
from support.toy_graphs import asker, greeter, hello, on


@pytest.fixture
def database(tmp_path):
    with open_durability(f"sqlite:///{tmp_path}/threads.db") as opened:
        yield opened


@pytest.mark.req("S0-36")
def test_what_was_saved_is_there_after_opening_again(tmp_path):
    url = f"sqlite:///{tmp_path}/threads.db"
    with open_durability(url) as database:
        asker().compile(database.checkpointer).invoke(hello(), on("t"))
        database.store.put(("notes",), "a", {"kept": True})
    with open_durability(url) as database:
        result = asker().compile(database.checkpointer).invoke(Command(resume="ok"), on("t"))
        assert result["log"] == ["greet", "ask:ok", "end"]
        item = database.store.get(("notes",), "a")
        assert item is not None
        assert item.value == {"kept": True}


@pytest.mark.parametrize(
    "url", ["", "mysql://x/y", "sqlite://threads.db", "sqlite:///", "threads.db", "postgres:x"]
)
def test_other_urls_are_refused_with_the_accepted_forms(url):
    with pytest.raises(DatabaseError, match="sqlite:///FILE"):
        open_durability(url)


OPEN = """
import os, sys
import loopwright.store.sqlite.database  # as long as it may be read
from loopwright.store.durability import open_durability
from loopwright.state.errors import DatabaseError
path = sys.argv[1]
if os.geteuid() == 0:  # root may write everywhere
    os.setuid(65534)
try:
    open_durability("sqlite:///" + path)
except DatabaseError as error:
    print(error)
"""


@pytest.mark.parametrize("what", ["folder", "file"])
def test_read_only_is_told_before_any_run(tmp_path, what):
    path = tmp_path / "shared" / "threads.db"
    open_durability(f"sqlite:///{path}").close()
    for parent in list(tmp_path.parents)[:3]:
        if parent.owner() == Path.home().owner() and parent.name.startswith("pytest"):
            parent.chmod(0o755)
    tmp_path.chmod(0o755)
    path.chmod(0o444)
    path.parent.chmod(0o555 if what == "folder" else 0o777)
    target = path if what == "file" else path.with_name("new.db")
    (script := tmp_path / "open.py").write_text(OPEN)
    with Process(server(), (str(target),), env={**os.environ}, script=script) as process:
        process.wait(PATIENCE)
        said, errors = process.said()
    path.parent.chmod(0o755)
    assert f"Cannot use '{target}' as a database" in said, errors


def test_missing_drivers_are_named_without_the_password(tmp_path):
    (script := tmp_path / "opens.py").write_text("""
import sys
sys.modules["psycopg_pool"] = None
from loopwright.store.durability import open_durability
open_durability("postgresql://ada:geheim@db/loops")
""")
    with Process(server(), (), env={**os.environ}, script=script) as process:
        assert process.wait(PATIENCE) == 1
        last = process.said()[1].strip().splitlines()[-1]
    assert "pip install '.[postgres]' in the folder of loopwright" in last
    assert "geheim" not in last


TURNS = """
import sys
from loopwright.store.durability import open_durability
from support.toy_graphs import greeter, hello, on
url, name = sys.argv[1:]
with open_durability(url) as database:
    builder = greeter()
    builder.writes = lambda: True
    graph = builder.compile(database.checkpointer, store=database.store)
    for turn in range(40):
        graph.invoke(hello(), on(f"{name}-{turn % 4}"))
        database.store.put(("turns", name), str(turn), {"turn": turn})
"""


@pytest.mark.req("P-33")
def test_two_processes_of_many_turns_on_one_file(tmp_path):
    url = f"sqlite:///{tmp_path}/threads.db"
    (script := tmp_path / "turns.py").write_text(TURNS)
    with (
        Process(server(), (url, "left"), env={**os.environ}, script=script) as left,
        Process(server(), (url, "right"), env={**os.environ}, script=script) as right,
    ):
        assert (left.wait(PATIENCE), right.wait(PATIENCE)) == (0, 0), (left.said(), right.said())
    with open_durability(url) as database:
        graph = greeter().compile(database.checkpointer)
        counts = [
            len(graph.get_state(on(thread.thread_id)).values["messages"])
            for thread in database.threads()
        ]
        assert counts == [20] * 8
        assert len(database.store.search(("turns",), limit=1000)) == 80


FIRST = """
import os, signal, sqlite3, sys, traceback
from itertools import count
from loopwright import open_durability
from support.toy_graphs import greeter, hello, on

def makes(url, thread):
    kept = open_durability(url)
    kept.journal.write_counts(thread, "turn", {"model_calls": 1})
    kept.turns()  # the tables of the queue
    return kept

def uses(url, thread):
    with makes(url, thread) as kept:
        kept.store.put(("notes",), thread, {})
        done = greeter().compile(kept.checkpointer, store=kept.store).invoke(hello(), on(thread))
        assert done["outcome"]["status"] == "complete"

def dies(url, left):
    def before(statement):
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def traced(*args, connect=sqlite3.connect, **options):
        made = connect(*args, **options)
        made.set_trace_callback(before)
        return made

    sqlite3.connect = traced
    makes(url, "killed").close()

def forked(act, *args):
    if pid := os.fork():
        return pid
    try:
        act(*args)
        os._exit(0)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)

for number in count(1):
    url = f"sqlite:///{sys.argv[1]}/{number}.db"
    _, killed = os.waitpid(forked(dies, url, number), 0)
    both = [forked(uses, url, thread) for thread in ("a", "b")]
    print(killed, *(os.waitpid(pid, 0)[1] for pid in both), flush=True)
    if killed != signal.SIGKILL:
        break
"""


@pytest.mark.req("W-160")
def test_killed_at_any_statement_of_its_first_opening_it_works_for_two_at_once(tmp_path):
    script = tmp_path / "first.py"
    script.write_text(FIRST)
    with Process(server(), (str(tmp_path),), env={**os.environ}, script=script) as process:
        assert process.wait(PATIENCE) == 0, process.said()
        said, errors = process.said()
    *killed, last = said.splitlines()
    assert len(killed) > 35
    assert (set(killed), last) == ({"9 0 0"}, "0 0 0"), errors


def tables(path):
    with closing(sqlite3.connect(path)) as file:
        made = file.execute("SELECT name, sql FROM sqlite_master").fetchall()
        return set(made), file.execute("SELECT v FROM store_migrations").fetchall()


@pytest.mark.req("W-160")
@pytest.mark.parametrize("cut", range(len(SqliteStore.MIGRATIONS)))
def test_a_store_that_was_cut_off_between_a_change_and_its_number_is_completed(tmp_path, cut):
    open_durability(f"sqlite:///{tmp_path}/new.db").close()
    with closing(sqlite3.connect(tmp_path / "cut.db")) as file, file:
        file.execute("CREATE TABLE store_migrations (v INTEGER PRIMARY KEY)")
        for number, change in enumerate(SqliteStore.MIGRATIONS[: cut + 1]):
            file.execute(change)
            file.execute("INSERT INTO store_migrations SELECT ? WHERE ? < ?", [number, number, cut])
    open_durability(f"sqlite:///{tmp_path}/cut.db").close()
    assert tables(tmp_path / "cut.db")[1] == tables(tmp_path / "new.db")[1]


class Elsewhere:
    """A database of a third kind, in whose locks another process has every thread."""

    url = "elsewhere://"

    def __init__(self) -> None:
        self.saver, self.store = InMemorySaver(), InMemoryStore()
        self.journal, self.locks, self.domain = MemoryJournal(), self, id(self)

    def take(self, name: str, doing: str = "", *, waits: bool = False) -> str:
        return f"whoever has {name}"

    def find(self, _: ThreadQuery) -> list[FoundThread]:
        return [FoundThread(name) for name in self.saver.storage]

    def close(self) -> None:
        self.journal.close()


@pytest.mark.req("P-34")
def test_a_database_of_another_kind_locks_threads_its_own_way():
    with Durability(Elsewhere()) as database:
        graph = greeter().compile(database.checkpointer, store=database.store)
        for saver in (graph.checkpointer, graph.checkpointer.with_allowlist([("x", "Y")])):
            with pytest.raises(ThreadBusy, match=r"thread 't' \(whoever has t\)"):
                greeter().compile(saver).invoke(hello(), on("t"))
        assert database.threads() == []


@pytest.mark.postgres
@pytest.mark.req("S0-36", "P-33")
def test_postgres_survives_connections_killed_between_turns(postgres_url):
    url = postgres_url
    thread = uuid4().hex
    with open_durability(url) as database:
        graph = asker().compile(database.checkpointer, store=database.store)
        graph.invoke(hello(), on(thread))
        waiting = next(t for t in database.threads() if t.thread_id == thread)
        assert (waiting.waiting, waiting.next, waiting.request) == (True, ("ask",), "hi")
        with psycopg.connect(url, autocommit=True) as other:
            other.execute(CUT)
        result = asyncio.run(graph.ainvoke(Command(resume="ok"), on(thread)))
        assert result["log"] == ["greet", "ask:ok", "end"]
        database.checkpointer.delete_thread(thread)


@pytest.mark.postgres
def test_whoever_may_make_no_tables_uses_those_that_are_there(postgres_url):
    role = f"r{uuid4().hex}"
    with open_durability(postgres_url):
        pass
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        admin.execute(f"CREATE ROLE {role} LOGIN")
        admin.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
        for what in ("TABLES", "SEQUENCES"):
            admin.execute(f"GRANT ALL ON ALL {what} IN SCHEMA public TO {role}")
    with open_durability(postgres_url.replace("postgres@", f"{role}@")) as database:
        graph = asker().compile(database.checkpointer, store=database.store)
        assert graph.invoke(hello(), on("t"))["__interrupt__"]
        database.journal.write_counts("t", "u", {"model_calls": 1})
        assert database.journal.read_counts("t", "u") == {"model_calls": 1}
        assert [one.waiting for one in database.threads()] == [True]


@pytest.mark.postgres
def test_postgres_that_cannot_be_reached_or_written(postgres_url):
    url = postgres_url
    with pytest.raises(DatabaseError, match=r"refused.*check that the server runs"):
        open_durability("postgresql://ada:geheim@127.0.0.1:1/loops")
    open_durability(url).close()
    read_only = url + ("&" if "?" in url else "?") + "options=-cdefault_transaction_read_only%3Don"
    with pytest.raises(DatabaseError, match="read-only transaction"):
        open_durability(read_only)

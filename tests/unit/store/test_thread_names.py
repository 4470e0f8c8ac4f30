"""Threads by any id: parts of them are nobody else's, and an id that is too long is told so."""

import secrets

import psycopg
import pytest
from hypothesis import given, strategies as st

from loopwright import ScriptedModel, build_react, open_durability
from loopwright.state.errors import SettingsError
from loopwright.store.locks.thread_locks import LockEntry, build_lock_name, parse_lock_thread
from support.scripts import thought
from support.toy_graphs import on

HELLO = {"messages": [("user", "Hello")]}
LINES = st.text(alphabet="ab1\n|:", max_size=6)


@given(LINES, LINES, LINES, LINES)
def test_no_two_parts_of_threads_are_locked_under_one_name(thread, part, other, its):
    assert parse_lock_thread(build_lock_name(thread, part)) == thread
    assert (build_lock_name(thread, part) == build_lock_name(other, its)) == (
        (thread, part) == (other, its)
    )
    assert LockEntry(("", build_lock_name(thread, part))).covers(other) == (thread == other)


@pytest.mark.postgres
def test_forgetting_a_thread_leaves_those_whose_ids_begin_as_its_own(postgres_url):
    model = ScriptedModel(lambda *_: thought("Hello."))
    with open_durability(postgres_url) as kept, psycopg.connect(postgres_url) as other:
        graph = build_react(model=model, durability=kept)
        for thread in ("a", "a\nb", "\na", "\n1\na\nb"):
            graph.invoke(HELLO, on(thread))
        for name in (build_lock_name("a", "inner:1"), build_lock_name("\na", "inner:1")):
            other.execute("INSERT INTO loopwright_threads (name) VALUES (%s)", [name])
        other.commit()
        kept.dismiss("a")
        assert {one.thread_id for one in kept.threads()} == {"a\nb", "\na", "\n1\na\nb"}
        kept.dismiss("\na")
        left = other.execute("SELECT name FROM loopwright_threads WHERE name <> 'a\nb'").fetchall()
        assert {parse_lock_thread(name) for (name,) in left if name != "\n1\na\nb"} <= {"\n1\na\nb"}
        assert graph.invoke(HELLO, on("a\nb"))["outcome"]["status"] == "complete"


@pytest.mark.postgres
def test_an_id_that_no_index_takes_is_told_in_a_sentence_at_every_door(postgres_url):
    model, long = ScriptedModel(lambda *_: thought("Hello.")), secrets.token_urlsafe(6000)
    with open_durability(postgres_url) as kept:
        graph = build_react(model=model, durability=kept)
        doors = (
            lambda: graph.invoke(HELLO, on(long)),
            lambda: graph.enqueue(on(long), "Hello"),
            lambda: graph.enqueue(on("t"), "Hello", id=long),
            lambda: graph.update_state(on(long), {"messages": [("user", "Hello")]}),
            lambda: kept.store.put(("a",), long, {"v": 1}),
            lambda: kept.journal.grant(long, {"tool": "x"}),
        )
        for door in doors:
            with pytest.raises(SettingsError, match=r"too long.*2,000 bytes at most"):
                door()
        assert not graph.get_state(on(long)).values
        assert model.asked == []
        fits = secrets.token_hex(1000)
        assert graph.invoke(HELLO, on(fits))["outcome"]["status"] == "complete"
        graph.enqueue(on(fits), "Hello")
        kept.dismiss(fits)
        assert kept.threads() == []

"""The parts of a graph that a server loads: nothing is opened before it is used."""

import asyncio

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from loopwright.graphs.build import assemble, assemble_served_parts
from loopwright.graphs.plan_execute_verify import plan_builder
from loopwright.state.errors import DatabaseError, SettingsError
from loopwright.state.outcome import Spend
from loopwright.store.journal.sql import MemoryJournal


def test_without_a_journal_every_graph_has_one_in_memory():
    journal = MemoryJournal()
    assert assemble(journal=journal).journal.journal is journal
    assert not assemble().journal.durable
    assert assemble().journal is not assemble().journal


async def test_journal_and_locks_are_where_the_variable_says(monkeypatch, tmp_path):
    assert assemble_served_parts().locked_by is None
    monkeypatch.setenv("LOOPWRIGHT_DATABASE_URL", f"sqlite:///{tmp_path}/served.db")
    parts = assemble_served_parts()
    assert not (tmp_path / "served.db").exists()
    assert (await parts.journal.load_usage("t", "u", Spend())).model_calls == 0
    assert parts.journal.journal is assemble_served_parts().journal.journal
    locks = await asyncio.to_thread(parts.locked_by)
    assert locks.domain == str(tmp_path / "served.db")
    assert (tmp_path / "served.db").is_file()


async def test_a_wrong_database_fails_the_run_not_the_import(monkeypatch):
    monkeypatch.setenv("LOOPWRIGHT_DATABASE_URL", "mysql://x/y")
    graph = plan_builder(assemble_served_parts()).compile(InMemorySaver())
    with pytest.raises(DatabaseError, match="Cannot open the database 'mysql://x/y'"):
        await graph.ainvoke({"messages": "hi"}, {"configurable": {"thread_id": "t"}})


@pytest.mark.req("W-49")
@pytest.mark.parametrize("name", ["MCP", "POLICY", "MODEL", "DATABASE_URL"])
async def test_an_empty_variable_fails_the_run_not_the_import(monkeypatch, name):
    monkeypatch.setenv(f"LOOPWRIGHT_{name}", "")
    graph = plan_builder(assemble_served_parts()).compile(InMemorySaver())
    with pytest.raises(SettingsError, match=f"LOOPWRIGHT_{name} is empty"):
        await graph.ainvoke({"messages": "hi"}, {"configurable": {"thread_id": "t"}})

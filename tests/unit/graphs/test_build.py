import inspect
import os

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from loopwright import build_react, open_durability
from loopwright.calls.policy import Policy, Rule
from loopwright.graphs.build import BuildOptions, assemble, assemble_served_parts
from loopwright.graphs.registry import REGISTRY
from loopwright.state.errors import SettingsError, ThreadBusy, ToolServerError
from loopwright.store.journal.sql import MemoryJournal


async def test_a_wrong_variable_fails_the_run_not_the_import(monkeypatch):
    monkeypatch.setenv("LOOPWRIGHT_MCP", "/nowhere/mcp.json")
    parts = assemble_served_parts()
    assert parts.toolbox.has_writes() is False
    for _ in range(2):
        with pytest.raises(ToolServerError, match=r"/nowhere/mcp\.json"):
            await parts.toolbox.catalog()


async def test_a_wrong_policy_fails_the_run_and_lets_nothing_run_without_it(monkeypatch):
    monkeypatch.setenv("LOOPWRIGHT_POLICY", "rules.json")
    with pytest.raises(SettingsError, match=r"The policy 'rules\.json' is neither a word"):
        await assemble_served_parts().toolbox.catalog()


async def test_served_graphs_follow_the_folders_of_the_operator(monkeypatch, tmp_path):
    (tmp_path / "AGENTS.md").write_text("Use tabs.")
    monkeypatch.setenv("LOOPWRIGHT_INSTRUCTIONS", f"{tmp_path}{os.pathsep}{tmp_path}")
    assert assemble_served_parts().instructions.render_text().endswith("Use tabs.")
    monkeypatch.setenv("LOOPWRIGHT_INSTRUCTIONS", "nowhere")
    with pytest.raises(SettingsError, match="'nowhere' is no folder"):
        await assemble_served_parts().toolbox.catalog()


def test_the_policy_of_served_graphs_is_a_word_or_a_file(monkeypatch, tmp_path):
    monkeypatch.setenv("LOOPWRIGHT_POLICY", "deny")
    assert assemble_served_parts().toolbox.policy == Policy(default="deny")
    (tmp_path / "rules.json").write_text('[{"action": "deny", "tool": "drop_*"}]')
    monkeypatch.setenv("LOOPWRIGHT_POLICY", "rules.json")
    assert assemble_served_parts().toolbox.policy.rules == (Rule(action="deny", tool="drop_*"),)
    monkeypatch.setenv("LOOPWRIGHT_POLICY", "")
    assert not assemble_served_parts().toolbox.policy.given


@pytest.mark.parametrize(
    ("argument", "advice"),
    [
        ({"hooks": [print]}, "put @hook"),
        ({"journal": object()}, "leave the argument out"),
        ({"locked_by": object()}, "pass `lambda: durability.locks`"),
    ],
)
def test_what_is_no_hook_no_journal_and_no_lock_is_refused_not_ignored(argument, advice):
    with pytest.raises(SettingsError, match=advice):
        assemble(**argument)


@pytest.mark.parametrize("entry", REGISTRY.values(), ids=REGISTRY)
def test_every_builder_shows_the_same_options_and_says_what_they_are(entry):
    shown = inspect.signature(entry.build).parameters
    assert list(shown)[: len(BuildOptions.__annotations__)] == list(BuildOptions.__annotations__)
    for name, parameter in shown.items():
        assert parameter.kind is inspect.Parameter.KEYWORD_ONLY
        assert parameter.default in (None, (), "")
        assert name in (entry.build.__doc__ or "")


@pytest.mark.parametrize("entry", REGISTRY.values(), ids=REGISTRY)
def test_an_option_that_is_not_there_is_refused_with_the_one_that_was_meant(entry):
    with pytest.raises(TypeError, match=rf"build_{entry.name}\(\) got .* 'modle'. .* 'model'"):
        entry.build(modle="openai:m")
    with pytest.raises(TypeError, match="There are: model, tools, mcp, "):
        entry.build(zzz=1)


def test_what_is_given_on_its_own_wins_over_the_durability(tmp_path):
    journal, saver = MemoryJournal(), InMemorySaver()
    with open_durability(f"sqlite:///{tmp_path}/t.db") as kept:
        graph = REGISTRY["react"].build(durability=kept, checkpointer=saver)
        assert graph.checkpointer is saver
        assert graph.store is kept.store
        assert assemble(durability=kept).journal.journal is kept.journal
        assert assemble(durability=kept, journal=journal).journal.journal is journal


@pytest.mark.req("W-94")
@pytest.mark.parametrize("saver", ["the server's own", "none until then"])
async def test_a_server_that_saves_the_threads_locks_them_where_the_builder_says(tmp_path, saver):
    def served(kept):
        """The graph with a saver of the server's, whose processes share nothing but a database."""
        where = {"journal": kept.journal, "locked_by": lambda: kept.locks}
        built = build_react(
            tools=[], **({"durability": kept} if saver == "the server's own" else where)
        )
        return built.copy(update={"checkpointer": InMemorySaver()})

    url, on = f"sqlite:///{tmp_path}/locks.db", {"configurable": {"thread_id": "t"}}
    with open_durability(url) as here, open_durability(url) as there:
        one, other = served(here), served(there)
        async for _ in one.astream({"messages": "hello"}, on):
            with pytest.raises(ThreadBusy):
                await other.ainvoke({"messages": "hello"}, on)
        await other.ainvoke({"messages": "hello"}, on)


def test_a_database_locks_the_threads_that_another_saver_keeps(tmp_path):
    with open_durability(f"sqlite:///{tmp_path}/locks.db") as kept:
        locked_by = assemble(durability=kept, checkpointer=InMemorySaver()).locked_by
        assert locked_by is not None
        assert locked_by() is kept.locks

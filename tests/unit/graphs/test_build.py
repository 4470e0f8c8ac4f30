import pytest
from langgraph.checkpoint.memory import InMemorySaver

from loopwright import build_react, open_durability
from loopwright.graphs.build import assemble, assemble_served_parts
from loopwright.graphs.registry import REGISTRY
from loopwright.state.errors import SettingsError, ThreadBusy, ToolServerError


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
def test_an_option_that_is_not_there_is_refused_with_the_one_that_was_meant(entry):
    with pytest.raises(TypeError, match=rf"build_{entry.name}\(\) got .* 'modle'. .* 'model'"):
        entry.build(modle="openai:m")
    with pytest.raises(TypeError, match="There are: model, tools, mcp, "):
        entry.build(zzz=1)


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

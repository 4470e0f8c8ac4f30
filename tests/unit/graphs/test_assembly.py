import pytest

from loopwright.graphs.assembly import assemble, served_parts
from loopwright.state.errors import SettingsError, ToolServerError


async def test_a_wrong_variable_fails_the_run_not_the_import(monkeypatch):
    monkeypatch.setenv("LOOPWRIGHT_MCP", "/nowhere/mcp.json")
    parts = served_parts()
    assert parts.toolbox.has_writes() is False
    for _ in range(2):
        with pytest.raises(ToolServerError, match=r"/nowhere/mcp\.json"):
            await parts.toolbox.catalog()


@pytest.mark.parametrize(
    ("argument", "advice"),
    [({"hooks": [print]}, "put @hook"), ({"journal": object()}, "leave the argument out")],
)
def test_what_is_no_hook_and_no_journal_is_refused_not_ignored(argument, advice):
    with pytest.raises(SettingsError, match=advice):
        assemble(**argument)

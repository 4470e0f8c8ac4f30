import pytest

from loopwright.calls.policy import Policy, Rule
from loopwright.graphs.assembly import assemble, served_parts
from loopwright.state.errors import SettingsError, ToolServerError


async def test_a_wrong_variable_fails_the_run_not_the_import(monkeypatch):
    monkeypatch.setenv("LOOPWRIGHT_MCP", "/nowhere/mcp.json")
    parts = served_parts()
    assert parts.toolbox.has_writes() is False
    for _ in range(2):
        with pytest.raises(ToolServerError, match=r"/nowhere/mcp\.json"):
            await parts.toolbox.catalog()


async def test_a_wrong_policy_fails_the_run_and_lets_nothing_run_without_it(monkeypatch):
    monkeypatch.setenv("LOOPWRIGHT_POLICY", "rules.json")
    with pytest.raises(SettingsError, match=r"The policy 'rules\.json' is neither a word"):
        await served_parts().toolbox.catalog()


def test_the_policy_of_served_graphs_is_a_word_or_a_file(monkeypatch, tmp_path):
    monkeypatch.setenv("LOOPWRIGHT_POLICY", "deny")
    assert served_parts().toolbox.policy == Policy(default="deny")
    (tmp_path / "rules.json").write_text('[{"action": "deny", "tool": "drop_*"}]')
    monkeypatch.setenv("LOOPWRIGHT_POLICY", "rules.json")
    assert served_parts().toolbox.policy.rules == (Rule(action="deny", tool="drop_*"),)
    monkeypatch.setenv("LOOPWRIGHT_POLICY", "")
    assert not served_parts().toolbox.policy.given


@pytest.mark.parametrize(
    ("argument", "advice"),
    [({"hooks": [print]}, "put @hook"), ({"journal": object()}, "leave the argument out")],
)
def test_what_is_no_hook_and_no_journal_is_refused_not_ignored(argument, advice):
    with pytest.raises(SettingsError, match=advice):
        assemble(**argument)

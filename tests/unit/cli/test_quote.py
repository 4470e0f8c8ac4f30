"""What `run --quote` prints, and how a limit in dollars is given."""

import pytest

from loopwright.cli.settings import Settings
from loopwright.cli.show import quote_goal
from loopwright.cli.terminal import Output

OPENAI = {"OPENAI_API_KEY": "none"}


@pytest.fixture
def mcp(tmp_path):
    (tmp_path / "mcp.json").write_text('{"mcpServers": {}}')
    return str(tmp_path / "mcp.json")


@pytest.fixture
def with_a_key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "none")


@pytest.mark.usefixtures("with_a_key")
def test_a_quote_is_told_in_lines(capsys, mcp):
    settings = Settings(max_cost=0.5, mcp=mcp, environ=OPENAI)
    assert quote_goal(settings, Output(), "Tidy up.") == 0
    told = capsys.readouterr().out
    assert "model calls: at most 2,001\n" in told
    assert "cost: at most $0.5000\n" in told
    assert "  openai:gpt-5.4-mini: input $0.75 · output $4.5 · cached_input $0.075 per mill" in told


def test_the_limit_goes_with_the_thread():
    assert "--max-cost 0.5" in Settings(max_cost=0.5, environ={}).build_resume_command(
        "t", "sqlite:///x"
    )

import json
from pathlib import Path
from typing import Any

import pytest

from loopwright.calls.policy import Policy
from loopwright.cli.settings import Settings
from loopwright.cli.show import describe_policy, examine
from loopwright.cli.terminal import Code, Output
from loopwright.state.context import Context
from loopwright.tools.catalog import CatalogTool
from loopwright.tools.hints import read_flags
from support.mcp_servers import stdio


def tool(name, **hints) -> Any:
    return CatalogTool(
        name=name, description="", schema={}, server="disk", original=name, **read_flags(hints)
    )


def told(policy, one, /, **context) -> list[str]:
    return [*describe_policy(one, Policy.of(policy), Context(**context))]


@pytest.fixture
def lines(capsys, forked_servers):
    """What the examination says, as lines; the exit code first."""

    def examined(**settings):
        code = examine(Settings(**settings), Output())
        return code, capsys.readouterr().out.splitlines()

    return examined


def test_instructions_are_shown_and_those_of_this_folder_are_not_followed_unnamed(
    lines, monkeypatch, tmp_path
):
    about = "---\nname: notes\ndescription: Release notes.\n---\nBegin."
    for name, text in (("AGENTS.md", "Use tabs."), ("a/SKILL.md", about), ("b/SKILL.md", "No.")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    unnamed = "  ! AGENTS.md of this folder is not followed: name it with --instructions ."
    assert unnamed in lines()[1]
    monkeypatch.setenv("LOOPWRIGHT_INSTRUCTIONS", str(tmp_path))
    for settings in ({}, {"instructions": ["."]}):
        code, told = lines(**settings)
        assert code == Code.COMPLETE
        assert f"  ✓ {tmp_path / 'AGENTS.md'}: 9 characters" in told
        assert "  ✓ skill notes: Release notes." in told
        assert any("! The skill in" in line and "has no front matter" in line for line in told)
    code, told = lines(instructions=["nowhere"])
    assert code == Code.USAGE
    assert any("✗ 'nowhere' is no folder" in line for line in told)


def test_a_company_is_shown_with_what_its_desk_lacks(lines, monkeypatch):
    shop = Path(__file__).parents[3] / "examples" / "shop" / "lumen"
    assert "Company" not in lines()[1]
    monkeypatch.setenv("LOOPWRIGHT_COMPANY", str(shop))
    code, told = lines()
    assert code == Code.COMPLETE
    assert f"  ✓ Lumen, of {shop}; what may be done says its policy.yaml" in told
    [lost] = [line for line in told if "but the policy names it" in line]
    assert "There is no tool verify_identity, " in lost
    assert "  ! No server here has create_ticket: tickets_by names yours, or do without." in told
    assert "  ! No server here is desk: records names those whose fields count." in told
    [asked] = [line for line in lines(policy="ask")[1] if "✓ Lumen" in line]
    assert asked.endswith("the policy of all graphs")
    monkeypatch.setenv("LOOPWRIGHT_COMPANY", "nowhere")
    code, told = lines()
    assert code == Code.USAGE
    assert any("✗ The company 'nowhere' has no company.yaml" in line for line in told)


@pytest.mark.req("S4-46")
def test_what_was_read_of_an_agent_is_shown(lines, tmp_path):
    text = "---\nname: clerk\ntools: list_*, save\nmax_turns: 3\ncolor: red\n---\nBe brief."
    (tmp_path / "clerk.md").write_text(text)
    code, told = lines(agent="clerk.md")
    assert code == Code.COMPLETE
    assert f"  ✓ clerk, of {tmp_path / 'clerk.md'}; tier balanced" in told
    assert "  ✓ limits: turns 3" in told
    assert any(line.startswith("  ✓ tools: list_") for line in told), told
    assert "  ! The agent may call 'save', but there is no such tool." in told
    assert any("color is not known" in line for line in told)
    code, told = lines(agent="nobody")
    assert code == Code.USAGE
    assert any("✗ There is no agent 'nobody'" in line for line in told)


def test_a_rule_about_origins_is_told_with_them():
    rule = {"action": "allow", "origin": {"to": ["request", "find_contact"]}, "reason": "known"}
    assert (
        told([rule], tool("pay"))[0] == "allow pay (origin of to: request or find_contact): known"
    )


def test_tools_for_tasks_alone_are_told(lines, tmp_path):
    servers = {"library": stdio("library"), "gone": {"command": "nowhere"}}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    _, told = lines(mcp=str(tmp_path / "mcp.json"))
    assert "  ✓ library: 3 tools" in told
    assert any("it runs as an MCP task alone" in line for line in told)

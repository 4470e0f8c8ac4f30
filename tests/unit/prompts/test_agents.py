"""Agents as Markdown files: what other systems write is read, what is not known is told."""

import pytest

from loopwright import AgentDefinition, AgentLimits, ScriptedModel, SettingsError, build_task_agent
from loopwright.prompts.agents import read_agent
from support.reacting import said, shelf
from support.scripts import call

CLAUDE = """---
name: code-reviewer
description: Reviews code. Use it after changes.
tools: Read, Grep, Bash(git diff:*)
model: sonnet
maxTurns: 12
color: red
permissionMode: plan
---

You review code.

---
With a line of dashes in it, and {{braces}}.
"""
GEMINI = """---
name: security-auditor
kind: local
display_name: Security
description: Looks for holes.
tools:
  - read_file
  - grep_*
model: gemini-3-flash-preview
temperature: 0.2
max_turns: 10
timeout_mins: 5
---
You look for holes.
"""
DEEP = "---\nname: scout\ndescription: Looks around.\nmodel: anthropic:claude-opus-5\n---\nLook."
OURS = """---
name: clerk
tier: fast
tools: "*"
agents: [scout]
lenient: true
limits: {turns: 3, tokens: 5000}
outputName: owner
output: {type: object, properties: {name: {type: string}}, required: [name]}
---
"""


@pytest.fixture
def read(tmp_path):
    def write(text):
        path = tmp_path / "agent.md"
        path.write_text(text, encoding="utf-8")
        return read_agent(path)

    return write


@pytest.mark.req("S3-24", "S4-46", "S4-64")
def test_files_of_other_systems_are_read(read):
    claude = read(CLAUDE)
    assert (claude.name, claude.tier) == ("code-reviewer", "balanced")
    assert claude.tools == ("Read", "Grep", "Bash")
    assert claude.limits == AgentLimits(turns=12)
    assert claude.prompt.startswith("You review code.")
    assert claude.prompt.endswith("---\nWith a line of dashes in it, and {{braces}}.")
    told = " ".join(claude.warnings)
    assert "color is not known" in told
    assert "permission_mode is not known" in told
    assert "Bash(git diff:*)" in told
    gemini = read(GEMINI)
    assert (gemini.title, gemini.tier, gemini.temperature) == ("Security", "fast", 0.2)
    assert gemini.tools == ("read_file", "grep_*")
    assert gemini.limits == AgentLimits(turns=10, seconds=300)
    assert gemini.warnings == ()
    deep = read(DEEP)
    assert (deep.tier, deep.tools, deep.prompt) == ("powerful", None, "Look.")
    ours = read(OURS)
    assert (ours.tier, ours.tools, ours.agents, ours.lenient) == ("fast", None, ("scout",), True)
    assert ours.limits == AgentLimits(turns=3, tokens=5_000)
    assert (ours.output_name, ours.output["required"]) == ("owner", ["name"])
    assert read("\ufeff---\r\nname: a\r\n---\r\nWords.\r\n") == AgentDefinition(
        name="a", prompt="Words."
    )


WRONG = {
    "no front matter": ("You review code.", "has no front matter"),
    "no end": ("---\nname: a\n", "has no front matter"),
    "no YAML": ("---\nname: a\ntools: [a\n---\n", "no YAML .*line 2"),
    "a list": ("---\n- a\n---\n", "front matter without keys"),
    "a bad name": ("---\nname: a b\n---\n", "name: .*'a b' is no name"),
    "a bad number": ("---\nname: a\nmax_turns: many\n---\n", "limits.turns"),
    "no turns": ("---\nname: a\nmax_turns: 0\n---\n", "limits.turns"),
    "limits that are none": ("---\nname: a\nlimits: 5\n---\n", "limits"),
    "an unknown limit": ("---\nname: a\nlimits: {hours: 5}\n---\n", "limits.hours"),
    "a bad tier": ("---\nname: a\ntier: huge\n---\n", "tier"),
    "tools it may not call": ("---\nname: a\ndisallowedTools: Bash\n---\n", "disallowed_tools"),
    "an agent elsewhere": ("---\nname: a\nkind: remote\n---\n", "another kind than local"),
    "code": ("---\nname: !!python/object/apply:os.system ['true']\n---\n", "is no YAML"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_with_a_file_is_one_sentence(name, read):
    text, told = WRONG[name]
    with pytest.raises(SettingsError, match=told) as raised:
        read(text)
    assert "agent.md" in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.req("S4-46")
def test_a_graph_is_built_of_a_file_and_its_outcome_warns_of_what_is_not_known(tmp_path):
    path = tmp_path / "clerk.md"
    path.write_text("---\nname: clerk\ntools: loo*, Grep\ncolor: red\n---\nYou are brief.\n")
    model = ScriptedModel([[call("complete_task", summary="Ada.")]])
    graph = build_task_agent(model=model, tools=[shelf()], definition=str(path))
    outcome = graph.invoke(said())["outcome"]
    told = " ".join(outcome["warnings"])
    assert "color is not known" in told
    assert "may call 'Grep', but there is no such tool" in told
    assert "You are brief." in model.asked[0].messages[0].text
    assert model.asked[0].tools[0] == "look"

from typing import Any

import pytest

from loopwright.calls.grants import make_grant
from loopwright.calls.policy import Decision, Policy, Rule
from loopwright.state.context import Context
from loopwright.state.errors import SettingsError
from loopwright.tools.catalog import CatalogTool, make_reader
from loopwright.tools.hints import read_flags


def tool(name="t", server="s", *, auto=False, **hints) -> Any:
    return CatalogTool(
        name=name, description="", schema={}, server=server, original=name, auto_approve=auto,
        **read_flags(hints),
    )  # fmt: skip


def decide(policy, one, args=None, /, *, can_ask=True, agent="", grants=(), **context) -> Any:
    return Policy.of(policy).decide(
        one, args or {}, context=Context(**context), can_ask=can_ask, agent=agent, grants=grants
    )


READ, WRITE = tool(readOnlyHint=True), tool()
DESTROY = tool(destructiveHint=True)


@pytest.mark.parametrize(
    ("one", "action"),
    [
        (READ, "allow"),
        (DESTROY, "ask"),
        (tool(server=None), "allow"),
        (tool(server=None, readOnlyHint=True, destructiveHint=True), "ask"),
        (make_reader(), "allow"),
    ],
)
def test_what_a_tool_says_of_itself_decides_by_default(one, action):
    assert decide(None, one).action == action


@pytest.mark.parametrize(
    ("of_builder", "of_context", "action"),
    [
        ("allow", "default", "allow"),
        (None, "deny", "deny"),
        ("allow", "deny", "deny"),
        ("ask", "default", "ask"),
        ([{"tool": "other", "action": "allow"}], "allow", "ask"),
    ],
)
def test_a_context_may_tighten_and_loosens_only_where_the_builder_said_nothing(
    of_builder, of_context, action
):
    assert decide(of_builder, DESTROY, policy=of_context).action == action


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("alow", "neither a word"),
        ([{"tool": "x"}], "action: Field required"),
        ([{"action": "allow", "tools": "x"}], "tools: Extra"),
        ([{"action": "deny", "arguments": {"a": "("}}], "regular expression"),
        ({"rules": "x"}, "list of rules"),
        ([{"action": "deny", "tool": 7}], "tool: "),
        ([{"action": "deny", "agent": ["react"]}], "agent: "),
        ([{"action": "deny", "arguments": {"path": 1}}], "arguments: "),
        ([{"action": "ask", "expires_in": "soon"}], "expires_in: "),
        ([{"action": "ask", "expires_in": True}], "expires_in: "),
    ],
)
def test_a_policy_that_means_nothing_is_refused(value, words):
    with pytest.raises(SettingsError, match=words):
        Policy.of(value)


def test_rules_may_speak_of_one_agent():
    rules = [
        {"tool": "*", "agent": "research*", "action": "deny", "reason": "research only reads"},
        Rule(agent="react", action="ask"),
        {"action": "allow"},
    ]
    actions = [decide(rules, WRITE, agent=a).action for a in ("researcher", "react", "other", "")]
    assert actions == ["deny", "ask", "allow", "allow"]


@pytest.mark.req("P-42")
def test_a_question_expires_as_the_rule_or_the_run_says():
    rules = [
        {"tool": "pay", "action": "ask", "expires_in": 60},
        {"tool": "t", "action": "ask"},
        {"tool": "free", "action": "allow", "expires_in": 60},
    ]
    assert decide(rules, tool("pay")).expires_in == 60
    assert decide(rules, tool("pay"), question_expires_in=5).expires_in == 60
    assert decide(rules, WRITE).expires_in is None
    assert decide(rules, WRITE, question_expires_in=5).expires_in == 5
    assert decide(None, WRITE, question_expires_in=5) == Decision(
        "ask", "the tool does not declare itself read-only", 5
    )
    for one in (tool("free"), tool("r", readOnlyHint=True)):
        decided = decide(rules, one, question_expires_in=5)
        assert (decided.action, decided.expires_in) == ("allow", None)


@pytest.mark.req("P-02", "P-42")
def test_no_grant_lifts_a_denial():
    grants = [make_grant("t", "s", {}, "tool", WRITE.definition)]
    assert decide([{"tool": "t", "action": "deny"}], WRITE, grants=grants).action == "deny"
    assert decide("deny", WRITE, grants=grants).action == "deny"
    assert decide(None, WRITE, grants=grants, policy="deny").action == "deny"


def test_a_policy_file_that_is_no_json_is_refused(tmp_path):
    path = tmp_path / "policy.json"
    path.write_text("{")
    with pytest.raises(SettingsError, match="no valid JSON"):
        Policy.of(path)

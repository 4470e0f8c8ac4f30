import json
from typing import Any

import pytest

from loopwright.calls.policy import GRANTED, NOT_INTERACTIVE, Decision, Policy, Rule, make_grant
from loopwright.state.context import Context
from loopwright.state.errors import SettingsError
from loopwright.tools.catalog import CatalogTool, make_reader, read_flags


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
        (WRITE, "ask"),
        (DESTROY, "ask"),
        (tool(idempotentHint=True), "ask"),
        (tool(server=None), "allow"),
        (tool(server=None, destructiveHint=True), "ask"),
        (tool(server=None, readOnlyHint=True, destructiveHint=True), "ask"),
        (tool(auto=True), "allow"),
        (make_reader(), "allow"),
    ],
)
def test_what_a_tool_says_of_itself_decides_by_default(one, action):
    assert decide(None, one).action == action


def test_where_nobody_can_answer_asking_is_denying():
    denied = Decision("deny", NOT_INTERACTIVE)
    assert decide(None, WRITE, can_ask=False) == denied
    assert decide(None, WRITE, interactive=False) == denied
    assert decide("ask", READ, can_ask=False) == denied
    assert decide(None, READ, can_ask=False).action == "allow"


@pytest.mark.parametrize(
    ("of_builder", "of_context", "action"),
    [
        ("allow", "default", "allow"),
        (None, "allow", "allow"),
        (None, "deny", "deny"),
        ("ask", "allow", "ask"),
        ("allow", "deny", "deny"),
        ("deny", "allow", "deny"),
        ("ask", "default", "ask"),
        ("default", "allow", "ask"),
        ([{"tool": "other", "action": "allow"}], "allow", "ask"),
    ],
)
def test_a_context_may_tighten_and_loosens_only_where_the_builder_said_nothing(
    of_builder, of_context, action
):
    assert decide(of_builder, DESTROY, policy=of_context).action == action


def test_the_first_rule_that_fits_wins():
    rules = [
        {"tool": "delete_*", "arguments": {"path": "^/tmp/"}, "action": "allow"},
        {"tool": "delete_*", "action": "deny", "reason": "nothing is deleted here"},
        Rule(server="files", annotations={"readOnlyHint": False}, action="ask"),
        {"action": "allow"},
    ]
    delete, edit = tool("delete_file", "files"), tool("edit", "files")
    assert decide(rules, delete, {"path": "/tmp/a"}).action == "allow"
    assert decide(rules, delete, {"path": "/etc/a"}) == Decision("deny", "nothing is deleted here")
    assert decide(rules, delete).action == "deny"
    assert decide(rules, edit).action == "ask"
    assert decide(rules, tool("edit", None, destructiveHint=True)).action == "allow"


def test_rules_come_before_auto_approve_and_see_the_original_name():
    prefixed = CatalogTool(
        name="files_delete", description="", schema={}, server="files", original="delete",
        auto_approve=True, **read_flags({}),
    )  # fmt: skip
    assert decide([{"tool": "delete", "action": "deny"}], prefixed).action == "deny"


def test_arguments_are_found_inside_and_as_json():
    rules = [{"arguments": {"a.b": "1, 2"}, "action": "deny"}]
    assert decide(rules, READ, {"a": {"b": [1, 2]}}).action == "deny"
    assert decide(rules, READ, {"a": "b"}).action == "allow"


def test_a_policy_is_read_from_a_file(tmp_path):
    path = tmp_path / "policy.json"
    path.write_text(json.dumps({"rules": [{"tool": "t", "action": "deny"}], "default": "ask"}))
    policy = Policy.of(path)
    assert policy == Policy.of(str(path)) == Policy.of(policy)
    assert decide(policy, READ).action == "deny"
    assert decide(policy, tool("other", readOnlyHint=True)).action == "ask"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("alow", "neither a word"),
        ([{"tool": "x"}], "action: Field required"),
        ([{"action": "allow", "tools": "x"}], "tools: Extra"),
        ([{"action": "maybe"}], "'allow', 'ask' or 'deny'"),
        ([{"action": "deny", "arguments": {"a": "("}}], "regular expression"),
        ({"rules": [], "default": "no"}, "default is one of"),
        ({"rules": "x"}, "list of rules"),
        ({"Rules": []}, "keys rules and default"),
        ([{"action": "deny", "tool": 7}], "tool: "),
        ([{"action": "deny", "tool": None}], "tool: "),
        ([{"action": "deny", "agent": ["react"]}], "agent: "),
        ([{"action": "deny", "arguments": ["path"]}], "arguments: "),
        ([{"action": "deny", "arguments": {"path": 1}}], "arguments: "),
        ([{"action": "deny", "annotations": {"readOnlyHint": "no"}}], "annotations: "),
        ([{"action": "ask", "expires_in": "soon"}], "expires_in: "),
        ([{"action": "ask", "expires_in": 0}], "expires_in: "),
        ([{"action": "ask", "expires_in": True}], "expires_in: "),
        ([{"action": "ask", "expires_in": float("nan")}], "expires_in: "),
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


@pytest.mark.req("P-42")
def test_what_was_approved_for_the_session_is_not_asked_again():
    grants = [make_grant("t", "s", {}, "tool")]
    assert decide(None, WRITE, grants=grants) == Decision("allow", GRANTED)
    assert decide("ask", READ, grants=grants).action == "allow"
    assert decide(None, WRITE, grants=grants, can_ask=False).action == "allow"
    assert decide(None, tool("u"), grants=grants).action == "ask"
    assert decide(None, tool("t", "other"), grants=grants).action == "ask"
    assert decide(None, tool("t", None, destructiveHint=True), grants=grants).action == "ask"


@pytest.mark.req("P-02", "P-42")
def test_no_grant_lifts_a_denial():
    grants = [make_grant("t", "s", {}, "tool")]
    assert decide([{"tool": "t", "action": "deny"}], WRITE, grants=grants).action == "deny"
    assert decide("deny", WRITE, grants=grants).action == "deny"
    assert decide(None, WRITE, grants=grants, policy="deny").action == "deny"


def test_the_cases_of_a_tool_are_told_in_order():
    rules = [
        {"tool": "other", "action": "deny"},
        {"tool": "t", "agent": "react", "action": "deny"},
        {"tool": "t", "arguments": {"path": "^a"}, "action": "allow"},
        {"server": "s", "action": "ask", "expires_in": 9},
        {"action": "deny"},
    ]
    policy = Policy.of(rules)
    told = [
        (c.decision.action, c.agent, dict(c.arguments)) for c in policy.list_cases(WRITE, Context())
    ]
    assert told == [("deny", "react", {}), ("allow", None, {"path": "^a"}), ("ask", None, {})]
    assert policy.list_cases(WRITE, Context())[-1].decision.expires_in == 9
    (last,) = Policy.of(None).list_cases(WRITE, Context(policy="deny"))
    assert last.decision == Decision("deny", "policy deny of this run")
    assert [c.decision.action for c in policy.list_cases(make_reader(), Context())] == ["allow"]


def test_a_policy_file_that_is_no_json_is_refused(tmp_path):
    path = tmp_path / "policy.json"
    path.write_text("{")
    with pytest.raises(SettingsError, match="no valid JSON"):
        Policy.of(path)

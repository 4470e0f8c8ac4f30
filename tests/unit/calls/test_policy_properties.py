"""Random rules, calls, grants and settings: the policy is total, and never laxer than its rules."""

from typing import Any

import pytest
from hypothesis import given, strategies as st

from loopwright.calls.grants import make_grant
from loopwright.calls.policy import Policy, Rule
from loopwright.state.context import Context
from loopwright.tools.catalog import CatalogTool
from loopwright.tools.hints import read_flags

NAMES = st.sampled_from(["save", "delete", "read_file", "disk_save", "[x]", "*"])
GLOBS = st.sampled_from(["*", "save", "d*", "read_?ile", "[", "[!a]*", "", "\\*"])
SERVERS = st.sampled_from([None, "disk", "web"])
AGENTS = st.sampled_from(["", "react", "plan_execute_verify", "researcher"])
HINTS = st.dictionaries(
    st.sampled_from(["readOnlyHint", "destructiveHint", "idempotentHint"]), st.booleans()
)
PATHS = st.sampled_from(["", "path", "a.b", "n", ".", "a."])
PATTERNS = st.sampled_from(["", "^notes/", "1", "x$", "(?i)NO", ".*", "\\d{2}"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.just("notes/1"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b", "", "path"]), inner, max_size=3)
    ),
    max_leaves=5,
)
ARGUMENTS = st.dictionaries(st.sampled_from(["path", "a", "n", ""]), VALUES, max_size=3)
RULES = st.builds(
    Rule,
    action=st.sampled_from(["allow", "ask", "deny"]),
    tool=GLOBS,
    server=st.none() | GLOBS,
    agent=st.none() | GLOBS,
    annotations=HINTS,
    arguments=st.dictionaries(PATHS, PATTERNS, max_size=2),
    expires_in=st.none() | st.floats(0.1, 1e6),
    reason=st.text(max_size=5),
)
CONTEXTS = st.builds(
    Context,
    policy=st.sampled_from(["default", "allow", "ask", "deny"]),
    interactive=st.booleans(),
    question_expires_in=st.none() | st.floats(0.1, 1e6),
)
POLICIES = st.builds(
    Policy,
    rules=st.lists(RULES, max_size=4).map(tuple),
    default=st.sampled_from(["default", "allow", "ask", "deny"]),
    given=st.booleans(),
)
REMEMBERED = (
    st.just("call") | st.just("tool") | st.dictionaries(PATHS, PATTERNS, min_size=1, max_size=2)
)
LAXITY = ("deny", "ask", "allow")


@st.composite
def tools(draw) -> Any:
    name, server = draw(NAMES), draw(SERVERS)
    return CatalogTool(
        name=name, description="", schema={}, server=server, original=draw(st.just(name) | NAMES),
        auto_approve=draw(st.booleans()), **read_flags(draw(HINTS)),
    )  # fmt: skip


@st.composite
def grants(draw) -> Any:
    return make_grant(draw(NAMES), draw(SERVERS), draw(ARGUMENTS), draw(REMEMBERED), "")


def speaks(rule, tool, args, agent) -> bool:
    """Whether a rule speaks of a call: a policy that has no other decides by it."""
    told = rule.model_copy(update={"reason": "by this rule"})
    decision = Policy((told,)).decide(tool, args, context=Context(), can_ask=True, agent=agent)
    return bool(decision.reason == "by this rule")


@pytest.mark.req("P-42")
@given(
    POLICIES, tools(), ARGUMENTS, CONTEXTS, st.booleans(), AGENTS, st.lists(grants(), max_size=3)
)
def test_every_call_is_decided_by_the_first_rule_that_fits(
    policy, tool, args, context, can_ask, agent, given_before
):
    def decided(**more: Any) -> Any:
        how = {"context": context, "can_ask": can_ask, "agent": agent}
        return policy.decide(tool, args, **(how | more))

    given_before = [grant | {"definition": tool.definition} for grant in given_before]
    plain, spared = decided(), decided(grants=given_before)
    wish = decided(can_ask=True, context=context.model_copy(update={"interactive": True}))
    assert spared.action in LAXITY
    assert spared.reason
    first = next((rule for rule in policy.rules if speaks(rule, tool, args, agent)), None)
    if first is not None:
        assert wish.action == first.action
        assert decided(context=Context(policy="allow")).action != "allow" or first.action == "allow"
    if wish.action != "ask":
        assert spared == plain == wish, "grants and a silent user change questions only"
    if spared.action == "allow":
        assert wish.action != "deny"
    if spared.action == "ask":
        assert can_ask
        assert context.interactive
    else:
        assert spared.expires_in is None


@pytest.mark.req("P-02")
@given(POLICIES, tools(), ARGUMENTS, AGENTS)
def test_a_run_only_tightens_what_the_program_has_said(policy, tool, args, agent):
    given_policy = Policy(policy.rules, policy.default)

    def action(word: Any) -> Any:
        context = Context(policy=word)
        return given_policy.decide(tool, args, context=context, can_ask=True, agent=agent).action

    program = LAXITY.index(action("default"))
    assert all(LAXITY.index(action(word)) <= program for word in ("allow", "ask", "deny"))

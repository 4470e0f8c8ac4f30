import json
from dataclasses import replace
from typing import Any

import pytest

from loopwright.calls.grants import is_granted, make_grant
from loopwright.calls.policy import Policy, Rule
from loopwright.state.context import Context
from loopwright.state.questions import Answer
from loopwright.tools.catalog import CatalogTool
from loopwright.tools.hints import read_flags


def tool(name="save", server="disk", original="save") -> Any:
    return CatalogTool(
        name=name, description="", schema={}, server=server, original=original, **read_flags({})
    )


ARGS = {"path": "notes/a.md", "text": "(1+1)?", "n": [1, 2]}


@pytest.mark.parametrize(
    ("args", "granted"),
    [
        (ARGS, True),
        (dict(reversed(ARGS.items())), True),
        (ARGS | {"path": "notes/b.md"}, False),
        (ARGS | {"force": True}, False),
        ({"path": "notes/a.md"}, False),
        ({}, False),
    ],
)
def test_the_same_call_is_the_one_with_these_arguments_and_no_others(args, granted):
    given = make_grant("save", "disk", ARGS, "call", tool().definition)
    assert given is not None
    assert is_granted(json.loads(json.dumps(given)), tool(), args) == granted


@pytest.mark.req("W-45")
def test_values_are_compared_as_they_are_and_all_must_fit():
    given = make_grant(
        "save", "disk", ARGS, {"path": "notes/a.md", "n": "[1, 2]"}, tool().definition
    )
    assert given is not None
    assert is_granted(given, tool(), ARGS | {"text": "other"})
    assert not is_granted(given, tool(), ARGS | {"path": "/etc/notes/a.md"})
    assert not is_granted(given, tool(), ARGS | {"path": "notes/a_md"})
    assert not is_granted(given, tool(), ARGS | {"n": [1, 2, 3]})
    assert not is_granted(given, tool(), {"path": "notes/a.md"})


@pytest.mark.req("W-125")
@pytest.mark.parametrize(
    "other",
    [
        {"description": "Save and send it."}, {"schema": {"properties": {"to": {}}}},
        {"declared": {"destructiveHint": True}}, {"output": {"type": "object"}},
    ],
)  # fmt: skip
def test_another_definition_was_not_approved(other):
    given: Any = make_grant("save", "disk", ARGS, "tool", tool().definition)
    assert is_granted(given, tool(name="disk_save"), ARGS)
    assert not is_granted(given, replace(tool(), **other), ARGS)
    given.pop("definition")
    assert not is_granted(given, tool(), ARGS)


@pytest.mark.parametrize(
    "broken",
    [
        {},
        {"tool": "save", "server": "disk"},
        {"tool": "save", "server": "disk", "arguments": None},
        {"tool": "save", "server": "disk", "arguments": {"path": "("}},
        {"tool": "save", "server": "disk", "arguments": {"path": 1}},
        {"tool": "save", "server": "disk", "arguments": {1: "x"}},
        {"tool": "*", "server": "disk", "arguments": {}},
    ],
)
def test_what_cannot_be_read_grants_nothing(broken):
    assert not is_granted(broken, tool(), ARGS)


SLOW = ["^(a+)+$", "(a|a)*b", r"(\w+\s?)*!", "(?=(a+)+$)x"]
LONG = {"path": "a" * 40 + "?", "text": "a " * 40, "n": []}


@pytest.mark.req("W-45")
@pytest.mark.parametrize("pattern", SLOW)
@pytest.mark.parametrize("path", ["path", "text", ""])
def test_a_pattern_of_an_answer_is_never_run(pattern, path):
    answer = Answer.model_validate({"type": "approve", "remember": {path: pattern}})
    given = make_grant("save", "disk", ARGS, answer.remember, tool().definition)
    assert given is not None
    assert not is_granted(given, tool(), LONG)
    assert path == "" or is_granted(given, tool(), LONG | {path: pattern})


@pytest.mark.req("W-45")
def test_a_grant_that_an_earlier_version_kept_cannot_run_for_long():
    kept = {"tool": "save", "server": "disk", "arguments": {"path": "^(a|a)+$"}}
    kept["definition"] = tool().definition
    assert not is_granted(kept, tool(), LONG)


@pytest.mark.req("W-45")
@pytest.mark.parametrize("action", ["allow", "deny"])
def test_where_a_rules_pattern_takes_too_long_what_allows_does_not_fit(action):
    slow = Rule(action=action, arguments={"path": "^(a|a)+$"})
    policy = Policy(rules=(slow,), default="ask")
    decided = policy.decide(tool(), LONG, context=Context(), can_ask=True)
    assert decided.action == ("ask" if action == "allow" else action)

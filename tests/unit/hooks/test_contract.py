"""What makes a hook, and what is refused because it would silently never run or never guard."""

import pytest

from loopwright import Hook, SettingsError
from loopwright.hooks.contract import ADVISORY, EVENTS, UnreadableOutput, read_output
from loopwright.hooks.registry import Hooks


def nothing(_):
    return None


@pytest.mark.req("S4-36")
def test_there_are_eleven_events():
    assert set(EVENTS) == {
        "BeforeTool", "AfterTool", "BeforeAgent", "AfterAgent", "BeforeModel", "AfterModel",
        "BeforeToolSelection", "SessionStart", "SessionEnd", "PreCompress", "Notification",
    }  # fmt: skip
    hooks = Hooks([Hook(event=event, run=nothing) for event in EVENTS])
    assert hooks.events == set(EVENTS)
    assert not Hooks().events


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"event": "BeforeLunch"}, "no hook event 'BeforeLunch'"),
        ({"run": "no callable"}, "must be callable"),
        ({"timeout": 0}, "more than 0 seconds"),
        ({"on_error": "ajar"}, "open or closed"),
        ({"match": "("}, "no regular expression"),
        ({"event": "BeforeAgent", "match": "x"}, "nothing to match"),
        *[({"event": event, "on_error": "closed"}, "cannot stop anything") for event in ADVISORY],
    ],
)
def test_what_makes_no_sense_is_refused(options, words):
    with pytest.raises(SettingsError, match=words):
        Hook(**{"event": "BeforeTool", "run": nothing} | options)


@pytest.mark.parametrize(
    ("event", "match", "value", "fits"),
    [
        ("BeforeTool", "delete_.*", "delete_file", True),
        ("BeforeTool", "file$", "delete_file", True),
        ("BeforeTool", "^file", "delete_file", False),
        ("AfterTool", "*", "anything", True),
        ("SessionStart", "resume", "resume", True),
        ("SessionStart", "res", "resume", False),
        ("Notification", "", "ToolPermission", True),
    ],
)
def test_tools_match_by_expression_all_else_exactly(event, match, value, fits):
    assert Hook(event=event, run=nothing, match=match).matches(value) is fits


@pytest.mark.parametrize(
    "raw",
    [
        3,
        ["deny"],
        {"decison": "deny"},
        {"decision": "no"},
        {"tool_input": "rm"},
        {"hookSpecificOutput": "deny"},
        {"decision": "allow", "hookSpecificOutput": {"decision": "deny"}},
    ],
)
def test_what_cannot_be_read_is_no_consent(raw):
    with pytest.raises(UnreadableOutput):
        read_output(raw)

"""Several outputs become one verdict, event by event."""

import pytest
from hypothesis import given, strategies as st

from loopwright.hooks.contract import ADVISORY, EVENTS, merge_outputs, read_output


def merged(event, *outputs, **fields):
    return merge_outputs(event, fields, [read_output(one) for one in outputs])


CAN_BLOCK = sorted(set(EVENTS) - ADVISORY)
DENY, ASK = {"decision": "deny", "reason": "no"}, {"decision": "ask", "reason": "hm"}


@pytest.mark.parametrize("event", CAN_BLOCK)
def test_one_block_is_enough_and_beats_a_question(event):
    verdict = merged(event, {"decision": "allow", "reason": "fine"}, ASK, DENY)
    assert (verdict.is_blocked, verdict.decision, verdict.reason) == (True, "deny", "no")
    assert merged(event, {"decision": "block", "reason": "a"}, DENY).reason == "a\nno"


def test_arguments_are_replaced_and_a_later_hook_does_not_undo_an_earlier_one():
    given = {"to": "ada", "body": "secret", "cc": "bob"}
    alone = merged("BeforeTool", {"tool_input": {"to": "eve"}}, tool_input=given)
    assert alone.tool_input == {"to": "eve"}
    both = merged(
        "BeforeTool",
        {"tool_input": {"to": "ada", "body": "***"}},
        {"tool_input": {"to": "eve", "body": "secret", "cc": "bob"}},
        tool_input=given,
    )
    assert both.tool_input == {"to": "eve", "body": "***"}
    assert merged("BeforeTool", None, tool_input=given).tool_input is None


@pytest.mark.req("S4-05")
@pytest.mark.parametrize(
    ("configs", "mode", "allowed"),
    [
        ([{"mode": "AUTO"}], "AUTO", None),
        ([{"mode": "AUTO", "allowedFunctionNames": ["b"]}, {"mode": "AUTO"}], "AUTO", ["b"]),
        (
            [{"mode": "ANY", "allowedFunctionNames": ["b"]}, {"allowed_function_names": ["a"]}],
            "ANY", ["a", "b"],
        ),
        ([{"mode": "ANY", "allowedFunctionNames": ["b"]}, {"mode": "NONE"}], "NONE", []),
    ],
)  # fmt: skip
def test_tools_add_up_and_the_strictest_mode_counts(configs, mode, allowed):
    verdict = merged("BeforeToolSelection", *({"toolConfig": config} for config in configs))
    config = verdict.tool_config
    assert config
    assert (config.mode, config.allowed_function_names) == (mode, allowed)


@given(st.lists(st.sampled_from([None, {"decision": "allow"}, ASK, DENY]), max_size=6))
def test_a_block_is_never_lost(outputs):
    verdict = merged("BeforeTool", *outputs)
    assert verdict.is_blocked == (DENY in outputs)
    assert (verdict.decision == "ask") == (ASK in outputs and DENY not in outputs)

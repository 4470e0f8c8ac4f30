"""Several outputs become one verdict, event by event."""

import pytest
from hypothesis import given, strategies as st

from loopwright.hooks.contract import ADVISORY, EVENTS, merge_outputs, read_output, update_fields


def merged(event, *outputs, **fields):
    return merge_outputs(event, fields, [read_output(one) for one in outputs])


CAN_BLOCK = sorted(set(EVENTS) - ADVISORY)
DENY, ASK = {"decision": "deny", "reason": "no"}, {"decision": "ask", "reason": "hm"}


@pytest.mark.parametrize("event", CAN_BLOCK)
def test_one_block_is_enough_and_beats_a_question(event):
    verdict = merged(event, {"decision": "allow", "reason": "fine"}, ASK, DENY)
    assert (verdict.is_blocked, verdict.asks_human, verdict.reason) == (True, False, "no")
    assert merged(event, {"decision": "block", "reason": "a"}, DENY).reason == "a\nno"


@pytest.mark.parametrize("event", CAN_BLOCK)
def test_one_question_beats_consent(event):
    verdict = merged(event, ASK, {"decision": "approve", "reason": "fine"})
    assert (verdict.is_blocked, verdict.asks_human, verdict.reason) == (False, True, "hm")


@pytest.mark.parametrize("event", sorted(ADVISORY))
def test_where_nothing_can_be_stopped_decisions_are_not_heard(event):
    verdict = merged(event, DENY, {"continue": False, "additionalContext": "c"})
    assert (verdict.is_blocked, verdict.halt_reason, verdict.context) == (False, None, "c")


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


def test_of_requests_and_answers_the_later_field_wins():
    before = merged(
        "BeforeModel",
        {"llm_request": {"model": "a", "config": {"temperature": 0}}},
        {"llmRequest": {"model": "b"}, "llmResponse": "answer"},
    )
    assert before.llm_request == {"model": "b", "config": {"temperature": 0}}
    assert before.llm_response == "answer"
    assert merged("AfterModel", {"llm_response": "1"}, {"llm_response": "2"}).llm_response == "2"


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
    assert verdict.asks_human == (ASK in outputs and DENY not in outputs)


def test_in_a_sequence_each_sees_what_those_before_changed():
    after = update_fields(
        {"llm_request": {"model": "a", "messages": []}},
        read_output({"llm_request": {"model": "b"}}),
    )  # fmt: skip
    assert after["llm_request"] == {"model": "b", "messages": []}
    after = update_fields({"prompt": "go"}, read_output({"additional_context": "now"}))
    assert after["prompt"] == "go\n\nnow"

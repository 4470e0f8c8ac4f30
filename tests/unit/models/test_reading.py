from typing import Any

import pytest
from langchain_core.messages import AIMessage

from loopwright.models.reading import read_answer
from loopwright.state.contracts import ExecutorResponse

REPORT = {"taskCompleted": True, "summary": "42 apples"}


def call(name: str, args: dict[str, Any], call_id: str) -> dict[str, Any]:
    return {"name": name, "args": args, "id": call_id, "type": "tool_call"}


def test_a_call_of_the_contract_leaves_no_copy_in_the_message() -> None:
    message = AIMessage(
        [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "tool_use", "id": "1", "name": "add", "input": {}},
            {"type": "tool_use", "id": "2", "name": "ExecutorResponse", "input": REPORT},
        ],
        tool_calls=[call("add", {}, "1"), call("ExecutorResponse", REPORT, "2")],
        additional_kwargs={"tool_calls": [{"id": "1"}, {"id": "2"}], "parsed": None, "kept": 1},
    )
    reading = read_answer(message, ExecutorResponse, with_tools=True)
    assert [kept["id"] for kept in reading.message.tool_calls] == ["1"]
    assert [block["type"] for block in reading.message.content] == ["thinking", "tool_use"]  # type: ignore[index]
    assert reading.message.additional_kwargs == {"kept": 1}
    assert reading.parsed is None
    assert len(message.tool_calls) == 2


@pytest.mark.parametrize(
    ("metadata", "complete"),
    [
        ({"finish_reason": "stop"}, True),
        ({"finish_reason": "tool_calls"}, True),
        ({"stop_reason": "end_turn"}, True),
        ({"stop_reason": "tool_use"}, True),
        ({"done_reason": "stop"}, True),
        ({"finish_reason": "STOP"}, True),
        ({"status": "completed"}, True),
        ({}, True),
        ({"finish_reason": "length"}, False),
        ({"finish_reason": "content_filter"}, False),
        ({"stop_reason": "max_tokens"}, False),
        ({"stop_reason": "refusal"}, False),
        ({"done_reason": "length"}, False),
        ({"finish_reason": "MAX_TOKENS"}, False),
        ({"finish_reason": "FinishReason.SAFETY"}, False),
        ({"finish_reason": "MALFORMED_FUNCTION_CALL"}, False),
        ({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, False),
    ],
)
def test_every_providers_word_for_a_cut_message(metadata: dict[str, Any], complete: bool) -> None:
    message = AIMessage("", tool_calls=[call("add", {}, "1")], response_metadata=metadata)
    reading = read_answer(message, ExecutorResponse, with_tools=True)
    assert reading.complete is complete
    assert reading.problems == []
    assert bool(read_answer(message, None).problems)

from typing import Any

import pytest
from langchain_core.messages import AIMessage

from loopwright.models.reading import read_answer
from loopwright.state.contracts import ExecutorResponse


def call(name: str, args: dict[str, Any], call_id: str) -> dict[str, Any]:
    return {"name": name, "args": args, "id": call_id, "type": "tool_call"}


@pytest.mark.parametrize(
    ("metadata", "complete"),
    [
        ({"finish_reason": "stop"}, True),
        ({"stop_reason": "end_turn"}, True),
        ({"done_reason": "stop"}, True),
        ({"status": "completed"}, True),
        ({"finish_reason": "length"}, False),
        ({"stop_reason": "max_tokens"}, False),
        ({"done_reason": "length"}, False),
        ({"finish_reason": "FinishReason.SAFETY"}, False),
        ({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, False),
    ],
)
def test_every_providers_word_for_a_cut_message(metadata: dict[str, Any], complete: bool) -> None:
    message = AIMessage("", tool_calls=[call("add", {}, "1")], response_metadata=metadata)
    reading = read_answer(message, ExecutorResponse, with_tools=True)
    assert reading.complete is complete
    assert reading.problems == []
    assert bool(read_answer(message, None).problems)

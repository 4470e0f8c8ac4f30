"""What a stream says, by the names that callbacks of front ends have."""

import pytest
from langchain_core.messages import AIMessageChunk, HumanMessage, RemoveMessage

from loopwright import stream_event

CALL = {"type": "tool_call", "id": "t.1.0", "tool": "pay", "arguments": {"amount": 7}, "task": "1"}
TOLD = {key: CALL[key] for key in ("id", "tool", "arguments")}
ENDED = {"type": "outcome", "seq": 9}
ASKED = ("an interrupt",)


@pytest.mark.req("S0-78", "S0-155")
@pytest.mark.parametrize(
    ("mode", "chunk", "told"),
    [
        (
            "messages",
            (AIMessageChunk(content="Ju", id="a"), {}),
            [("content", {"id": "a", "text": "Ju"})],
        ),
        (
            "messages",
            (RemoveMessage(id="a"), {}),
            [("content", {"id": "a", "text": "", "again": True})],
        ),
        ("messages", (HumanMessage("Hi", id="h"), {}), []),
        (
            "custom",
            CALL | {"status": "awaiting_approval"},
            [("tool_calls", {"calls": [TOLD], "confirm": True})],
        ),
        (
            "custom",
            ENDED | {"status": "complete", "reason": "GOAL"},
            [("done", {"status": "complete", "reason": "GOAL"})],
        ),
        (
            "custom",
            ENDED | {"status": "failed", "reason": "ERROR", "unmet": ["no", "model"]},
            [("error", {"status": "failed", "reason": "ERROR", "message": "no; model"})],
        ),
        ("custom", "what a node of the program's own writes", []),
        ("values", {"messages": []}, []),
        ("error", TimeoutError(), [("error", {"message": "TimeoutError"})]),
    ],
)
def test_each_chunk_has_one_name_or_none(mode, chunk, told):
    assert stream_event(mode, chunk) == told

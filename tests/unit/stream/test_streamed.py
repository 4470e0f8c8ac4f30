"""What a stream says, by the names that callbacks of front ends have."""

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, RemoveMessage

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
        ("messages", (AIMessage("Juno", id="a"), {}), [("content", {"id": "a", "text": "Juno"})]),
        (
            "messages",
            (RemoveMessage(id="a"), {}),
            [("content", {"id": "a", "text": "", "again": True})],
        ),
        (
            "messages",
            (AIMessageChunk(content="", id="a", additional_kwargs={"reasoning_content": "hm"}), {}),
            [("reasoning", {"id": "a", "text": "hm"})],
        ),
        ("messages", (HumanMessage("Hi", id="h"), {}), []),
        (
            "custom",
            CALL | {"status": "scheduled"},
            [("tool_calls", {"calls": [TOLD], "confirm": False})],
        ),
        (
            "custom",
            CALL | {"status": "awaiting_approval"},
            [("tool_calls", {"calls": [TOLD], "confirm": True})],
        ),
        ("custom", CALL | {"status": "success"}, []),
        (
            "custom",
            ENDED | {"status": "complete", "reason": "GOAL"},
            [("done", {"status": "complete", "reason": "GOAL"})],
        ),
        (
            "custom",
            ENDED | {"status": "cancelled", "reason": "ABORTED"},
            [("stopped", {"status": "cancelled", "reason": "ABORTED"})],
        ),
        (
            "custom",
            ENDED | {"status": "failed", "reason": "ERROR", "unmet": ["no", "model"]},
            [("error", {"status": "failed", "reason": "ERROR", "message": "no; model"})],
        ),
        ("custom", {"type": "phase", "role": "thought"}, []),
        ("custom", "what a node of the program's own writes", []),
        (
            "updates",
            {"__interrupt__": ASKED},
            [("stopped", {"reason": "WAITING", "interrupts": [*ASKED]})],
        ),
        ("values", {"messages": []}, []),
        ("error", ValueError("the model is gone"), [("error", {"message": "the model is gone"})]),
        ("error", TimeoutError(), [("error", {"message": "TimeoutError"})]),
    ],
)
def test_each_chunk_has_one_name_or_none(mode, chunk, told):
    assert stream_event(mode, chunk) == told

"""What is kept of a stream, however long it is."""

import asyncio
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGenerationChunk

from loopwright.models.call import StreamCollector
from loopwright.models.drafts import WholeAnswer
from loopwright.models.refusals import Quirks

PIECES = 20_000


def stream(heard: StreamCollector, *chunks: AIMessageChunk) -> None:
    async def play() -> None:
        for chunk in chunks:
            await heard.on_llm_new_token("", chunk=ChatGenerationChunk(message=chunk))

    asyncio.run(play())


@pytest.mark.req("S2-18")
def test_a_long_answer_is_not_read_again_at_each_of_its_pieces():
    told: list[str] = []
    stream(
        StreamCollector([WholeAnswer(told.append)], Quirks()),
        *[AIMessageChunk(content=" then")] * PIECES,
    )
    whole = " then" * PIECES
    assert all(whole.startswith(text) for text in told)
    assert sum(map(len, told)) < 300 * len(whole)
    assert len(told[-1]) > 0.97 * len(whole), "and what is new is not left for long"
    assert [len(text) for text in told[:5]] == [5, 10, 15, 20, 25], "of a short one each piece is"


@pytest.mark.req("W-04")
def test_arguments_in_very_many_pieces_are_joined_as_they_were_sent():
    heard = StreamCollector([], Quirks())
    begins = tool_call_chunk(name="put", args='{"what": "', id="c1", index=0)
    other = tool_call_chunk(name="put", args='{"what": "cut', id="c2", index=1)
    more = [tool_call_chunk(args="then ", index=0)] * PIECES
    pieces = [begins, *more, tool_call_chunk(args='"}', index=0), other]
    stream(heard, *[AIMessageChunk(content="", tool_call_chunks=[piece]) for piece in pieces])
    whole = heard.complete_message(AIMessage(""))
    assert [c["args"] for c in whole.tool_calls] == [{"what": "then " * PIECES}]
    assert [c["args"] for c in whole.invalid_tool_calls] == ['{"what": "cut']
    assert StreamCollector([], Quirks()).complete_message(AIMessage("said")).text == "said"


def test_arguments_cut_by_a_stream_and_closed_by_its_parser_are_no_call():
    chunk: Any = {"name": "write", "args": '{"t": "hel', "id": "x", "index": 0}
    message = AIMessageChunk(content="", tool_call_chunks=[chunk])
    made = message.tool_calls
    assert made[0]["args"] == {"t": "hel"}
    function = {"name": "write", "arguments": '{"t": "hel'}
    kept = {"tool_calls": [{"id": "x", "function": function}]}
    for cut in (message, AIMessage("", tool_calls=made, additional_kwargs=kept)):
        whole = StreamCollector([], Quirks()).complete_message(cut)
        assert (whole.tool_calls, len(whole.invalid_tool_calls)) == ([], 1)

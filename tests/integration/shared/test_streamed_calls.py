"""A call whose arguments are no whole JSON object never runs, whichever way the model is asked."""

from typing import Any

import pytest
from langchain_openai import ChatOpenAI

from loopwright import build_react
from support.budget import alongside
from support.fake_openai import Reply, call, fake_openai

MORE = Reply('I save. <agent_meta>{"shouldContinue": true, "reason": "x"}</agent_meta>')
DONE = Reply('Ended. <agent_meta>{"shouldContinue": false, "reason": "x"}</agent_meta>')
WHOLE = '{"items": ["a", "b"]}'


GOAL = "Save a and b."


def ran(arguments: list[str], *, mode: Any, streaming: bool) -> list[Any]:
    """What the tool was called with in a run over the real client."""
    saved: list[Any] = []

    def save(items: list[str]) -> str:
        """Save."""
        saved.append(items)
        return "saved"

    calls = [call("save", text, f"c{n}") for n, text in enumerate(arguments)]
    script = [MORE, Reply(None, calls, "tool_calls"), Reply("Saved or not."), DONE]
    with fake_openai(script) as server:
        about: dict[str, Any] = {"base_url": server.url, "api_key": "none", "max_retries": 0}
        if streaming:  # said to be False, it would forbid to stream where the caller streams
            about["streaming"] = True
        model = ChatOpenAI(model="gpt-4o", **about)
        graph = build_react(model=model, tools=[save])
        list(graph.stream({"messages": [{"role": "user", "content": GOAL}]}, stream_mode=mode))
        if mode != "values" or streaming:
            assert any(request.get("stream") for request in server.requests)
    return saved


CALLS = [
    ([WHOLE], 1),
    (['{"items": ["a"'], 0),
    (['{"items": ["a", "b'], 0),
    ([WHOLE + WHOLE], 0),
    ([WHOLE, '{"items": ["a"'], 1),
    (['{"items": ["a"', WHOLE], 1),
    (["[1", '{"items": ["a"'], 0),
]
ASKED: list[Any] = [
    (mode, streaming) for mode in ("values", ["custom", "messages"]) for streaming in (False, True)
]


@pytest.mark.req("W-04")
@pytest.mark.parametrize(
    ("arguments", "saved", "mode", "streaming"),
    alongside(CALLS, ASKED),
    ids=lambda value: str(value)[:40],
)
def test_only_whole_arguments_run(arguments, saved, mode, streaming):
    assert ran(arguments, mode=mode, streaming=streaming) == [["a", "b"]] * saved

"""Arguments in the shapes models are known to send, through a provider's client, in whole runs."""

import atexit
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from langchain_core.tools import StructuredTool
from langchain_openai import ChatOpenAI

import loopwright as lw
from support.fake_openai import FakeOpenAI, Reply, call, fake_openai
from support.flows import flow, step
from support.reacting import said

FRESH = Path(__file__).parents[2] / "fixtures" / "fresh" / "shapes.json"
SHAPES: list[dict[str, Any]] = json.loads(FRESH.read_text(encoding="utf-8"))
NAMED = re.compile(r'"(?:name|tool|action)": "(\w+)"')
HALF = "half a reference"
"""A text like any other but in a plan, which has references."""


@cache
def serve() -> FakeOpenAI:
    """One server for all: with the first request to another one a client reads all certificates."""
    opened = fake_openai([])
    atexit.register(opened.__exit__, None, None, None)
    return opened.__enter__()


class Run:
    """A turn of task_agent whose model calls its tool with these arguments, then ends."""

    def __init__(self, shape: dict[str, Any], client: type[ChatOpenAI], *, streams: bool) -> None:
        server = serve()
        self.made: list[dict[str, Any]] = []
        name = found[1] if (found := NAMED.search(shape["given"])) else "do_it"
        tool = StructuredTool(
            name=name, description="Do it.", args_schema=shape["schema"], func=self.do
        )
        end = call("complete_task", '{"summary": "It came to what was asked."}', "c2")
        calls = [call(name, shape["given"])], [end]
        server.script, server.requests = [Reply(None, one, "tool_calls") for one in calls], []
        model = client(model="gpt-4o", base_url=server.url, api_key="none", max_retries=0)  # type: ignore[arg-type]
        graph = lw.build_task_agent(model=model, tools=[tool])
        modes = ["values", "messages"] if streams else ["values"]
        result = [r for m, r in graph.stream(said(), stream_mode=modes) if m == "values"][-1]
        self.told = "".join(m.text for m in result["messages"] if m.type == "tool")
        self.asked = server.requests

    def do(self, **given: Any) -> str:
        self.made.append(given)
        return "done"


@pytest.mark.req("W-119", "W-130")
@pytest.mark.parametrize("streams", [True, False])
@pytest.mark.parametrize("shape", SHAPES, ids=[one["kind"] for one in SHAPES])
def test_a_shape_is_read_without_doubt_or_refused_with_what_is_wrong(shape, streams):
    run = Run(shape, lw.LeanChatOpenAI, streams=streams)
    if shape["kind"] == HALF:
        return
    if shape["meant"] is not None:
        assert run.made == [shape["meant"]]
        assert len(run.asked) == 2
        return
    assert run.made == []
    assert "Not run: " in run.told


WRONG = {
    '{"a": 1, "a": 2}': "'a' is given twice", 'Draft: {"a": 1} Final: {"a": 2}': "several objects",
    '{"a": ' * 70 + "1" + "}" * 70: "nested deeper than 64", '{"a": "x\\u0000"}': "NUL",
    '"[1, 2]"': "it is a list", '{"a": 1, "b': "Unterminated string",
}  # fmt: skip
OPEN = {"type": "object"}


@pytest.mark.req("W-130", "W-131")
@pytest.mark.parametrize("given", WRONG)
def test_what_is_wrong_is_named(given):
    run = Run({"given": given, "schema": OPEN}, lw.LeanChatOpenAI, streams=True)
    assert (run.made, WRONG[given] in run.told) == ([], True)


@pytest.mark.req("W-130")
def test_a_client_that_reads_arguments_itself_is_told_what_they_must_be():
    """It fails at a text of JSON, before anybody else has seen it."""

    class Own(ChatOpenAI):
        """A client of the program's own, which is taken as it is."""

    shape = {"given": json.dumps('{"a": 1}'), "schema": OPEN}
    run = Run(shape, Own, streams=False)
    assert run.made == []
    assert "arguments of a call are one JSON object" in json.dumps(run.asked[1]["messages"])
    assert Run(shape, Own, streams=True).made == [{"a": 1}]
    assert Run(shape, ChatOpenAI, streams=False).made == [{"a": 1}]


@pytest.mark.req("W-119", "W-131")
def test_a_plan_may_give_anything_to_an_open_schema_but_half_a_reference():
    made: list[dict[str, Any]] = []

    def do(**given: Any) -> dict[str, str]:
        made.append(given)
        return {"v": "kept"}

    tool = StructuredTool(name="do_it", description="Do it.", args_schema=OPEN, func=do)
    (half,) = [one["given"] for one in SHAPES if one["kind"] == HALF]
    first = step("s1", "do_it", arguments={"deep": {"n": [1, None]}, "x": "5"})
    plans = [flow(first, step("s2", "do_it", arguments=json.loads(half)))]
    plans += [flow(first, step("s2", "do_it", arguments={"body": "It was {{s1.v}}"}))]
    model = lw.ScriptedModel(
        {"flow_planner": plans, "answerer": ["The value kept was passed on [s1][s2]."]}
    )
    outcome = lw.build_prompt_flow(model=model, tools=[tool]).invoke(said())["outcome"]
    assert outcome["status"] == "complete"
    assert "is no reference and would be sent as it stands" in model.asked[1].messages[-1].text
    assert made == [{"deep": {"n": [1, None]}, "x": "5"}, {"body": "It was kept"}]

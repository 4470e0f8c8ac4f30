"""An application with parts of its own: its chat model, its MCP server, its LangGraph saver."""

import json
import sqlite3

import pytest
from langchain_core.messages import ToolMessage
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.sqlite import SqliteSaver

from loopwright import build_plan_execute_verify
from support.fake_openai import Reply, call, fake_openai
from support.mcp_servers import stdio

THREAD = {"configurable": {"thread_id": "t"}}
GOAL = {"messages": [{"role": "user", "content": "Search for lamps."}]}


def provider(request):
    """What a model behind an OpenAI-compatible server answers, by what the request asks for."""
    contract = json.dumps(request.get("response_format"))
    if "PlannerResponse" in contract:
        return Reply(json.dumps({"summary": "", "todos": [{"id": "1", "description": "Search"}]}))
    if "VerifierResponse" in contract:
        judged = {"id": "1", "completed": True, "feedback": "", "evidence": ["1.1.0"]}
        verdict = {"allCompleted": True, "userNeedsSatisfied": True, "tasks": [judged]}
        return Reply(json.dumps(verdict | {"summary": "Found L:lamps."}))
    if request["messages"][-1]["role"] == "tool":
        found = request["messages"][-1]["content"]
        return Reply(json.dumps({"summary": f"Found {found}.", "taskCompleted": True}))
    wanted = call("desk_search", '{"query": "lamps"}', "call_of_the_provider")
    return Reply(None, tool_calls=[wanted], finish_reason="tool_calls")


def saved_results(saver):
    for saved in saver.list(THREAD):
        for _, channel, value in saved.pending_writes or []:
            if channel == "messages" and isinstance(value, list):
                yield from (m for m in value if isinstance(m, ToolMessage))


@pytest.fixture
def saver(tmp_path):
    connection = sqlite3.connect(tmp_path / "own.db", check_same_thread=False)
    yield SqliteSaver(connection)
    connection.close()


@pytest.mark.req("S0-34", "S0-35", "S0-144", "S0-157", "S0-163")
@pytest.mark.parametrize("streaming", [False, True], ids=["whole answers", "streamed answers"])
def test_a_run_through_the_applications_own_model_server_and_saver(saver, streaming):
    with fake_openai(provider) as server:
        model = ChatOpenAI(
            model="lamp-1", base_url=server.url, api_key="k", max_retries=0, streaming=streaming,
            stream_usage=True, temperature=0.3, max_completion_tokens=500, top_p=0.9,
        )  # fmt: skip
        graph = build_plan_execute_verify(
            model=model,
            mcp={"mcpServers": {"desk": stdio("desk", "--prefix", "L"), "other": stdio("desk")}},
            policy="allow",
            checkpointer=saver,
        )
        outcome = graph.invoke(GOAL, THREAD)["outcome"]
        evidence = graph.get_state(THREAD).values["evidence"]
    assert (outcome["status"], outcome["answer"]) == ("complete", "Found L:lamps.")
    assert outcome["tasks"][0]["result"] == "Found L:lamps."
    (record,) = evidence
    assert (record["tool"], record["arguments"]) == ("desk_search", {"query": "lamps"})
    (result,) = {m.id: m for m in saved_results(saver)}.values()
    assert (result.text, result.tool_call_id) == ("L:lamps", "call_of_the_provider")
    assert len(server.requests) == outcome["spend"]["model_calls"] == 4
    for request in server.requests:
        assert bool(request.get("stream")) is streaming
        options = (request["temperature"], request["max_completion_tokens"], request["top_p"])
        assert options == (0.3, 500, 0.9)
    offered = [tool["function"]["name"] for tool in server.requests[1]["tools"]]
    assert {"desk_search", "other_search"} <= set(offered)
    assert server.requests[2]["messages"][-1] == {
        "role": "tool", "tool_call_id": "call_of_the_provider", "content": "L:lamps",
    }  # fmt: skip
    assert outcome["spend"]["input_tokens"] == 4 * 11

"""Servers that are slow to start, or not there: what a run waits for, and what it says first."""

import asyncio

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from loopwright import (
    ScriptedModel,
    build_plan_execute_verify,
    build_prompt_flow,
    build_react,
)
from loopwright.calls.toolbox import Toolbox
from loopwright.state.context import STARTUP
from loopwright.tools.mcp import server as server_module
from support.flows import flow, step
from support.mcp_servers import process
from support.patience import PATIENCE
from support.reacting import THREAD, said
from support.scripts import call, passed, plan, report, thought, todo


def asked_once(graph):
    """A model for each graph that makes no call."""
    return {
        build_react: {"thought": [thought("The registry is not there.")]},
        build_plan_execute_verify: {
            "planner": [plan(todo("1", "Answer"))],
            "executor": [report("The registry is not there.")],
            "verifier": [passed("The registry is not there.", t1=["1.report"])],
        },
        build_prompt_flow: {
            "flow_planner": [flow(step("a", "llm_call", arguments={"prompt": "Answer."}))],
            "llm_call": ["The registry is not there."],
            "answerer": ["The registry is not there [a]."],
        },
    }[graph]


async def run(graph, context=None):
    """Run it once: its events, in order, and the outcome."""
    events = []
    async for event in graph.astream(said(), THREAD, context=context, stream_mode="custom"):
        events.append(event)
    return events, (await graph.aget_state(THREAD)).values["outcome"]


@pytest.mark.req("W-26", "W-146")
@pytest.mark.parametrize("build", [build_react, build_plan_execute_verify, build_prompt_flow])
async def test_a_missing_server_is_told_before_the_first_model_call_and_in_the_outcome(
    build, tmp_path, caplog
):
    model = ScriptedModel(asked_once(build))
    mcp = {
        "registry": process("slow", str(tmp_path / "never"), startupTimeout=0.3),
        "gone": {"command": "no-such-binary-anywhere"},
        "bare": process("slow", "empty"),
        "here": process("faulty"),
    }
    graph = build(model=model, mcp={"mcpServers": mcp}, checkpointer=InMemorySaver())
    events, outcome = await run(graph)
    first = next(n for n, event in enumerate(events) if event["type"] in ("phase", "model"))
    told = [event["text"] for event in events[:first] if event["type"] == "warning"]
    assert len(told) == 3
    assert "'registry' is left out: it did not answer within 0.3 s" in told[0]
    assert "raise startupTimeout in its entry" in told[0]
    assert "'gone' is left out: the command 'no-such-binary-anywhere' was not found" in told[1]
    # Python writes these to stderr where nobody has configured a log.
    logged = [one.getMessage() for one in caplog.records if one.name.endswith(".mcp.server")]
    assert sorted(logged) == sorted(told[:2])
    assert [*outcome][:3] == ["status", "reason", "warnings"]  # the first lines of a printed one
    assert "'bare' is there, but offers no tool" in told[2]
    assert outcome["warnings"] == told
    asked = [m.text for m in model.asked[0].messages]
    assert any("No tool of these MCP servers" in text for text in asked)
    assert any("registry, gone, bare" in text for text in asked)


@pytest.mark.req("W-26")
async def test_a_server_that_needs_a_while_is_waited_for():
    model = ScriptedModel(
        {
            "thought": [thought("I ask the server.", more=True), thought("It said 7.")],
            "action": [[call("echo", n=7)]],
            "observation": ["It said 7."],
        }
    )
    mcp = {"slow": process("slow", "1.5")}
    graph = build_react(model=model, mcp={"mcpServers": mcp}, checkpointer=InMemorySaver())
    _, outcome = await run(graph)
    assert (outcome["status"], outcome["warnings"]) == ("complete", [])
    assert "echo" in model.asked[0].tools, "the first call knew its tools"


@pytest.mark.req("W-26")
async def test_a_later_turn_finds_the_server_without_waiting_for_it(tmp_path, monkeypatch):
    monkeypatch.setattr(server_module.Servers.__init__, "__kwdefaults__", {"retry_after": 0.0})
    ready = tmp_path / "ready"
    box = Toolbox(
        mcp={"mcpServers": {"slow": process("slow", str(ready)), "here": process("faulty")}}
    )
    STARTUP.set(0.3)
    catalog = await box.catalog()
    assert catalog.missing == ("slow",)
    assert {tool.server for tool in catalog.tools.values()} == {"here"}
    STARTUP.set(PATIENCE)  # the next trial, behind the scenes, has all the time it needs
    await box.catalog()
    for _ in range(3):  # nobody waits for it: it is not there before its file is
        assert (await box.catalog()).missing == ("slow",)
    ready.touch()
    for _ in range(int(PATIENCE / 0.05)):
        if not (await box.catalog()).missing:
            break
        await asyncio.sleep(0.05)
    assert (await box.catalog()).missing == ()
    await box.aclose()

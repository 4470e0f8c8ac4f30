"""What a program that embeds a graph may rely on: options of a run, messages, ways to stop."""

import time
from datetime import datetime

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from loopwright import (
    Context,
    PromptManager,
    ScriptedModel,
    build_plan_execute_verify,
)
from loopwright.prompts.prompt import read_json
from support.scripts import call, failed, passed, plan, report, todo

THREAD = {"configurable": {"thread_id": "t"}}


def one_task(**scripts):
    return ScriptedModel(
        {
            "planner": [plan(todo("1", "Wait"))],
            "executor": [[call("wait", "call_7")], report("Waited.")],
            "verifier": [passed("It took a moment.", t1=["1.1.0"])],
        }
        | scripts
    )


def wait() -> str:
    """Wait a moment."""
    time.sleep(0.05)
    return "waited"


@pytest.mark.req("S0-37")
def test_closing_a_stream_stops_the_run():
    def waits(messages, offered):
        waited = any(message.type == "tool" for message in messages)
        return report("Waited.") if waited else [call("wait", "call_7")]

    # The run may be steps ahead of whoever reads the stream: what it asked then it asks again.
    model = one_task(planner=[plan(todo("1", "Wait"))] * 2, executor=waits)
    graph = build_plan_execute_verify(model=model, tools=[wait], checkpointer=InMemorySaver())
    stream = graph.stream({"messages": [HumanMessage("go")]}, THREAD, stream_mode="updates")
    assert "intake" in next(stream)
    stream.close()
    asked = len(model.asked)
    time.sleep(0.3)
    assert len(model.asked) == asked, "nothing goes on behind the caller's back"
    assert graph.invoke(None, THREAD)["outcome"]["status"] == "complete"


@pytest.mark.req("S0-147")
def test_a_run_takes_its_thread_history_contexts_tools_and_settings():
    model, prompts = one_task(), PromptManager()
    prompts.set_business_context("planner", "Plan small.")
    graph = build_plan_execute_verify(
        model=model, tools=[wait], prompts=prompts, checkpointer=InMemorySaver()
    )
    history = [HumanMessage("Hello"), AIMessage("Hello to you")]
    context = Context(
        system_context="We sell lamps.", business_context={"verifier": "Be strict."}, max_tasks=5
    )
    result = graph.invoke({"messages": [*history, HumanMessage("Wait")]}, THREAD, context=context)
    assert [m.text for m in result["messages"]][:3] == ["Hello", "Hello to you", "Wait"]
    planner, verifier = model.asked[0], model.asked[-1]
    assert "We sell lamps.\n\nPlan small." in planner.messages[0].text
    assert "We sell lamps.\n\nBe strict." in verifier.messages[0].text
    assert read_json(planner.messages[1].text, "conversation") == [
        {"role": "user", "text": "Hello"},
        {"role": "assistant", "text": "Hello to you"},
    ]
    assert graph.get_state(THREAD).values["turn_state"]["turn"] == 1


@pytest.mark.req("S0-44", "S0-149", "S0-156")
def test_messages_carry_ids_calls_results_and_the_role_that_wrote_them():
    graph = build_plan_execute_verify(model=one_task(), tools=[wait], checkpointer=InMemorySaver())
    message = {"messages": [HumanMessage("go")]}
    seen = [m for _, update in graph.stream(message, THREAD, stream_mode="updates", subgraphs=True)
            for part in update.values() if part for m in part.get("messages", [])]  # fmt: skip
    planned, asking, result, _, reported, final = seen
    assert [m.type for m in seen] == ["ai", "ai", "tool", "ai", "ai", "ai"]
    assert asking.tool_calls[0]["id"] == result.tool_call_id == "call_7"
    assert (asking.tool_calls[0]["name"], asking.tool_calls[0]["args"]) == ("wait", {})
    assert (result.name, result.text) == ("wait", "waited")
    assert all(datetime.fromisoformat(m.additional_kwargs["timestamp"]).tzinfo for m in seen)
    roles = [m.additional_kwargs["agent_type"] for m in seen if m.type == "ai"]
    assert roles == ["planner", "executor", "executor", "executor", "verifier"]
    assert len({m.id for m in seen}) == 6
    kept = graph.get_state(THREAD).values["messages"]
    assert [m.id for m in kept[1:]] == [planned.id, reported.id, final.id]


@pytest.mark.req("S0-20")
def test_calls_are_run_recorded_as_evidence_and_fed_back():
    model = one_task()
    graph = build_plan_execute_verify(model=model, tools=[wait], checkpointer=InMemorySaver())
    graph.invoke({"messages": [HumanMessage("go")]}, THREAD)
    (record,) = graph.get_state(THREAD).values["evidence"]
    assert (record["id"], record["tool"], record["status"]) == ("1.1.0", "wait", "success")
    assert record["result"] == "waited"
    assert read_json(model.asked[-1].messages[1].text, "evidence")[0]["result"] == "waited"
    assert model.asked[2].messages[-1].text == "waited"


@pytest.mark.req("S0-107")
def test_the_model_decides_and_code_keeps_the_limits():
    """A model that wants to go on for ever is stopped by a limit, and says so in the outcome."""
    model = one_task(
        executor=lambda messages, offered: (
            [call("wait")] if "wait" in offered else report("?", taskCompleted=False)
        ),
        verifier=lambda messages, offered: failed(f"go on {time.time()}", t1=False),
        planner=lambda messages, offered: plan(todo("1", f"Wait until {time.time()}")),
    )  # fmt: skip
    graph = build_plan_execute_verify(model=model, tools=[wait])
    context = Context(max_executor_rounds=2, max_verify_cycles=2, max_model_calls=50)
    outcome = graph.invoke({"messages": [HumanMessage("go")]}, THREAD, context=context)["outcome"]
    assert outcome["reason"] == "MAX_ROUNDS"
    assert outcome["spend"]["model_calls"] == 2 + 2 * (2 + 1) + 2, (
        "after the last round it may still end"
    )


@pytest.mark.req("S3-27")
def test_a_task_that_failed_runs_on_the_next_tier_the_others_do_not():
    def weak(messages, offered):
        task = read_json(messages[1].text, "task")["id"]
        return (
            report("no", taskCompleted=False, shouldContinue=False) if task == "1" else report("7")
        )

    strong = ScriptedModel(lambda messages, offered: report("Done by the stronger one."))
    judge = ScriptedModel(
        {
            "planner": [
                plan(todo("1", "Hard"), todo("2", "Easy")),
                plan(todo("1", "Hard"), todo("3", "New")),
            ],
            "verifier": [
                failed("do the hard one", t1=False),
                passed("All there.", t1=["1.report"], t2=["2.report"], t3=["3.report"]),
            ],
        }
    )
    roles = {
        "planner": judge,
        "verifier": judge,
        "balanced": ScriptedModel(weak),
        "powerful": strong,
    }
    graph = build_plan_execute_verify(model=roles)
    outcome = graph.invoke({"messages": [HumanMessage("go")]}, THREAD)["outcome"]
    assert outcome["status"] == "complete"
    assert len(strong.asked) == 1, "only the task that failed before"
    assert {t["id"]: t["attempts"] for t in outcome["tasks"]} == {"1": 2, "2": 1, "3": 1}

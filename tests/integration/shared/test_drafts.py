"""The answer is shown while it is written; what the stream told is what the state has."""

import asyncio
import json
import random
import threading
from typing import Any

import pytest
from langchain_openai import ChatOpenAI

from loopwright import (
    Hook,
    build_plan_execute_verify,
    build_prompt_flow,
    build_react,
    build_task_agent,
)
from support.drafted import BUILD, INPUT, step_of
from support.fake_openai import Reply, fake_openai
from support.flows import flow
from support.reacting import shelf
from support.replay import SECRET, Replay, Splitting
from support.scripts import call, passed, plan, report, thought, todo

MODES = ["values", "updates", "messages", "custom", "tasks", "debug"]
MAKE: dict[str, Any] = {
    "react": build_react, "prompt_flow": build_prompt_flow,
    "plan_execute_verify": build_plan_execute_verify, "task_agent": build_task_agent,
}  # fmt: skip


async def parts(graph: Any, rng: random.Random, **options: Any) -> list[tuple[Any, str, Any]]:
    """The run's stream as (namespace, mode, data), over one of LangGraph's doors."""
    options |= {"stream_mode": MODES, "subgraphs": True}
    if rng.random() < 0.3:
        told = [one async for one in graph.astream(INPUT, version="v2", **options)]
        return [(one["ns"], one["type"], one["data"]) for one in told]
    if rng.random() < 0.5:
        return [one async for one in graph.astream(INPUT, **options)]
    return await asyncio.to_thread(lambda: list(graph.stream(INPUT, **options)))


def replayed(told: list[tuple[Any, str, Any]], place: Any = ()) -> tuple[Replay, Any]:
    """What clients have after all, having agreed with the state whenever it was told."""
    replay, state = Replay(), None
    for ns, mode, data in told:
        if tuple(ns)[: len(place)] != tuple(place) or len(ns) != len(place):
            continue
        if mode == "messages":
            replay.take(data[0])
            assert not any(part in str(data[0].content) for part in SECRET)
            assert not any(part in str(data[0].content_blocks) for part in SECRET[:-1])
        elif mode == "values":
            state = data = data if isinstance(data, dict) else vars(data)
            if not data.get("messages"):
                continue
            replay.begin([m for m in data["messages"] if m.type == "human"])
            replay.agrees(data["messages"])
    return replay, state


@pytest.mark.req("P-39", "S0-79", "S0-82")
@pytest.mark.parametrize("name", BUILD)
async def test_a_replayed_stream_has_the_messages_of_the_state_whenever_it_is_told(name):
    drafts = replaced = 0
    for seed in range(8):
        rng = random.Random(seed)
        thinks = rng.choice(["", "tags", "blocks", "kwargs"])
        graph = BUILD[name](rng, seed=seed, thinks=thinks)
        told = await parts(graph, rng)
        replay, state = replayed(told)
        replay.agrees(state["messages"])
        texts = [data[0] for ns, mode, data in told if mode == "messages" and not ns]
        drafts += any(m.type == "AIMessageChunk" and not m.chunk_position for m in texts)
        replaced += any(m.type == "remove" for m in texts)
    assert drafts > 5
    assert replaced


@pytest.mark.req("S0-81")
@pytest.mark.parametrize(
    ("name", "thinks"), [*zip(BUILD, ("tags", "blocks", "kwargs", "tags"), strict=True)]
)
async def test_thoughts_stand_beside_the_words(name, thinks):
    rng = random.Random(1)
    graph = BUILD[name](random.Random(5), seed=1, thinks=thinks)
    _, state = replayed(await parts(graph, rng))
    answer = state["messages"][-1]
    assert [b["type"] for b in answer.content_blocks][:1] == ["reasoning"]
    assert answer.content_blocks[0]["reasoning"].startswith("pondering")
    assert "agent_meta" not in str(answer)
    assert answer.text == state["outcome"]["answer"]


@pytest.mark.req("P-39")
@pytest.mark.parametrize("name", BUILD)
async def test_who_does_not_listen_has_the_same_messages(name):
    """Nothing is pushed, and a model that cannot stream is read as one that can."""

    def read(messages: Any) -> list[Any]:
        return [(m.type, m.text, [b["type"] for b in m.content_blocks]) for m in messages]

    rng = random.Random(7)
    state = await BUILD[name](rng, seed=7).ainvoke(INPUT)
    for still in ({}, {"disable_streaming": True}):
        graph = BUILD[name](random.Random(7), seed=7, **still)
        _, told = replayed(await parts(graph, random.Random(7)))
        assert read(told["messages"]) == read(state["messages"])


@pytest.mark.req("P-39")
@pytest.mark.parametrize("name", BUILD)
async def test_hooks_that_judge_what_models_say_judge_it_before_it_is_shown(name):
    def judge(given: Any) -> Any:
        keeps = "That is all" in str(given)
        return {"decision": "deny", "reason": "a PIN"} if keeps else {}

    graph = BUILD[name](random.Random(3), seed=3, hooks=[Hook(event="AfterModel", run=judge)])
    told = await parts(graph, random.Random(3))
    replayed(told)
    shown = [data[0].text for _, mode, data in told if mode == "messages"]
    assert not any("That is all" in text for text in shown)


@pytest.mark.req("P-39")
@pytest.mark.parametrize("name", BUILD)
async def test_an_answer_that_a_hook_rejects_gives_way_to_the_next_one(name):
    rejected: list[str] = []

    def judge(given: Any) -> Any:
        if rejected:
            return {}
        rejected.append(given["prompt_response"])
        return {"decision": "deny", "reason": "say it shorter", "clearContext": True}

    script = {
        "thought": [thought("Ada owns it."), thought("It is Ada.")],
        "agent": [[call("complete_task", summary=s)] for s in ("Ada owns it.", "It is Ada.")],
        "flow_planner": [flow(step_of("s1"))],
        "answerer": ["Ada owns it [s1].", "It is Ada [s1]."],
        "planner": [plan(todo("1", "find out"))] * 2,
        "executor": [report("Ada owns it.")] * 2,
        "verifier": [
            passed("Ada owns it.", t1=["1.report"]),
            passed("It is Ada.", t1=["1.report"]),
        ],
    }
    model, hooks = Splitting(script, seed=4), [Hook(event="AfterAgent", run=judge)]
    graph = MAKE[name](model=model, tools=[shelf()], hooks=hooks)
    replay, state = replayed(await parts(graph, random.Random(4)))
    replay.agrees(state["messages"])
    assert len(rejected) == 1
    assert state["messages"][-1].text.startswith("It is Ada")


ANSWERS = {
    "react": ("thought", thought("Ada 艾达 😀 owns it; that is all there is to say about it.")),
    "prompt_flow": ("answerer", "Ada 艾达 😀 owns it; that is all there is to say about it. [s1]"),
    "plan_execute_verify": (
        "verifier",
        json.dumps(
            passed("Ada 艾达 😀 owns it; that is all there is to say. " * 8, t1=["1.report"]),
            ensure_ascii=False,
        ),
    ),
}
OTHERS = {
    "planner": json.dumps(plan(todo("1", "find out"))),
    "executor": json.dumps(report("Ada owns it.")),
    "flow_planner": json.dumps(flow(step_of("s1"))),
}


@pytest.mark.req("S0-79", "P-39")
@pytest.mark.parametrize("name", ANSWERS)
async def test_over_the_real_client_the_answer_is_read_while_the_server_still_writes_it(name):
    """The server writes the second half when the first one was seen; bytes come three at a time."""
    role, said = ANSWERS[name]
    seen = threading.Event()

    def answer(request: dict[str, Any]) -> Reply:
        schema = request.get("response_format", {}).get("json_schema", {}).get("name", "")
        asks = {"PlannerResponse": "planner", "ExecutorResponse": "executor",
                "VerifierResponse": "verifier", "ExecutionPlan": "flow_planner"}  # fmt: skip
        asking = asks.get(schema, role)
        if asking == role:
            return Reply(said, bytes_at_once=3, half=seen)
        return Reply(OTHERS[asking])

    with fake_openai(answer) as server:
        model = ChatOpenAI(model="lamp", base_url=server.url, api_key="k", max_retries=0)
        graph = MAKE[name](model=model, tools=[shelf()] if name == "prompt_flow" else [])
        told: list[Any] = []
        async for one in graph.astream(INPUT, stream_mode=MODES, subgraphs=True):
            told.append(one)
            read = "".join(data[0].text for _, mode, data in told if mode == "messages")
            if "Ada 艾达" in read:
                seen.set()
        replay, state = replayed(told)
    replay.agrees(state["messages"])
    assert "Ada 艾达 😀 owns it" in state["messages"][-1].text
    assert state["outcome"]["status"] == "complete"
    assert state["outcome"]["spend"]["output_tokens"] >= 7

"""The answer is shown while it is written; what the stream told is what the state has."""

import asyncio
import random
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

from loopwright import (
    Hook,
    build_plan_execute_verify,
    build_prompt_flow,
    build_react,
)
from support.drafted import BUILD, INPUT, step_of
from support.flows import flow
from support.reacting import shelf
from support.replay import SECRET, Replay, Splitting
from support.scripts import passed, plan, report, thought, todo

MODES = ["values", "updates", "messages", "custom", "tasks", "debug"]
MAKE: dict[str, Any] = {
    "react": build_react, "prompt_flow": build_prompt_flow,
    "plan_execute_verify": build_plan_execute_verify,
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
    for seed in range(40):
        rng = random.Random(seed)
        thinks = rng.choice(["", "tags", "blocks", "kwargs"])
        graph = BUILD[name](rng, seed=seed, thinks=thinks)
        told = await parts(graph, rng)
        replay, state = replayed(told)
        replay.agrees(state["messages"])
        texts = [data[0] for ns, mode, data in told if mode == "messages" and not ns]
        drafts += any(m.type == "AIMessageChunk" and not m.chunk_position for m in texts)
        replaced += any(m.type == "remove" for m in texts)
    assert drafts > 30
    assert replaced > 3


@pytest.mark.req("S0-81")
@pytest.mark.parametrize("thinks", ["tags", "blocks", "kwargs"])
@pytest.mark.parametrize("name", BUILD)
async def test_thoughts_stand_beside_the_words_and_no_later_request_holds_them(name, thinks):
    rng = random.Random(1)
    graph = BUILD[name](random.Random(5), seed=1, thinks=thinks)
    _, state = replayed(await parts(graph, rng))
    answer = state["messages"][-1]
    assert [b["type"] for b in answer.content_blocks][:1] == ["reasoning"]
    assert answer.content_blocks[0]["reasoning"].startswith("pondering")
    assert "agent_meta" not in str(answer)
    assert answer.text == state["outcome"]["answer"]


@pytest.mark.req("P-39")
@pytest.mark.parametrize("inside", [True, False])
async def test_embedded_it_shows_drafts_to_those_who_watch_inside(inside):
    for name, build in BUILD.items():
        rng = random.Random(name)
        builder = StateGraph(MessagesState)
        builder.add_node("inner", build(rng, seed=3))
        builder.add_edge(START, "inner")
        outer = builder.compile(checkpointer=InMemorySaver())
        thread: Any = {"configurable": {"thread_id": name}}
        told = [
            one if inside else ((), *one)
            async for one in outer.astream(
                INPUT, thread, stream_mode=["values", "messages"], subgraphs=inside
            )
        ]
        messages = [data[0] for _, mode, data in told if mode == "messages"]
        assert any(m.type == "AIMessageChunk" for m in messages) == inside
        replay, final = Replay(), told[-1][2]["messages"]
        replay.begin(final[:1])
        for message in messages:
            replay.take(message)
        assert {m.id: m.text for m in final}.items() <= {m.id: m.text for m in replay.whole}.items()


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
@pytest.mark.parametrize("cleared", [True, False])
@pytest.mark.parametrize("name", BUILD)
async def test_an_answer_that_a_hook_rejects_gives_way_to_the_next_one(name, cleared):
    rejected: list[str] = []

    def judge(given: Any) -> Any:
        if rejected:
            return {}
        rejected.append(given["prompt_response"])
        return {"decision": "deny", "reason": "say it shorter", "clearContext": cleared}

    script = {
        "thought": [thought("Ada owns it."), thought("It is Ada.")],
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

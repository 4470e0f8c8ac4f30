"""A plan through every way in: each door of the graph, many threads, graphs of somebody else."""

import asyncio
import operator
from typing import Annotated, Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command
from typing_extensions import TypedDict

from loopwright import open_durability
from support.flows import (
    ASK,
    THREAD,
    World,
    cited,
    ended,
    flow,
    look,
    planning,
    put,
    said,
    step,
    waiting,
)

DOORS = ["invoke", "ainvoke", "stream", "astream", "batch", "abatch"]


@pytest.mark.parametrize("door", DOORS)
async def test_the_same_plan_runs_through_every_door_and_its_question_can_be_answered(door):
    world = World()
    plan = flow(
        step("r", arguments={"what": "r"}), step("w", "put", arguments={"what": "{{r.of}}"})
    )
    policy = [{"tool": "put", "action": "ask"}]
    graph = world.graph(planning(plan), policy=policy, checkpointer=InMemorySaver())
    await through(door, graph, said())
    assert len((await graph.aget_state(THREAD)).interrupts) == 1
    result = await through(door, graph, Command(resume="approve"))
    assert ended(result["outcome"]) == ("complete", "GOAL")
    assert cited(result["outcome"]["answer"]) == ["r", "w"]
    assert world.calls == [("look", "r"), ("put", "r")]


async def through(door, graph, given):
    """Run the graph by one of its methods; the sync ones in a thread of their own."""
    if door == "astream":
        return [chunk async for chunk in graph.astream(given, THREAD, stream_mode="values")][-1]
    if door == "stream":
        run = graph.stream
        chunks = await asyncio.to_thread(lambda: [*run(given, THREAD, stream_mode="values")])
        return chunks[-1]
    many = door.endswith("batch")
    arguments = ([given], [THREAD]) if many else (given, THREAD)
    method = getattr(graph, door)
    result = (
        await method(*arguments)
        if door.startswith("a")
        else await asyncio.to_thread(method, *arguments)
    )
    return result[0] if many else result


class Outer(TypedDict, total=False):
    """A state that is none of ours."""

    ends: Annotated[list[Any], operator.add]


def around(*graphs, saver=None, then=lambda: None):
    """A graph of somebody else that calls these side by side, each in a node of its own."""
    builder = StateGraph(Outer)
    for n, graph in enumerate(graphs):

        async def node(_, graph=graph):
            result = await graph.ainvoke(said())
            then()
            return {"ends": [ended(result["outcome"])]}

        builder.add_node(f"n{n}", node)
        builder.add_edge(START, f"n{n}")
    return builder.compile(checkpointer=saver)


PAIR = flow(look("r", "r"), put("w", "{{r.of}}"))


@pytest.mark.req("P-35")
async def test_two_plans_side_by_side_in_one_thread_each_get_their_own_answer(tmp_path):
    """Equal plans, equal ids, equal arguments: neither takes the other's write for its own."""
    first, second = World(), World()
    with open_durability(f"sqlite:///{tmp_path / 't.db'}") as durability:
        graphs = [
            world.graph(planning(PAIR), policy=ASK, journal=durability.journal)
            for world in (first, second)
        ]
        outer = around(*graphs, saver=durability.checkpointer)
        result = await outer.ainvoke({}, THREAD)
        assert waiting(result) == ["w", "w"]
        one, other = (question.id for question in result["__interrupt__"])
        result = await outer.ainvoke(Command(resume={one: "approve"}), THREAD)
        assert len(first.done("put") + second.done("put")) == 1
        assert waiting(result) == ["w"]
        result = await outer.ainvoke(Command(resume={other: "reject"}), THREAD)
    assert len(first.done("put") + second.done("put")) == 1
    assert sorted(map(tuple, result["ends"])) == [("blocked", "DENIED"), ("complete", "GOAL")]


async def test_without_a_saver_around_it_nobody_is_asked_and_nothing_is_written():
    world = World()
    outer = around(world.graph(planning(PAIR), policy=ASK))
    assert (await outer.ainvoke({}))["ends"] == [("blocked", "NOT_INTERACTIVE")]
    assert world.calls == [("look", "r")]


@pytest.mark.req("P-04", "P-06")
async def test_a_failure_of_the_graph_around_a_finished_plan_runs_nothing_of_it_again(tmp_path):
    world, failures = World(), [ValueError("the node is broken")]

    def then():
        if failures:
            raise failures.pop()

    with open_durability(f"sqlite:///{tmp_path / 't.db'}") as durability:
        graph = world.graph(planning(PAIR), journal=durability.journal)
        outer = around(graph, saver=durability.checkpointer, then=then)
        with pytest.raises(ValueError, match="broken"):
            await outer.ainvoke({}, THREAD)
        assert (await outer.ainvoke(None, THREAD))["ends"] == [("complete", "GOAL")]
    assert world.calls == [("look", "r"), ("put", "r")]

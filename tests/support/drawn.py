"""Random threads with a question, an update by hand and a fork, and all that they tell."""

import json
from typing import Any, Literal

from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langgraph.graph import START
from langgraph.types import Command, Overwrite, interrupt

from loopwright.run.graph import LoopBuilder
from support.toy_graphs import Everything, on

NAMES = st.sampled_from("abc")
updates = st.fixed_dictionaries(
    {},
    optional={
        "messages": st.lists(
            NAMES.map(lambda name: AIMessage("x", id=name))
            | NAMES.map(lambda name: RemoveMessage(id=name)),
            max_size=2,
        ),
        "evidence": st.lists(st.fixed_dictionaries({"id": NAMES}), max_size=2)
        | st.lists(st.fixed_dictionaries({"id": NAMES}), max_size=1).map(Overwrite),
        "log": st.lists(NAMES, max_size=1),
        "plain": NAMES | st.none(),
    },
)


def drawn(left: list[dict[str, Any]]) -> Any:
    async def node(state: Everything) -> dict[str, Any]:
        return left.pop(0)

    async def ask(state: Everything) -> dict[str, Any]:
        return {"plain": interrupt("which?"), "log": ["answered"]}

    def route(state: Everything) -> Literal["node", "ask"]:
        return "node" if left else "ask"

    builder = LoopBuilder(Everything)
    builder.add_node("node", node)
    builder.add_node("ask", ask)
    builder.add_edge(START, "node")
    builder.add_conditional_edges("node", route)
    return builder


def told(saver: Any, steps: list[dict[str, Any]]) -> list[Any]:
    """All that a thread says of itself, after a question, its answer, an update and a fork."""
    graph = drawn([*steps]).compile(saver)
    graph.invoke({"messages": [HumanMessage("hi", id="h")]}, on("t"))
    seen = [graph.get_state(on("t"))]
    graph.invoke(Command(resume="this", update={"log": ["with it"]}), on("t"))
    graph.update_state(on("t"), {"log": ["by hand"], "plain": "new"}, as_node="ask")
    seen += graph.get_state_history(on("t"))
    fork = [*graph.get_state_history(on("t"))][-2].config
    drawn([{"log": ["forked"]}]).compile(saver).invoke(None, fork)
    seen += graph.get_state_history(on("t"))
    return [
        (one.values, one.next, one.metadata, [(t.name, t.interrupts, t.result) for t in one.tasks])
        for one in seen
    ]


def without_names(told: Any) -> str:
    """Interrupts are named after checkpoints, which no two runs share."""
    values, following, metadata, tasks = told
    asked = [(name, [one.value for one in questions], result) for name, questions, result in tasks]
    return repr((values, following, json.dumps(metadata, sort_keys=True), asked))

"""What a server's verbs leave behind while a run still saves."""

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from loopwright import ScriptedModel, ThreadIncompatible, build_react
from support.visiting import RULES


@pytest.mark.req("W-94")
@pytest.mark.parametrize("before", [0, 1, 2], ids=["new thread", "after a turn", "after two"])
async def test_a_run_that_a_server_takes_back_while_it_saves_leaves_its_thread_whole(before):
    """As `langgraph dev` does it: the run's checkpoints are deleted, then it ends."""
    saver, served = InMemorySaver(), {"assistant_id": "react"}
    on = {"configurable": {"thread_id": "t", **served}}
    taken: list[str] = []
    places = ("Aral", "Brno")

    async def visit(place: str) -> str:
        """See a place."""
        if place == "Taken":
            kept = saver.storage["t"][""]
            for name, (_, about, _) in [*kept.items()]:
                if saver.serde.loads_typed(about).get("run_id") == "r":
                    del kept[name]
                    taken.append(name)
        return f"{place} is as it was"

    graph = build_react(model=ScriptedModel(RULES["react"]), tools=[visit], checkpointer=saver)
    for number in range(before):
        await graph.ainvoke(
            {"messages": f"Visit {places[number]}."}, on | {"metadata": {"run_id": f"r{number}"}}
        )
    stream = graph.astream(
        {"messages": "Visit Taken."}, on | {"metadata": {"run_id": "r"}}, stream_mode="updates"
    )
    async for _ in stream:
        if taken:
            await stream.aclose()
            break
    with pytest.raises(ThreadIncompatible):
        await graph.aget_state(on)
    values = await graph.ainvoke({"messages": "Visit Next."}, on | {"metadata": {"run_id": "s"}})
    said = [message.text for message in values["messages"] if message.type == "human"]
    assert said == [*(f"Visit {places[number]}." for number in range(before)), "Visit Next."]
    assert values["outcome"]["status"] == "complete"

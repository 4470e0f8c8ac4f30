"""What a server tells while it runs, written to a file by a process that may be killed."""

import json

from langgraph.types import Command

from support import killed

THREAD = {"configurable": {"thread_id": "t"}}
GO = {"messages": [{"role": "user", "content": "Do it.", "id": "m"}]}


def state_of(graph):
    values = graph.get_state(THREAD).values
    return {"events": values.get("events", {}), "ui": values.get("ui", [])}


def graph_told(world, kill, durability):
    return killed.graph_of(world, kill, durability)


def drive_told(graph, world, config, context):
    """As `killed.drive`, with everything the server tells written to a file as it is told."""
    with (world.folder / "stream").open("a") as file:

        def book(kind, what):
            file.write(json.dumps([kind, what]) + "\n")
            file.flush()

        while (state := graph.get_state(THREAD)).next or not state.created_at:
            book("begin", state_of(graph))
            given = None if state.created_at else GO
            if state.interrupts:
                (question, *_) = state.interrupts
                name = question.value["action_requests"][0]["name"]
                given = Command(resume={question.id: killed.answer_to(name)})
            for chunk in graph.stream(given, config, context=context, stream_mode="custom"):
                book("chunk", chunk)
            book("end", state_of(graph))
    return {}

"""LangGraph's private names: each string of its inside that this package relies on.

Its public surface has no word for them. Each has a test that fails when LangGraph renames it.
"""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import id as ids
from langgraph.pregel._messages import (
    StreamMessagesHandler,
    StreamMessagesHandlerV2,
    graph_namespace,
)
from langgraph.pregel.protocol import StreamProtocol

SAVER: Final = "__pregel_checkpointer"
"""The saver of a run, in its `configurable`."""

RUNTIME: Final = "__pregel_runtime"
"""What a parent graph hands to the graph it runs as a node, in `configurable`."""

RESUMING: Final = "__pregel_resuming"
"""Whether that parent resumes, in `configurable`."""

RESUME_MAP: Final = "__pregel_resume_map"
"""The parent's answers by the ids of their questions, in `configurable`."""

READ: Final = "__pregel_read"
"""How whatever runs inside a node reads its graph's channels, in `configurable`; see `routing`."""

STREAM: Final = "__pregel_stream"
"""Where a graph inside a node streams to, in `configurable`: a `StreamProtocol`, where its run was
asked to stream the graphs inside it as well."""

TASK: Final = "__pregel_task_id"
"""In `configurable` of whatever runs inside a node."""

SCRATCHPAD: Final = "__pregel_scratchpad"
"""In `configurable` of whatever runs inside a node, an object of the class below."""

SCRATCHPAD_CLASS: Final = "PregelScratchpad"

PREFIX: Final = "__pregel_"
"""How its keys in `configurable` begin that no caller may set."""

NODE_FINISHED: Final = "__pregel_node_finished"
"""A function that its server has called whenever a node ends, in `configurable` of a run."""

STREAM_FORMATS: Final = ("__pregel_stream_messages_v2", "__pregel_strict_resume")
"""Flags for the outermost run, which its doors and servers set."""

INNER_COORDINATES: Final = ("checkpoint_ns", "checkpoint_map")
"""Where a graph inside a node is saved, and which checkpoints of the graphs around it count."""

COORDINATES: Final = ("thread_id", "checkpoint_ns", "checkpoint_id", "checkpoint_map")
"""A config that gives one of these in `configurable` stands alone; any other one refines the
config of the node it is called from."""

SERVER: Final = ("assistant_id", "graph_id", "langgraph_auth_user", "langgraph_auth_user_id")
"""What its server puts into `configurable`; a client of it can set or remove none of them."""

SERVER_PACKAGES: Final = ("langgraph_api", "langgraph_runtime")
"""How the packages begin that its savers come from; of a read of a state nothing else tells."""

NULL_TASK: Final = "00000000-0000-0000-0000-000000000000"
"""Task id of writes that belong to the checkpoint itself: they are applied first thing."""

RETURN: Final = "__return__"
"""The channel of what a `@task` returned, until its node has ended."""

ERROR_SOURCE: Final = "__error_source_node__"
"""The channel that names the node of an error."""

BRANCH: Final = "branch:to:"
"""How the channel begins that makes a node run."""

JOIN: Final = "join:"
"""How the channel begins in which a node waits for several others."""

THREADS_SQL: Final = (
    "SELECT thread_id, type, max(checkpoint_id) FROM checkpoints WHERE checkpoint_ns = ''"
    " GROUP BY thread_id ORDER BY 3 DESC"
)
"""The threads in the tables of its SQLite saver, newest first, and how the newest step is saved."""

KIND_SQL: Final = (
    "SELECT type FROM checkpoints WHERE thread_id = :thread AND checkpoint_ns = ''"
    " ORDER BY checkpoint_id DESC LIMIT 1"
)
"""How the newest step of a thread is saved there."""


_BEGAN: Final = datetime(1582, 10, 15, tzinfo=UTC)
"""The time of an id counts from the day on which the calendar of today began."""

_BY_TIME: Final = 6


def build_task_namespace(node: str, step: str, task: str) -> str:
    """The checkpoint namespace of a graph that a `@task` runs inside a node; by names and ids."""
    return f"{node}:{step}|task:{task}"


def restrict_typed_output(graph: Any) -> None:
    """Let `version="v2"` make the typed output of a graph whose state holds more than its output.

    LangGraph would give the output's class all the state.
    """
    schema, mapper = graph.builder.output_schema, graph._output_mapper
    if mapper is not None and is_dataclass(schema):
        known = {one.name for one in fields(schema)}
        graph._output_mapper = lambda v: mapper({k: x for k, x in v.items() if k in known})


def mute_values_stream(config: RunnableConfig) -> RunnableConfig:
    """What to run a graph inside a node with, so that its states stay inside.

    A chat front end takes each state that it is streamed for the thread's own, and shows it.
    """
    if not isinstance(stream := config["configurable"].get(STREAM), StreamProtocol):
        return {}
    hidden = StreamProtocol(stream.__call__, stream.modes - {"values"})
    return {"configurable": {STREAM: hidden}}


def find_message_handlers(config: Mapping[str, Any]) -> list[StreamMessagesHandler]:
    """The runs that stream `messages` of the node with this config.

    None if one uses LangGraph's experimental format, which has no chunks.
    """
    callbacks = config.get("callbacks")
    handlers = getattr(callbacks, "handlers", callbacks) or ()
    found = [one for one in handlers if isinstance(one, StreamMessagesHandler)]
    if not found or any(isinstance(one, StreamMessagesHandlerV2) for one in found):
        return []
    place = graph_namespace(config["metadata"])
    return [one for one in found if one.subgraphs or not place or place == one.parent_ns]


def parse_checkpoint_time(checkpoint: str) -> datetime | None:
    """When a checkpoint was made, as its id tells; None where it does not."""
    try:
        there = ids.UUID(checkpoint)
    except ValueError:
        return None
    return _BEGAN + timedelta(microseconds=there.time // 10) if there.version == _BY_TIME else None


def advance_checkpoint_ids(checkpoint: str) -> float:
    """Have this process number its checkpoints after this one, also if its clock is behind.

    Ids are times, and a saver takes the greatest for the newest. LangGraph makes each id of a
    process greater than the last one, which it remembers under a private name: there is no public
    way to tell it where to begin.

    Returns:
        How many seconds the id lies ahead of this clock; 0 if it does not, or is no time.
    """
    try:
        there = ids.UUID(checkpoint)
    except ValueError:
        return 0.0
    here = ids.uuid6()
    if there.version != here.version or there.time < here.time:
        return 0.0
    ids._last_v6_timestamp = there.time  # type: ignore[assignment]  # LangGraph types it as None
    return float(there.time - here.time) / 1e7

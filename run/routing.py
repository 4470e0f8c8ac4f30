"""Routers read the state as their node leaves it, at the price of what the node has written.

LangGraph copies every channel for them, and folds what is written into the copies.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from langchain_core.runnables import RunnableConfig
from langgraph.channels.base import BaseChannel
from langgraph.channels.binop import BinaryOperatorAggregate
from langgraph.channels.delta import DeltaChannel
from langgraph.channels.last_value import LastValue
from langgraph.pregel._read import ChannelRead

from ..store.base import langgraph_keys as keys

_LASTING: Final = (LastValue, BinaryOperatorAggregate, DeltaChannel)
"""Channels that keep their value in a step that does not write them."""


def read_less(nodes: Mapping[str, Any]) -> None:
    """Have the routers of a compiled graph's nodes read what is new, and nothing twice."""
    for node in nodes.values():
        for writer in node.writers:
            reader = getattr(writer, "kwargs", {}).get("reader")
            if isinstance(reader, partial) and reader.func is ChannelRead.do_read:
                about = reader.keywords
                writer.kwargs["reader"] = partial(_read, about["select"], about["mapper"])


def _read(select: list[str], mapper: Any, config: RunnableConfig) -> Any:
    read = config["configurable"][keys.READ]
    _, channels, _, task = read.args
    values: dict[str, Any] = read(select, fresh=False)
    written: dict[str, list[Any]] = {}
    for name, value in task.writes:
        written.setdefault(name, []).append(value)
    for name in select:
        channel: BaseChannel[Any, Any, Any] | None = channels.get(name)
        if channel is None or (name not in written and isinstance(channel, _LASTING)):
            continue
        after = channel.copy()
        after.update(written.get(name, ()))
        values.pop(name, None)
        if after.is_available():
            values[name] = after.get()
    return mapper(values) if mapper else values

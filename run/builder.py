"""What a graph's builder knows of what surrounds its runs, and what it puts around each node."""

import difflib
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import is_dataclass, replace
from functools import partial, wraps
from inspect import iscoroutinefunction
from types import MappingProxyType
from typing import Any, Final, Self, get_type_hints

from langchain_core.runnables import RunnableConfig
from langgraph.channels.base import BaseChannel
from langgraph.channels.binop import BinaryOperatorAggregate
from langgraph.channels.delta import DeltaChannel
from langgraph.channels.last_value import LastValue
from langgraph.graph import StateGraph
from langgraph.pregel._read import ChannelRead
from langgraph.types import Command
from langgraph.typing import ContextT, InputT, OutputT, StateT

from ..state.calls import NOWHERE
from ..state.channels import channels_of, pack_fields, read_state, schema_of
from ..state.context import Context, OpenSession
from ..state.errors import StateKeyError
from ..state.loop import FOLDED, drop_unchanged
from ..state.outcome import Quote
from ..store.base import langgraph_keys as keys
from ..store.journal.port import Fence
from ..store.journal.recorder import KNOWN_IN, Recorder
from ..store.locks.control import stop_at_wish
from ..store.locks.thread_locks import LockedBy
from .background import yield_to_others
from .message_stream import stream_drafts

Bounded = Callable[[object], object]
Fenced = Callable[[str], Awaitable[Fence | None]]
Node = Callable[..., Awaitable[Any]]

_PLAIN: Final[LastValue[Any]] = LastValue(object)
"""What a field of a record is like."""

_LASTING: Final = (LastValue, BinaryOperatorAggregate, DeltaChannel)
"""Channels that keep their value in a step that does not write them."""


class CheckedStateGraph(StateGraph[StateT, ContextT, InputT, OutputT]):
    """A StateGraph that refuses what LangGraph would silently lose, with what its runs need.

    Attributes:
        writes: says whether tools that change the world are bound; then every step is saved
            before the next one starts.
        scratch: nodes whose subgraphs' checkpoints are of no use once a turn has ended.
        locked_by: gives what locks threads, where that is not the database they are saved in;
            called in a worker thread.
        session: what is put around each run of the whole graph, if anything.
        fenced: returns the fencing token of a locked thread; None where no other process could
            have locked it.
        graph: which one it is, of those whose roles are known.
        whole: all its nodes are its own, so that a thread which has been elsewhere is another's.
        served: a server loads the graph, so that whoever runs it is a client.
        bounded: brings a client's settings under those of the operator.
        quoted: says what a turn may take at most under its settings.
        told: puts around each node what numbers and keeps its events.
        inbox: where wishes of the graph's threads are recorded; nobody wishes anything of one
            without.
        borders: nodes before which a message that steers the turn is taken up.
        ends_itself: its nodes end it where the turn around it is stopped.
        inside: by the names of nodes, the whole graphs that they run for its turns.
        tape: what keeps its runs on record, if anything.
        for_customers: who is no operator gets of its threads and runs what
            `stream/customer_view.py` shows.
    """

    writes: Callable[[], bool] = staticmethod(lambda: False)
    scratch: tuple[str, ...] = ()
    locked_by: LockedBy | None = None
    session: OpenSession | None = None
    fenced: Fenced | None = None
    graph: str = ""
    whole: bool = False
    served: bool = False
    bounded: Bounded | None = None
    quoted: Callable[[Context], Awaitable[Quote]] | None = None
    told: Callable[[Node], Node] | None = None
    inbox: Recorder | None = None
    borders: Collection[str] = ()
    ends_itself: bool = False
    inside: Mapping[str, Any] = MappingProxyType({})
    tape: Any = None
    for_customers: bool = False

    @property
    def writable_keys(self) -> Collection[str]:
        """What its nodes may write: the fields of its state, or its channels where it has none."""
        return self.channels if self.fields is None else channels_of(self.fields)

    def pack_update(self, update: Any) -> Any:
        """An update of fields, as one of channels; anything else stays as it is."""
        if self.fields is None or not isinstance(update, Mapping):
            return update
        return pack_fields(self.fields, update)

    def __init__(
        self, state: type[StateT], context_schema: type[ContextT] | None = None, **options: Any
    ) -> None:
        """Draw on a state; one whose fields are in records has a channel for each record."""
        fields: type = state
        self.fields = fields if hasattr(state, "record") else None
        schema: Any = state if self.fields is None else schema_of(fields)
        super().__init__(schema, context_schema, **options)

    def add_node(self, node: Any, action: Any = None, **options: Any) -> Self:
        """Add a node; see LangGraph, which drops a key that the state does not have.

        An async function that returns such a key raises StateKeyError. From the outside in: it
        reads and writes fields, not channels, its events are numbered and kept, it heeds who stops
        or steers the turn, what it returns is spelled right and written where it changes something,
        and its messages are told as they are written.
        """
        if iscoroutinefunction(getattr(given := action, "func", action)):
            action = _check_update_keys(
                str(node), stream_drafts(action), self.writable_keys, self.channels
            )
            action = stop_at_wish(action) if node in self.borders else action
            action = self.told(action) if self.told else action
            if self.fields is not None:
                action = _adapt_to_fields(action, self.fields)
                options.setdefault("input_schema", self.state_schema)
            action.__wrapped__ = given  # LangGraph reads its bytecode, to find graphs in it
        return super().add_node(node, action, **options)

    def add_conditional_edges(self, source: str, path: Any, path_map: Any = None) -> Self:
        """Route by a function; see LangGraph, which would call a sync one in a worker thread."""
        return super().add_conditional_edges(
            source, _make_async_router(path, self.fields), path_map
        )


def _adapt_to_fields(action: Node, state: type) -> Node:
    """A node that takes the state as its fields, and whose update of them is packed."""

    @wraps(action)
    async def run(values: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
        update = await action(read_state(state, values), *args, **kwargs)
        if isinstance(update, Command) and isinstance(update.update, Mapping):
            return replace(update, update=pack_fields(state, update.update))
        return pack_fields(state, update) if isinstance(update, Mapping) else update

    return run


def _check_update_keys(
    node: str, action: Callable[..., Any], known: Collection[str], channels: Mapping[str, Any]
) -> Callable[..., Any]:
    """A node that begins in its turn; StateKeyError where it returns a key its state lacks.

    It writes what changes something: every key written is a row in the database.
    """

    @wraps(action)
    async def run_checked(state: Any, *args: Any, **kwargs: Any) -> Any:
        await yield_to_others()
        update = await action(state, *args, **kwargs)
        changed = update.update if isinstance(update, Command) else update
        for key in changed if isinstance(changed, Mapping) else ():
            if key not in known:
                raise StateKeyError(_describe_unknown_key(node, key, list(known)))
        if not (isinstance(update, dict) and is_dataclass(state)):
            return update
        known_in = update.get("known_in", getattr(state, "known_in", NOWHERE))
        if known_in != NOWHERE:
            update["known_in"] = KNOWN_IN.get(known_in)
        # A channel of another kind may fold what is written into what is there, or forget it.
        other = {k: v for k, v in update.items() if type(channels.get(k, _PLAIN)) is not LastValue}
        return drop_unchanged(state, update) | {k: v for k, v in other.items() if k not in FOLDED}

    return run_checked


def _describe_unknown_key(node: str, key: str, known: list[str]) -> str:
    near = difflib.get_close_matches(key, known, n=1)
    meant = f" Did it mean {near[0]!r}?" if near else ""
    return f"The node {node!r} returned the key {key!r}, which its graph's state lacks.{meant}"


def _make_async_router(path: Any, fields: type | None) -> Any:
    """A sync router as an async function, which runs where it is called: it only reads state."""
    if iscoroutinefunction(path) or not hasattr(path, "__name__"):
        return path

    async def route(state: Any) -> Any:
        return path(state if fields is None else read_state(fields, state))

    route.__name__ = path.__name__
    # LangGraph reads from it where the edges lead to; the state's type is not its channels.
    route.__annotations__ = {"return": get_type_hints(path).get("return")}
    return route


def optimize_reads(nodes: Mapping[str, Any]) -> None:
    """Let the routers of a compiled graph read only what is new.

    LangGraph copies every channel for a router, and applies the node's writes to the copies. This
    costs only what the node has written.
    """
    for node in nodes.values():
        for writer in node.writers:
            reader = getattr(writer, "kwargs", {}).get("reader")
            if isinstance(reader, partial) and reader.func is ChannelRead.do_read:
                about = reader.keywords
                writer.kwargs["reader"] = partial(_read_channels, about["select"], about["mapper"])


def _read_channels(select: list[str], mapper: Any, config: RunnableConfig) -> Any:
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

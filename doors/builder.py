"""The builder whose graphs are LoopGraphs; it also refuses what LangGraph would silently lose."""

import difflib
from collections.abc import Callable, Mapping
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any, Self, cast

from langgraph.graph import StateGraph
from langgraph.types import Checkpointer, Command
from langgraph.typing import ContextT, InputT, OutputT, StateT

from ..state.errors import StateKeyError
from ..state.session import OpenSession
from .graph import LoopGraph, nothing_writes
from .locks import LockedBy


def _unknown(node: str, key: str, known: list[str]) -> str:
    near = difflib.get_close_matches(key, known, n=1)
    meant = f" Did it mean {near[0]!r}?" if near else ""
    return f"The node {node!r} returned the key {key!r}, which its graph's state lacks.{meant}"


def _at_once(path: Any) -> Any:
    """A sync router as an async function, which runs where it is called: it only reads state."""
    if iscoroutinefunction(path) or not hasattr(path, "__name__"):
        return path

    @wraps(path)
    async def route(state: Any) -> Any:
        return path(state)

    return route


class LoopBuilder(StateGraph[StateT, ContextT, InputT, OutputT]):
    """A StateGraph that compiles to a LoopGraph.

    Attributes:
        writes: what `compile` hands to the graph, also where an engine compiles the builder.
        scratch: likewise.
        locked_by: likewise.
        session: likewise.
    """

    writes: Callable[[], bool] = staticmethod(nothing_writes)
    scratch: tuple[str, ...] = ()
    locked_by: LockedBy | None = None
    session: OpenSession | None = None

    def add_node(self, node: Any, action: Any = None, **options: Any) -> Self:
        """Add a node; see LangGraph, which drops a key that the state does not have.

        An async function that returns such a key raises StateKeyError.
        """
        if iscoroutinefunction(getattr(action, "func", action)):
            action = self._spelled_right(str(node), action)
        return super().add_node(node, action, **options)

    def _spelled_right(self, node: str, action: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(action)
        async def checked(*args: Any, **kwargs: Any) -> Any:
            update = await action(*args, **kwargs)
            changed = update.update if isinstance(update, Command) else update
            for key in changed if isinstance(changed, Mapping) else ():
                if key not in self.channels:
                    raise StateKeyError(_unknown(node, key, list(self.channels)))
            return update

        return checked

    def add_conditional_edges(self, source: str, path: Any, path_map: Any = None) -> Self:
        """Route by a function; see LangGraph, which would call a sync one in a worker thread."""
        return super().add_conditional_edges(source, _at_once(path), path_map)

    def compile(
        self,
        checkpointer: Checkpointer = None,
        *,
        writes: Callable[[], bool] | None = None,
        **options: Any,
    ) -> LoopGraph[StateT, ContextT, InputT, OutputT]:
        """Compile; see LangGraph.

        Args:
            checkpointer: where threads are saved; sync-only savers will do.
            writes: says whether tools that change the world are bound.
            options: LangGraph's other arguments.
        """
        compiled = super().compile(checkpointer, **options)
        # LangGraph names the class it constructs; the instance is complete, only its doors differ.
        compiled.__class__ = LoopGraph
        graph = cast("LoopGraph[StateT, ContextT, InputT, OutputT]", compiled)
        graph.writes = writes or self.writes
        graph.scratch, graph.locked_by = self.scratch, self.locked_by
        graph.session = self.session
        graph.checkpointer, graph.store = graph.checkpointer, graph.store
        return graph

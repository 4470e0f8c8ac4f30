"""A compiled graph that can be copied whole, and says what it takes and gives."""

from collections.abc import Mapping
from typing import Any, Self

from langchain_core.runnables import RunnableConfig
from langgraph.graph.state import CompiledStateGraph
from langgraph.typing import ContextT, InputT, OutputT, StateT
from pydantic import TypeAdapter

from ..state.context import Context
from ..state.form import form_of


class Compiled(CompiledStateGraph[StateT, ContextT, InputT, OutputT]):
    """A graph whose schemas are those of its state's types.

    LangGraph makes them of the channels, and a channel of deltas knows of a list and no more.
    """

    def copy(self, update: dict[str, Any] | None = None) -> Self:
        """A twin with some attributes replaced."""
        twin = super().copy(update)
        # The constructor drops what compile() sets after it (output mappers, the allowlist).
        kept = {name: value for name, value in vars(self).items() if name not in (update or {})}
        vars(twin).update(kept)
        return twin

    def get_input_jsonschema(self, config: RunnableConfig | None = None) -> dict[str, Any]:  # noqa: ARG002 - LangGraph's signature
        """What a caller gives."""
        return TypeAdapter(self.builder.input_schema).json_schema()

    def get_output_jsonschema(self, config: RunnableConfig | None = None) -> dict[str, Any]:  # noqa: ARG002 - LangGraph's signature
        """What a caller gets."""
        return TypeAdapter(self.builder.output_schema).json_schema()

    def get_context_jsonschema(self) -> dict[str, Any] | None:
        """The settings that this graph reads, as a form."""
        if self.context_schema is not Context:
            return super().get_context_jsonschema()
        inside = getattr(self.builder, "inside", {}).items()
        nodes = {(node, node) for node in self.builder.nodes}
        nodes |= {(node, name) for name, one in inside for node in one.builder.nodes}
        return form_of(nodes, getattr(self.builder, "graph", ""))


async def saved_values(graph: Any, configurable: Mapping[str, Any]) -> dict[str, Any]:
    """What a graph that runs inside another one has in its state, as far as it is saved.

    Its own door refuses the keys that lead there.
    """
    state = await CompiledStateGraph.aget_state(graph, {"configurable": {**configurable}})
    return {k: [*v] if isinstance(v, list) else v for k, v in state.values.items()}

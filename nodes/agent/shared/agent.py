"""One agent as its nodes have it: what it is, and the live objects narrowed to it."""

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from langgraph.runtime import Runtime

from ....models.ask_value import ResultSchema
from ....models.choice import window_of
from ....state.agent import DELEGATE, AgentDefinition, AgentState, turn_name
from ....state.context import Context
from ....state.snapshot import TARGET_SHARE, UNKNOWN_WINDOW
from ....state.todo_list import WRITE_TODOS
from ....tools.catalog import CatalogTool, OwnTools
from ....turn.scope import RunScope, make_scope
from ...parts import Parts
from ..tools.complete_task import complete_task
from ..tools.delegate_to_agent import Team, delegate_to_agent
from ..tools.memory import build_memory_tools

_RESERVED: Final = frozenset({DELEGATE, WRITE_TODOS})
"""Names that mean something in the loop of every agent, also of one that has no such tool."""
_USED: Final = 0.9
"""How much of what its model takes a request may have: the answer has to fit, too."""


@dataclass(frozen=True)
class Agent:
    """An agent.

    Attributes:
        definition: What it is.
        parts: The graph's live objects, with the tools this agent may call.
        output: What its output must be; None where it has none.
        team: Whom it may delegate to.
    """

    definition: AgentDefinition
    parts: Parts
    output: ResultSchema | None
    team: Team

    @classmethod
    def of(
        cls,
        definition: AgentDefinition,
        parts: Parts,
        own: OwnTools = tuple,
        team: Team = MappingProxyType({}),
    ) -> "Agent":
        """An agent with the tools of the package that it has beside those for its team and end.

        Raises:
            SettingsError: Its output is no schema, or a tool has the name of one of ours.
        """
        wanted = definition.output
        output = None if wanted is None else ResultSchema.of(wanted, "output")

        def list_tools() -> list[CatalogTool]:
            complete = complete_task(output, definition.output_name)
            return [
                *own(),
                *([delegate_to_agent(team)] if team else []),
                *build_memory_tools(),
                complete,
            ]

        toolbox = parts.toolbox.narrow(
            definition.tools, list_tools, read_only=definition.read_only, reserved=_RESERVED
        )
        return cls(definition, replace(parts, toolbox=toolbox), output, team)

    @property
    def complete(self) -> CatalogTool:
        """Its `complete_task`, in the language of the run."""
        return complete_task(self.output, self.definition.output_name)

    async def scope(
        self, state: AgentState, runtime: Runtime[Context], *, turns: int = 0
    ) -> RunScope:
        """What surrounds a node of the agent, `turns` after the newest model turn."""
        scope, tier = await make_scope(state, runtime, self.parts), self.definition.tier
        scope = scope.in_model_turn(turn_name(state.path, state.round + turns) if turns else "")
        if tier is None or "agent" in scope.context.tiers:
            return scope
        tiers = {**scope.context.tiers, "agent": tier}
        return replace(scope, context=scope.context.model_copy(update={"tiers": tiers}))

    def measure_room(self, state: AgentState, context: Context) -> int:
        """Tokens a request may have before its history is compressed."""
        chosen = self.parts.models.find_built("agent", context)
        known = window_of(chosen.model) if chosen else None
        window = known or self.definition.window or UNKNOWN_WINDOW
        budget = min(state.limits.get("context", context.context_budget), int(window * _USED))
        return min(context.context_target, int(budget * TARGET_SHARE))

    @property
    def settings(self) -> dict[str, float]:
        """Settings of its model."""
        heat = self.definition.temperature
        return {} if heat is None else {"temperature": heat}

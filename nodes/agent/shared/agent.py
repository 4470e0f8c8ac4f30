"""One agent as its nodes have it: its tools, and the team that it may delegate to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final, Self

from langgraph.runtime import Runtime

from ....calls.results import ToolResult, make_failure
from ....calls.sending import HandlerScope
from ....models.ask_value import ResultSchema
from ....models.choice import window_of
from ....models.fitting import USED
from ....prompts.prompt import render_section
from ....state.agent import DELEGATE, AgentDefinition, AgentState, turn_name
from ....state.context import Context
from ....state.errors import SettingsError
from ....state.snapshot import TARGET_SHARE, UNKNOWN_WINDOW
from ....state.todo_list import WRITE_TODOS
from ....text.sentences import say
from ....tools.catalog import CatalogTool, OwnTools, make_own_tool
from ....turn.scope import RunScope, make_scope
from ...parts import Parts
from .ask_user import ask_user
from .background_tools import build_background_tools
from .complete_task import complete_task
from .memory_tools import build_memory_tools


@dataclass(frozen=True)
class Member:
    """An agent that others may delegate to, and what it must be given beside its objective."""

    definition: AgentDefinition
    input: ResultSchema | None

    @classmethod
    def of(cls, definition: AgentDefinition) -> Self:
        """The agent; a SettingsError if its input is no schema."""
        wanted = definition.input
        return cls(definition, None if wanted is None else ResultSchema.of(wanted, "input"))

    def build_objective(self, args: Mapping[str, Any]) -> tuple[str, str]:
        """What it is told by these arguments, and what is wrong with them."""
        objective, given = str(args["objective"]), args.get("input") or {}
        if not objective.strip():
            return "", say("objective_missing", agent=self.definition.name)
        if self.input is None:
            return objective, ""
        read, problem = self.input.read(given)
        if problem:
            return "", say("input_does_not_fit", agent=self.definition.name, why=problem)
        return f"{objective}\n\n{render_section('task', read)}", ""

    @property
    def line(self) -> str:
        """How it is offered."""
        wanted = self.input
        needs = "" if wanted is None else say("agent_needs_input", schema=dict(wanted.schema))
        about = " ".join(filter(None, [self.definition.description.strip(), needs]))
        return f"- {self.definition.name}: {about}".rstrip(": ")


Team = Mapping[str, Member]
"""By name: whom an agent may delegate to."""


def team_of(agents: Sequence[AgentDefinition]) -> Team:
    """The agents by name; a SettingsError if two have the same name or an input is no schema."""
    team = {agent.name: Member.of(agent) for agent in agents}
    if len(team) < len(agents):
        names = [agent.name for agent in agents]
        twice = next(name for name in names if names.count(name) > 1)
        msg = f"Two agents have the name {twice!r}: rename one of them."
        raise SettingsError(msg)
    return team


def select_team(agent: AgentDefinition, team: Team, *, all_of: bool = False) -> Team:
    """Whom an agent may delegate to; with `all_of` everybody, if it names nobody."""
    if unknown := [name for name in agent.agents if name not in team]:
        msg = (
            f"The agent {agent.name!r} may delegate to {unknown[0]!r}, but there is no such agent:"
            f" pass it in agents=; there are {sorted(team)}."
        )
        raise SettingsError(msg)
    return team if all_of and not agent.agents else {name: team[name] for name in agent.agents}


def delegate_to_agent(team: Team, *, beside: bool = True) -> CatalogTool:
    """The tool by which an agent delegates; `beside` allows work in the background."""
    agents = "\n".join(member.line for member in team.values())
    about: dict[str, Any] = {
        "agent_name": {"type": "string", "enum": [*team]},
        "objective": {"type": "string", "minLength": 1, "description": say("delegate_objective")},
    }
    if beside:
        about["background"] = {"type": "boolean", "description": say("delegate_background")}
    if any(member.input is not None for member in team.values()):
        about["input"] = {"type": "object", "description": say("delegate_input")}
    return make_own_tool(
        DELEGATE, say("delegate_tool", agents=agents), about, _refuse_call,
        required=["agent_name", "objective"], idempotent=False,
    )  # fmt: skip


async def _refuse_call(_: Mapping[str, Any], __: HandlerScope) -> ToolResult:
    """A call that a hook wants a human to look at: nobody can, so it is not made."""
    return make_failure(say("delegation_cannot_wait"))


_RESERVED: Final = frozenset({DELEGATE, WRITE_TODOS})
"""Names that mean something in the loop of every agent, also of one that has no such tool."""


@dataclass(frozen=True)
class Agent:
    """An agent: its definition, the live objects with its tools, its output's schema, its team."""

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
        """An agent with the tools of the package for its memory, its team and its end."""
        wanted = definition.output
        output = None if wanted is None else ResultSchema.of(wanted, "output")

        crew = {name: member.definition for name, member in team.items()}

        def list_tools() -> list[CatalogTool]:
            complete = complete_task(output, definition.output_name)
            return [
                *own(),
                *([delegate_to_agent(team), *build_background_tools(crew)] if team else []),
                *build_memory_tools(),
                *([ask_user()] if definition.questions else []),
                complete,
            ]

        toolbox = parts.toolbox.narrow(
            definition.tools, list_tools, read_only=definition.read_only, reserved=_RESERVED,
            mcp=definition.mcp,
        )  # fmt: skip
        if output is not None:
            toolbox.direct = frozenset()  # no tool's result is the output that it must give
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

    def bound_requests(self, state: AgentState, scope: RunScope) -> RunScope:
        """The scope for a request, which its own limits bound, too."""
        most = self._measure_most(state, scope.context)
        return replace(scope, context=scope.context.model_copy(update={"context_budget": most}))

    def _measure_most(self, state: AgentState, context: Context) -> int:
        chosen = self.parts.models.find_built("agent", context)
        known = window_of(chosen.model) if chosen else None
        window = known or self.definition.window or UNKNOWN_WINDOW
        return int(min(state.limits.get("context", context.context_budget), window * USED))

    def measure_budget(self, state: AgentState, context: Context) -> int:
        """Tokens a request may have."""
        chosen = self.parts.models.find_built("agent", context)
        most = self._measure_most(state, context)
        return min(most, chosen.quirks.room or most) if chosen else most

    def measure_room(self, state: AgentState, context: Context) -> int:
        """Tokens a request may have before its history is compressed."""
        return min(context.context_target, int(self.measure_budget(state, context) * TARGET_SHARE))

    @property
    def settings(self) -> dict[str, float]:
        """Settings of its model."""
        heat = self.definition.temperature
        return {} if heat is None else {"temperature": heat}

"""delegate_to_agent: the tool by which an agent gives a piece of work to another one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from ....calls.results import ToolResult, make_failure
from ....calls.sending import HandlerScope
from ....models.ask_value import ResultSchema
from ....prompts.prompt import render_section
from ....state.agent import DELEGATE, AgentDefinition
from ....state.errors import SettingsError
from ....text.sentences import say
from ....tools.catalog import CatalogTool, make_own_tool


@dataclass(frozen=True)
class Member:
    """An agent that others may delegate to, and what it must be given beside its objective."""

    definition: AgentDefinition
    input: ResultSchema | None

    @classmethod
    def of(cls, definition: AgentDefinition) -> Self:
        """The agent.

        Raises:
            SettingsError: Its input is no schema.
        """
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
    """All agents that there are besides the graph's own.

    Raises:
        SettingsError: Two have one name, one delegates to nobody known, or an input is no schema.
    """
    team = {agent.name: Member.of(agent) for agent in agents}
    if len(team) < len(agents):
        names = [agent.name for agent in agents]
        twice = next(name for name in names if names.count(name) > 1)
        msg = f"Two agents have the name {twice!r}: rename one of them."
        raise SettingsError(msg)
    return team


def select_team(agent: AgentDefinition, team: Team, *, all_of: bool = False) -> Team:
    """Those an agent may delegate to; with `all_of` everybody, where it names nobody.

    Raises:
        SettingsError: It names one that is not there.
    """
    if unknown := [name for name in agent.agents if name not in team]:
        msg = (
            f"The agent {agent.name!r} may delegate to {unknown[0]!r}, but there is no such agent:"
            f" pass it in agents=; there are {sorted(team)}."
        )
        raise SettingsError(msg)
    return team if all_of and not agent.agents else {name: team[name] for name in agent.agents}


def delegate_to_agent(team: Team, *, beside: bool = True) -> CatalogTool:
    """The tool of an agent with this team; its calls are run by the node `delegate`.

    With `beside` one may work in the background.
    """
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

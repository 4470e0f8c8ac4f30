"""What the nodes of a desk share: its company, and the live objects of the graph."""

from dataclasses import dataclass, field, replace

from ....policy.desk.company import Company
from ....state.agent import DELEGATE, AgentDefinition
from ...agent.shared.agent import Agent
from ...agent.tools.delegate_to_agent import Team, delegate_to_agent
from ...parts import Parts


@dataclass(frozen=True)
class Desk:
    """A desk.

    Attributes:
        parts: The graph's live objects.
        company: Whose desk it is.
        team: Whom its model may ask; see `pays` in team/consult.py.
    """

    parts: Parts
    company: Company = field(default_factory=Company)
    team: Team = field(default_factory=dict)

    @classmethod
    def of(cls, parts: Parts, company: Company, team: Team) -> "Desk":
        """A desk, whose model may ask this team."""
        if not team:
            return cls(parts, company)
        toolbox = parts.toolbox.narrow(
            None, lambda: [delegate_to_agent(team, beside=False)], reserved=frozenset({DELEGATE})
        )
        return cls(replace(parts, toolbox=toolbox), company, team)

    @property
    def agent(self) -> Agent:
        """The desk as its sub-agents know it."""
        return Agent(AgentDefinition(name="desk"), self.parts, None, self.team)

"""What the nodes of a desk share: its company, and the speakers of messages.

No model may take a colleague's words for its own. Calls that hand over are hidden from it: else a
tool's answer such as "stay silent now" would bind it for ever.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from langchain_core.messages import AIMessage, AnyMessage

from ...calls.call_records import PendingCall, update_call
from ...policy.desk.company import Company
from ...state.agent import DELEGATE, AgentDefinition
from ...state.desk import OPERATOR, DeskUpdate
from ...state.hand_over import HAND_OVER, role_of
from ...state.messages import calls_in
from ...text.sentences import say
from ..agent.shared.agent import Agent, Team, delegate_to_agent
from ..parts import Parts


@dataclass(frozen=True)
class Desk:
    """A desk: the graph's live objects, its company, and the team that its model may ask."""

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


def intercept_hand_over(
    calls: Sequence[PendingCall], company: Company
) -> tuple[list[PendingCall], DeskUpdate]:
    """The calls, a wish to hand over among them answered: hand_off does that, once and whole."""
    by = company.handed_over_by
    wish = next((c for c in calls if c["name"] == by and c["action"] != "error"), None)
    if wish is None:
        return [*calls], DeskUpdate()
    why = str(wish["args"].get("reason") or say("desk_no_progress"))
    reason = say("desk_hands_over")
    answered = [
        update_call(c, action="error", reason=reason) if c["name"] == by else c for c in calls
    ]
    return answered, DeskUpdate(strategy="hand_off", why=why)


def mark_colleagues(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """The conversation as a model is told it: a colleague's words are marked as theirs."""
    gone = {call["id"] for one in messages if role_of(one) == HAND_OVER for call in calls_in(one)}
    return [
        AIMessage(say("desk_colleague_said", words=one.text), id=one.id)
        if role_of(one) == OPERATOR
        else one
        for one in messages
        if role_of(one) != HAND_OVER and getattr(one, "tool_call_id", None) not in gone
    ]

"""What an agent writes, shown while it is written: its words, and the summary it ends with."""

from ....models.drafts import drafted
from ....models.request import Listener
from ....state.agent import COMPLETE_TASK, AgentState, TaskAgentState
from ....turn.end import answer_id
from ....turn.scope import RunScope


def drafts_of(scope: RunScope, state: AgentState, name: str) -> list[Listener]:
    """What hears a model turn whose message will have this id; the graph's own agent answers."""
    words = drafted(scope, name, "agent")
    if not words or not isinstance(state, TaskAgentState):
        return words
    answer = drafted(scope, answer_id(state), "agent", field="summary", call=COMPLETE_TASK)
    return [*words, *answer]

"""What an agent writes, shown while it is written: its words, and the summary it ends with."""

from ....models.drafts import make_draft_listeners
from ....models.request import Listener
from ....state.agent import COMPLETE_TASK, AgentState, TaskAgentState
from ....turn.end import build_answer_id
from ....turn.scope import RunScope


def make_turn_listeners(scope: RunScope, state: AgentState, name: str) -> list[Listener]:
    """What hears a model turn whose message will have this id; the graph's own agent answers."""
    words = make_draft_listeners(scope, name, "agent")
    if not words or not isinstance(state, TaskAgentState):
        return words
    answer = make_draft_listeners(
        scope, build_answer_id(state), "agent", field="summary", call=COMPLETE_TASK
    )
    return [*words, *answer]

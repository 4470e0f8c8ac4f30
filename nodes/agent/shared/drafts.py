"""What an agent writes, shown while it is written: its words, and the summary it ends with."""

from langchain_core.messages import AIMessageChunk

from ....models.drafts import Draft, drafted
from ....models.refusals import Quirks
from ....state.agent import COMPLETE_TASK, AgentState, TaskAgentState
from ....turn.end import answer_id
from ....turn.scope import RunScope


class Both(Draft):
    """Two drafts of one call of a model: of its words, and of the answer in its last call."""

    def __init__(self, *drafts: Draft) -> None:
        """Hand each piece to both."""
        self._drafts = drafts

    def begin(self, quirks: Quirks) -> None:
        """A model is asked, perhaps again."""
        for draft in self._drafts:
            draft.begin(quirks)

    def hear(self, chunk: AIMessageChunk) -> None:
        """Take note of a piece."""
        for draft in self._drafts:
            draft.hear(chunk)


def drafts_of(scope: RunScope, state: AgentState, name: str) -> Draft | None:
    """What hears a model turn whose message will have this id; the graph's own agent answers."""
    words = drafted(scope, name, "agent")
    if words is None or not isinstance(state, TaskAgentState):
        return words
    answer = drafted(scope, answer_id(state), "agent", field="summary", call=COMPLETE_TASK)
    return words if answer is None else Both(words, answer)

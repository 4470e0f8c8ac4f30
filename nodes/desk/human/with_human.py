"""with_human: the thread is a human's, who answers and gives it back; no model is asked."""

from typing import assert_never

from langchain_core.messages import AIMessage
from langgraph.types import interrupt

from ....state.desk import DeskState, DeskUpdate
from ....state.messages import signature
from ....state.questions import Said, question
from ....turn.telling import answered


async def with_human(state: DeskState) -> DeskUpdate:
    """Wait for the human: words are for the customer, an approval gives the thread back.

    A message of the customer in between is kept for them.
    """
    answer = interrupt(
        question("take_over", state.packet, str(state.packet.get("why", "")), answers="settle"),
        response_schema=Said,
    )
    answered(answer.type)
    match answer.type:
        case "respond" | "edit":
            said = AIMessage(answer.message, additional_kwargs=signature("operator"))
            return DeskUpdate(messages=[said])
        case "approve" | "reject":
            return DeskUpdate(owner="bot", packet={}, answer=answer.message, task_completed=True)
        case _:
            assert_never(answer.type)

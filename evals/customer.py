"""A customer whom a model plays (`--model-role customer=…`), and their talk with a desk."""

from typing import TYPE_CHECKING, Final

from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageUser,
    get_model,
)
from inspect_ai.tool import ToolInfo

from ..text.sentences import say

if TYPE_CHECKING:
    from .runs import GraphRuns

HANG_UP: Final = "hang_up"
ROLE: Final = "customer"


async def talk(
    runs: "GraphRuns", who: str, given: list[ChatMessage], words: str, most: int
) -> None:
    """Let the customer answer until they hang up, a human has them, or they wrote `most` times.

    Args:
        runs: The desk.
        who: Who the customer is, what they want, and when they are content.
        given: What they wrote to begin.
        words: What the desk answered.
        most: How often they may write from then on.
    """
    leave = ToolInfo(name=HANG_UP, description=say("customer_hangs_up"))
    seen: list[ChatMessage] = [ChatMessageSystem(content=say("simulated_customer", who=who))]
    # The customer's words are those of an assistant for the model that plays them.
    seen += [ChatMessageAssistant(content=m.text) for m in given if m.role == "user"]
    for _ in range(most):
        if runs.record.handed_over:
            return
        seen.append(ChatMessageUser(content=words))
        reply = (await get_model(role=ROLE).generate(seen, tools=[leave])).message
        if reply.tool_calls or not reply.text.strip():
            return
        seen.append(ChatMessageAssistant(content=reply.text))
        message = ChatMessageUser(content=reply.text)
        runs.messages.append(message)
        words = await runs.take_turn([message])

"""A customer whom a model plays (`--model-role customer=…`), and their talk with a desk."""

from typing import TYPE_CHECKING

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


async def talk(runs: "GraphRuns", who: str, given: list[ChatMessage], words: str) -> None:
    """Let the customer answer the desk until they hang up, a human has them, or after 8 times.

    Args:
        runs: The desk.
        who: Who the customer is, what they want, and when they are content.
        given: What they wrote to begin.
        words: What the desk answered.
    """
    leave = ToolInfo(name="hang_up", description=say("customer_hangs_up"))
    seen: list[ChatMessage] = [ChatMessageSystem(content=say("simulated_customer", who=who))]
    # The customer's words are those of an assistant for the model that plays them.
    seen += [ChatMessageAssistant(content=m.text) for m in given if m.role == "user"]
    for _ in range(8):
        if runs.record.handed_over:
            return
        seen.append(ChatMessageUser(content=words))
        reply = (await get_model(role="customer").generate(seen, tools=[leave])).message
        if reply.tool_calls or not reply.text.strip():
            return
        seen.append(ChatMessageAssistant(content=reply.text))
        written = ChatMessageUser(content=reply.text)
        runs.tools.trace.append(written)
        words = await runs.take_turn([written])

"""Tool traffic told in words, for providers that take none of it where no tools are offered.

Anthropic's API and Bedrock's refuse a conversation with calls and results in it unless the request
defines tools. A phase that must not call any offers none, so it is shown the same in words.
"""

import json
import re
from collections.abc import Sequence
from typing import Final

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from ..state.told import say

# "Requests which include `tool_use` or `tool_result` blocks must define tools",
# "The toolConfig field must be defined when using toolUse and toolResult content blocks".
_NO_TOOLS: Final = re.compile(
    r"must define tools|toolConfig field must be defined|expects the `?tools=?`? param",
    re.IGNORECASE,
)


def wants_tools(error: BaseException, messages: Sequence[BaseMessage]) -> bool:
    """Whether a provider refused a conversation because of the tool traffic in it."""
    return bool(_NO_TOOLS.search(str(error))) and any(map(_is_traffic, messages))


def spelled_out(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """The conversation with each call and each result as words; results as the user's."""
    return [_in_words(message) if _is_traffic(message) else message for message in messages]


def _is_traffic(message: BaseMessage) -> bool:
    if isinstance(message, AIMessage):
        return bool(message.tool_calls or message.invalid_tool_calls)
    return isinstance(message, ToolMessage)


def _in_words(message: BaseMessage) -> BaseMessage:
    if not isinstance(message, AIMessage):
        kind = "result_of" if message.name else "result_of_the_call"
        return HumanMessage(say(kind, tool=message.name, text=message.text), id=message.id)
    calls = [(c["name"], json.dumps(c["args"], ensure_ascii=False)) for c in message.tool_calls]
    calls += [(c["name"] or "", c["args"] or "") for c in message.invalid_tool_calls]
    told = [say("call_of", tool=name, arguments=arguments) for name, arguments in calls]
    return AIMessage("\n".join([*filter(None, [message.text]), *told]), id=message.id)

"""What providers refuse in a request's messages, as a checker."""

from langchain_core.messages import AIMessage, ToolMessage


def problems(messages):
    """Everything wrong with the messages of one request, as a list of texts."""
    kinds = [message.type for message in messages]
    found = ["a system message that is not the first"] if "system" in kinds[1:] else []
    if next((kind for kind in kinds if kind != "system"), "") != "human":
        found.append("the first message is not the user's")
    open_ = []
    for place, message in enumerate(messages):
        wrong, open_ = _follows(message, open_)
        found += [f"{place}: {why}" for why in wrong]
    return found + ([f"the end: calls without an answer: {open_}"] if open_ else [])


def _follows(message, open_):
    """What is wrong with a message behind calls without an answer, and those it leaves."""
    if isinstance(message, ToolMessage):
        fits = message.tool_call_id in open_
        left = [one for one in open_ if one != message.tool_call_id]
        return ([] if fits else ["an answer without a call"]), left
    wrong = [f"calls without an answer: {open_}"] if open_ else []
    calls = [call["id"] for call in message.tool_calls] if isinstance(message, AIMessage) else []
    if len(calls) != len(set(calls)):
        wrong.append("two calls with one id")
    if not message.content and not calls:
        wrong.append("an empty message")
    return wrong, calls

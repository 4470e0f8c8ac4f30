"""What providers refuse in a request's messages, as a checker."""

import re
from collections import Counter
from itertools import pairwise
from typing import Any

from langchain_core.messages import AIMessage, ToolMessage

from loopwright import ScriptedModel


class StrictModel(ScriptedModel):
    """A scripted model that refuses a request as OpenAI does with 400, loudly."""

    def __init__(self, turns: Any, **more: Any) -> None:
        """Take the script; a proofreader without one finds nothing wrong."""
        if isinstance(turns, dict) and "listener" in turns:
            turns = {"proofreader": lambda *_: {"unsupported": []}} | turns
        super().__init__(turns, **more)

    def _next(self, messages, kwargs):
        ids = Counter(c["id"] for m in messages if isinstance(m, AIMessage) for c in _made(m))
        twice = [f"two calls with the id {name}" for name, times in ids.items() if times > 1]
        assert not (wrong := [*unpaired(messages), *twice]), wrong
        return super()._next(messages, kwargs)


def problems(messages):
    """Everything wrong with the messages of one request, as a list of texts."""
    kinds = [message.type for message in messages]
    found = ["a system message that is not the first"] if "system" in kinds[1:] else []
    if next((kind for kind in kinds if kind != "system"), "") != "human":
        found.append("the first message is not the user's")
    if kinds[-1:] == ["ai"]:
        found.append("the last message is the assistant's")
    if ("ai", "ai") in pairwise(kinds):
        found.append("the assistant's behind the assistant's")
    return found + unpaired(messages)


def unpaired(messages):
    """What is wrong with its calls and their answers: each pair stands together."""
    found, open_ = [], []
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
    made = _made(message) if isinstance(message, AIMessage) else []
    calls = [call["id"] for call in made]
    if not all(calls):
        wrong.append("a call without an id")
    if not all(re.fullmatch("[a-zA-Z0-9_-]{1,64}", call["name"] or "") for call in made):
        wrong.append("a call whose name is none")
    if not message.content and not calls:
        wrong.append("an empty message")
    if len(calls) != len(set(calls)):
        wrong.append("two calls with one id")
    return wrong, calls


def _made(message):
    return [*message.tool_calls, *message.invalid_tool_calls]

"""What keeps a reply from a customer that code can check in every language. Pure.

The table in docs/customer-service.md says what code proves and what a model judges.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from langchain_core.messages import ToolMessage

from ...state.desk import DeskState
from ...text.canonical import weigh
from ...text.sentences import say
from .reply import Reply

LONGEST: Final = 1_800
"""Of a reply, as `weigh` counts."""
_LINE: Final = 40
_QUESTION: Final = re.compile("[?\\uff1f\\u061f\\u037e]\\s*$")


def find_problems(state: DeskState, reply: Reply, prompt: str) -> list[str]:
    """What is wrong with the reply, in words for the model that wrote it."""
    text = reply.text
    if not text.strip():
        return [say("desk_says_nothing")]
    wrong = {
        "desk_too_long": weigh(text) > LONGEST,
        "desk_same_answer": _is_repetition(state, text),
        "desk_private": is_private(state, text),
        "desk_tells_rules": _is_prompt_quote(text, prompt),
    }
    return [*(say(name) for name, holds in wrong.items() if holds), *reply.problems]


def read_data(message: ToolMessage) -> Any:
    """The result of a tool as data."""
    artifact = message.artifact
    return artifact.get("data") if isinstance(artifact, Mapping) else None


def is_private(state: DeskState, text: str) -> bool:
    """Whether it tells what a tool said of nobody but one whom the customer is not proven to be."""
    own, low = state.identity.get("customer_id"), text.casefold()
    open_ = [str(m.text) for m in state.messages if m.type == "human"]
    foreign = set[str]()
    for message in state.messages:
        if isinstance(message, ToolMessage):
            for value, is_foreign in _iter_values(read_data(message), own, is_foreign=False):
                foreign.add(value) if is_foreign else open_.append(value)
    said = " ".join(open_).casefold()
    return any(
        value in low
        and value not in said
        and re.search(rf"(?<![a-z0-9]){re.escape(value)}(?![a-z0-9])", low)
        for value in foreign
    )


_SHORT: Final = 3


def _iter_values(data: Any, own: object, *, is_foreign: bool) -> Iterator[tuple[str, bool]]:
    """Each value in a result, and whether it is of a customer who is not this one."""
    if isinstance(data, Mapping):
        is_foreign = is_foreign or data.get("customer_id") not in (None, own)
        data = list(data.values())
    if isinstance(data, list):
        for one in data:
            yield from _iter_values(one, own, is_foreign=is_foreign)
    elif isinstance(data, str | int | float) and not isinstance(data, bool):
        text = str(data).casefold()
        if len(text) >= _SHORT:
            yield text, is_foreign


def _is_repetition(state: DeskState, text: str) -> bool:
    """Whether it is the answer that the issue had before; a question may be asked again."""
    before = state.answered.get(state.issue, "")
    return text.split() == before.split() and not _QUESTION.search(text)


def _is_prompt_quote(text: str, prompt: str) -> bool:
    """Whether it holds a long sentence of the prompt."""
    said = " ".join(text.casefold().split())
    plain = (" ".join(line.strip(" -#*\t").casefold().split()) for line in prompt.splitlines())
    return any(len(part) >= _LINE and part in said for line in plain for part in line.split(". "))

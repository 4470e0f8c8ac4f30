"""How large requests are, and the snapshot that replaces messages which no longer fit."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import Annotated, Any, Final, Literal, get_args

from langchain_core.messages import AIMessage, BaseMessage
from pydantic import BeforeValidator, Field
from typing_extensions import TypedDict

from ..text.canonical import estimate_tokens
from .contracts import Contract, Text, Texts, as_list
from .messages import ROLE, TOLD, calls_in, remember_by_message

Section = Literal[
    "overall_goal", "active_constraints", "key_knowledge", "artifact_trail", "file_system_state",
    "recent_actions", "task_state",
]  # fmt: skip
SECTIONS: Final[tuple[Section, ...]] = get_args(Section)

OF_USER: Final[frozenset[Section]] = frozenset({"overall_goal", "active_constraints"})
"""What only the user can say: a text that a tool has brought sets no goal and forbids nothing."""
LASTING: Final[frozenset[Section]] = frozenset(SECTIONS) - {"recent_actions", "task_state"}
"""What stays true though a later snapshot forgets it."""

TURN_LIMIT: Final = 100_000
"""Tokens of a request, where nothing says less."""
UNKNOWN_WINDOW: Final = 128_000
"""Tokens a model takes that says nothing of it."""
TARGET_SHARE: Final = 0.8
"""How much of the tokens a request may have it is let have before its history is compressed."""


class Fact(Contract):
    """One fact."""

    text: Text = Field(min_length=1, description="Words of one source, copied letter by letter.")
    sources: Texts = Field(alias="from", description="Ids of the messages that say so.")


Facts = Annotated[list[Fact], BeforeValidator(as_list)]


class Snapshot(Contract):
    """What must be remembered of messages that are left out from now on."""

    scratchpad: Text = Field(default="", description="Think here first; it is not kept.")
    overall_goal: Facts = Field(default_factory=list, description="What the user wants.")
    active_constraints: Facts = Field(default_factory=list, description="What the user demands.")
    key_knowledge: Facts = Field(default_factory=list, description="Facts found out.")
    artifact_trail: Facts = Field(default_factory=list, description="What was made or changed.")
    file_system_state: Facts = Field(default_factory=list, description="Files and where they are.")
    recent_actions: Facts = Field(default_factory=list, description="The last steps, and results.")
    task_state: Facts = Field(default_factory=list, description="What is done, and what is next.")


class KeptFact(TypedDict):
    """A fact as the state keeps it; `sources` are ids of messages."""

    text: str
    sources: list[str]


class KeptSnapshot(TypedDict, total=False):
    """The field `snapshot` of a state.

    `facts` by section; `words` of the user and `calls` that were cut, with their messages' ids;
    `shown` is the message of the user whose pictures are still shown; `pinned` what code knows to
    be open; `notes` of the thread. After a summary of no use none is asked for `rest` times, each
    time longer (`failed`); below `above` tokens nothing can be won.
    """

    facts: dict[str, list[KeptFact]]
    words: list[KeptFact]
    shown: str
    calls: list[str]
    pinned: list[str]
    notes: str
    rest: int
    failed: int
    above: int


def make_short_name(name: str | None) -> str:
    """The short name by which a model knows a message."""
    return "m-" + hashlib.sha256(str(name).encode()).hexdigest()[:8]


def is_of_user(message: BaseMessage) -> bool:
    """Whether a message is the user's own, and not one that a tool or a node has added."""
    return message.type == "human" and ROLE not in message.additional_kwargs


def get_message_text(message: BaseMessage) -> str:
    """What a message says, its calls included; not what its writer thought."""
    calls = [
        f"{call['name']}({json.dumps(call['args'], ensure_ascii=False)})"
        for call in calls_in(message)
    ]
    return "\n".join(filter(None, [message.text, *calls]))


def get_full_text(message: BaseMessage) -> str:
    """What a message says, and what the agent was told behind it, such as a sub-agent's result."""
    told = message.additional_kwargs.get(TOLD)
    return f"{get_message_text(message)}\n\n{told}" if told else get_message_text(message)


def name_speaker(message: BaseMessage) -> str:
    """The speaker of a message, for a model that reads the conversation."""
    if message.type == "tool":
        return f"result of {message.name or 'a tool'}"
    return "user" if is_of_user(message) else "agent" if message.type == "ai" else "a tool"


_IMAGE: Final = 3_000
_DOCUMENT: Final = 25_800
_MESSAGE: Final = 4
"""What a message costs beside its content: who says it, and which call it answers."""


def estimate_message_tokens(messages: Iterable[BaseMessage]) -> int:
    """Estimate the tokens of messages: their words, calls, images and documents."""
    return sum(map(_tokens, messages))


def bound_message_tokens(messages: Iterable[BaseMessage]) -> float:
    """What `estimate_message_tokens` says at most, or infinity: quickly, for long conversations."""
    characters = count = 0
    for message in messages:
        content, calls, told = message.content, calls_in(message), message.additional_kwargs
        if not isinstance(content, str):
            return inf
        spelled = 2 * sum(len(str(call)) for call in calls)  # JSON escapes more
        text = len(content) if content.isascii() else _WIDEST * len(content)
        characters += text + _WIDEST * (spelled + len(str(told.get(TOLD, ""))))
        count += 2 + len(calls)
    return characters / 4 + _MESSAGE * count


_WIDEST: Final = 3
"""Latin characters that one of Chinese, Japanese or Korean counts as, at most."""


@remember_by_message
def _tokens(message: BaseMessage) -> int:
    content = message.content
    blocks = [content] if isinstance(content, str) else content
    tokens = _MESSAGE + sum(map(_estimate_block, blocks))
    if told := message.additional_kwargs.get(TOLD):
        tokens += _MESSAGE + estimate_tokens(str(told))
    for call in calls_in(message):
        args = call["args"]
        spelled = args if isinstance(args, str) else json.dumps(args, ensure_ascii=False)
        tokens += _MESSAGE + estimate_tokens(f"{call['name']}{spelled}")
    return tokens


def _estimate_block(block: Any) -> int:
    """A block of text by its words; what is no text by its kind, never by its length."""
    if isinstance(block, str):
        return estimate_tokens(block)
    if not isinstance(block, Mapping):
        return 0
    kind = str(block.get("type", ""))
    for key in ("text", "thinking", "reasoning"):
        if isinstance(words := block.get(key), str):
            return estimate_tokens(words)
    if kind in ("file", "document", "input_file"):
        return _DOCUMENT
    return _IMAGE if any(word in kind for word in ("image", "audio", "video", "media")) else 0


def count_call_tokens(asked: Sequence[BaseMessage], answer: AIMessage) -> tuple[int, int]:
    """Input and output tokens of one call: as the provider counted them, else estimated."""
    usage = answer.usage_metadata
    if usage and (usage["input_tokens"] or usage["output_tokens"]):
        return usage["input_tokens"], usage["output_tokens"]
    return estimate_message_tokens(asked), estimate_message_tokens([answer])

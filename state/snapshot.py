"""What stands in a request for the messages before its cut: facts, each with where it is from."""

import hashlib
from typing import Annotated, Final, Literal, get_args

from langchain_core.messages import AnyMessage
from pydantic import BeforeValidator, Field
from typing_extensions import TypedDict

from .contracts import Contract, Text, Texts, as_list
from .messages import ROLE

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
    be open; `notes` of the thread. Tool results before the message `mask` are shown shortened.
    After a summary of no use none is asked for `rest` times, each time longer (`failed`); below
    `above` tokens nothing can be won.
    """

    facts: dict[str, list[KeptFact]]
    words: list[KeptFact]
    shown: str
    calls: list[str]
    pinned: list[str]
    notes: str
    mask: str
    rest: int
    failed: int
    above: int


def make_short_name(name: str | None) -> str:
    """The short name by which a model knows a message."""
    return "m-" + hashlib.sha256(str(name).encode()).hexdigest()[:8]


def is_of_user(message: AnyMessage) -> bool:
    """Whether a message is the user's own, and not one that a tool or a node has added."""
    return message.type == "human" and ROLE not in message.additional_kwargs

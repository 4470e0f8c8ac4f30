"""What a customer means by a message, as a model must answer it."""

from typing import Annotated, Final, Literal, get_args

from pydantic import BeforeValidator, Field

from ..contracts import Contract, Flag, Text, Texts, read_word
from .conversation import Mood

Intent = Literal[
    "question", "order", "refund", "technical", "account", "complaint", "human", "closing", "chat",
    "off_topic",
]  # fmt: skip
INTENTS: Final[tuple[Intent, ...]] = get_args(Intent)
MOODS: Final[tuple[Mood, ...]] = get_args(Mood)


class Slot(Contract):
    """One thing that the customer has said of themselves or their case."""

    name: Text = Field(description="Such as order_id, email, product, problem.")
    value: Text = Field(description="As the customer wrote it.")


class Understanding(Contract):
    """What the customer wants by the last message, and how they feel."""

    intent: Annotated[Intent, BeforeValidator(lambda value: read_word(value, INTENTS))]
    mood: Annotated[Mood, BeforeValidator(lambda value: read_word(value, MOODS))] = "calm"
    score: float = Field(default=0, ge=-1, le=1, description="-1 furious, 0 calm, 1 delighted.")
    slots: list[Slot] = Field(default_factory=list, description="Only what the customer said.")
    same_question: Flag = Field(
        default=False, description="It was asked before, in whatever words, and not settled."
    )
    missing: Texts = Field(
        default_factory=list, description="What must be known before anything can be done."
    )
    question: Text = Field(
        default="", description="One question back that asks for it; '' if nothing is missing."
    )

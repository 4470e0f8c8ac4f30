"""State of customer_service, and what its models must answer."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Final, Literal, NotRequired, get_args

from langchain_core.messages import AnyMessage
from pydantic import BeforeValidator, Field
from typing_extensions import TypedDict

from .calls import CallState, CallsUpdate
from .contracts import Contract, Flag, Text, Texts, read_word
from .loop import LoopState, LoopUpdate
from .messages import ROLE, slice_since
from .outcome import Reason

PATH: Final = "desk"
"""Begins the id of every call of this graph: `desk.<round>.<index>`."""

MOST_CLARIFICATIONS: Final = 2
"""Questions back on one issue; after those the customer gets options, or a human."""

AWAY: Final = (("loopwright", "desk"), "away")
"""Where in the store the humans say that nobody is there, and until when."""

OPERATOR: Final = "operator"
"""Signs what a human colleague says to the customer."""

HANDED_OVER: Final[frozenset[Reason | None]] = frozenset(
    {"MAX_TURNS", "BUDGET", "TIMEOUT", "LOOP_DETECTED", "ERROR"}
)
"""What ends a turn short of its goal, so that a human has to go on."""

Owner = Literal["bot", "human", "returning"]
Mood = Literal["pleased", "calm", "worried", "upset", "angry"]
Intent = Literal[
    "question", "order", "refund", "technical", "account", "complaint", "human", "closing", "chat",
    "off_topic",
]  # fmt: skip
Strategy = Literal["", "answer", "clarify", "say", "carry_out", "close", "hand_off"]
"""`say` are words by code, which need no model."""
Consent = Literal["", "yes", "no", "changed", "unclear"]
Asked = Literal["", "detail", "solved", "else", "satisfied"]
"""What the customer was asked last, beside the yes to a proposal."""


class Feeling(TypedDict):
    """How the customer sounded in one turn; `score` from -1 to 1."""

    turn: int
    mood: Mood
    score: float


class Source(TypedDict):
    """An article that a search gave, by its id; only such may be cited."""

    title: str
    url: str
    score: float
    turn: int
    text: NotRequired[str]


class ProposedCall(TypedDict):
    """One change of a proposal; `line` is what people read of it, `digest` what a yes is given to.

    One that is `quoted` may rest on a quoted yes of the customer's words, as the policy says.
    """

    name: str
    server: str | None
    args: dict[str, Any]
    digest: str
    line: str
    quoted: bool


class Proposal(TypedDict):
    """Changes that wait for the customer's one yes to exactly these; `id` names the question.

    With `why` the policy wants a colleague to decide, who sets `approved`. `at` is when it was put,
    ISO 8601; `asks` counts how often. Where it stands `beside` a model's words, which may ask
    something themselves, no word is an answer to it, but a figure or a button.
    """

    id: str
    calls: list[ProposedCall]
    words: str
    turn: int
    at: str
    asks: int
    why: NotRequired[str]
    approved: NotRequired[bool]
    beside: NotRequired[bool]


def names_change(proposal: Proposal | None, digest: str) -> bool:
    """Whether a change is one of those that were put."""
    return proposal is not None and any(call["digest"] == digest for call in proposal["calls"])


@dataclass(kw_only=True)
class DeskState(CallState, LoopState):
    """State of customer_service. What is known of the customer lasts as long as the thread."""

    record = "work_state"

    round: int = 0
    """Model turns of this user turn; act counts."""
    language: str = ""
    """Of the customer's last message, as `en` or `zh`; understand writes it."""
    intent: str = ""
    """What the customer wants by their last message, an `Intent`; understand writes it."""
    issue: str = ""
    """Fingerprint of what the conversation is about now: one ticket each; understand writes it."""
    mood: list[Feeling] = field(default_factory=list)
    """How the customer sounded, turn by turn; understand adds to it."""
    slots: dict[str, str] = field(default_factory=dict)
    """What the customer has said of themselves and their case; never asked again."""
    identity: dict[str, Any] = field(default_factory=dict)
    """Who the customer is, once a tool has verified it: `customer_id`, `turn`, `call`."""
    customer: dict[str, Any] = field(default_factory=dict)
    """Who was verified last: `id`, and since which message it is about them; act writes it."""
    clarifications: int = 0
    """Questions back on the issue; strategy counts, a new issue starts at 0."""
    again: int = 0
    """How often the issue came back unsettled; understand counts."""
    asked: Asked = ""
    """What the customer was asked last; strategy writes it, confirm and close."""
    confirmed: list[str] = field(default_factory=list)
    """Issues of which it was asked whether they are settled, which happens once; confirm adds."""
    opened: int = 0
    """The turn in which the conversation began, or began again after its end; understand writes."""
    strategy: Strategy = ""
    """How this turn is dealt with; strategy writes it, act, check and confirm change it."""
    why: str = ""
    """Why the thread goes to a human, in words; whoever decides it writes it."""
    consent: Consent = ""
    """The customer's word on the open proposal, or on what was asked; understand writes it."""
    proposal: Proposal | None = None
    """The changes that wait for a yes; act writes them, and takes them back."""
    put: list[str] = field(default_factory=list)
    """Digests of changes that were put and got no plain answer; act adds, strategy takes away."""
    declined: list[str] = field(default_factory=list)
    """What was put and is not done, in words for people; strategy writes it."""
    asks_change: bool = False
    """The customer wants something to be done; understand writes it."""
    asks_else: bool = False
    """What they write beside an open question is about another matter; understand writes it."""
    sources: dict[str, Source] = field(default_factory=dict)
    """What searches gave, by id; act writes it."""
    answer: str = ""
    """What the customer is to be told, until it is checked; act writes it, close, hand_off."""
    answered: dict[str, str] = field(default_factory=dict)
    """Issue to the last answer given to it, so that none is given twice; check writes it."""
    tickets: dict[str, str] = field(default_factory=dict)
    """Issue to the id of its ticket; act writes it."""
    promises: list[str] = field(default_factory=list)
    """What the customer was promised and is still open; act writes it."""
    delegations: list[Any] = field(default_factory=list)
    """Planned calls of delegate_to_agent without an answer; act writes it, delegate."""
    owner: Owner = "bot"
    """Who answers; while it is a human no model is called. hand_off, with_human, finish write."""
    packet: dict[str, Any] = field(default_factory=dict)
    """What a human who takes over is given; hand_off writes it."""
    asked_satisfied: bool = False
    """The customer was asked how satisfied they are, which happens once; close writes it."""
    satisfaction: int | None = None
    """1 to 5, as the customer said; understand writes it."""
    closed: bool = False
    """The customer has said that nothing is left; close writes it, understand takes it back."""

    per_turn = LoopState.per_turn | {
        "calls", "decisions", "objections", "evidence", "denied", "strikes", "held", "round",
        "delegations", "strategy", "why", "consent", "answer", "declined", "asks_change",
        "asks_else",
    }  # fmt: skip

    by_tools = frozenset({"messages", "improvements", "task_completed", "should_continue"})

    agents: ClassVar[tuple[str, ...]] = ()
    """Around the desk there is no other agent."""

    @property
    def path(self) -> str:
        """The loop has no tasks: its own name."""
        return PATH

    @property
    def messages_with_customer(self) -> Sequence[AnyMessage]:
        """The conversation, without what was said before another customer was verified."""
        return slice_since(self.messages, self.customer.get("since", ""))

    @property
    def new_proposal(self) -> Proposal | None:
        """What this turn puts to the customer, or to a colleague."""
        return self.proposal if self.proposal and self.proposal["turn"] == self.turn else None

    @property
    def open_proposal(self) -> Proposal | None:
        """What the turn before has put, which the customer's message may answer."""
        return self.proposal if self.proposal and self.proposal["turn"] == self.turn - 1 else None

    @property
    def written_ids(self) -> list[str]:
        """Evidence ids of the changes made in this turn."""
        return [
            r["id"]
            for r in self.evidence
            if r["status"] == "success" and r["tool"] and not r.get("read_only")
        ]

    @property
    def has_settled_issue(self) -> bool:
        """Whether the answer settles an issue of which that was not asked yet."""
        if not self.task_completed or self.new_proposal is not None or self.issue in self.confirmed:
            return False
        return bool(self.written_ids) or any(f"{name}]" in self.answer for name in self.sources)


AROUND: Final = (".handed_off", ".returned")
"""End the ids of what the desk says as a human takes the thread, and gives it back."""


def collect_handoff_texts(messages: Sequence[AnyMessage]) -> list[str]:
    """What the desk and colleagues said around hand-overs, for terminals."""
    by_operator = [(m, m.additional_kwargs.get(ROLE) == OPERATOR) for m in messages]
    return [
        f"A colleague: {message.text}" if operator else message.text
        for message, operator in by_operator
        if operator or str(message.id).endswith(AROUND)
    ]


def compute_patience(state: DeskState) -> int:
    """How many questions back and failed answers an issue may have before a human takes over."""
    angry = bool(state.mood) and state.mood[-1]["mood"] == "angry"
    return MOST_CLARIFICATIONS - 1 if angry else MOST_CLARIFICATIONS


class DeskUpdate(LoopUpdate, CallsUpdate, total=False):
    """What a node of the graph may change."""

    round: int
    language: str
    intent: str
    issue: str
    mood: list[Feeling]
    slots: dict[str, str]
    identity: dict[str, Any]
    customer: dict[str, Any]
    clarifications: int
    again: int
    asked: Asked
    confirmed: list[str]
    opened: int
    strategy: Strategy
    why: str
    consent: Consent
    proposal: Proposal | None
    put: list[str]
    declined: list[str]
    asks_change: bool
    asks_else: bool
    sources: dict[str, Source]
    answer: str
    answered: dict[str, str]
    tickets: dict[str, str]
    promises: list[str]
    delegations: list[Any]
    owner: Owner
    packet: dict[str, Any]
    asked_satisfied: bool
    satisfaction: int | None
    closed: bool


class Slot(Contract):
    """One thing that the customer has said of themselves or their case."""

    name: Text = Field(description="Such as order_id, email, product, problem.")
    value: Text = Field(description="As the customer wrote it.")


class Understanding(Contract):
    """What the customer wants by the last message, and how they feel."""

    intent: Annotated[Intent, BeforeValidator(lambda value: read_word(value, get_args(Intent)))]
    mood: Annotated[Mood, BeforeValidator(lambda value: read_word(value, get_args(Mood)))] = "calm"
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
    language: Text = Field(default="", description="Of the message, as en, de or zh.")
    asks_change: Flag = Field(default=False, description="They want something done or changed.")
    consent: Annotated[
        Consent, BeforeValidator(lambda value: read_word(value, get_args(Consent)))
    ] = Field(default="", description="Their answer to the open question; '' of another matter.")
    consent_quote: Text = Field(
        default="", description="The words it rests on, as they wrote them."
    )


class Proofreading(Contract):
    """What in a reply nothing carries."""

    unsupported: Texts = Field(
        default_factory=list, description="Each span of the reply, word for word."
    )


_LANGUAGE: Final = re.compile("[a-z]{2,3}")


def read_language(text: str, before: str) -> str:
    """A language as its code, `de` of `de-AT`; `before` if it is none."""
    main = re.split("[-_]", text.strip().lower())[0]
    return main if _LANGUAGE.fullmatch(main) else before

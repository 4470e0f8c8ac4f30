"""State of customer_service, and which sentences claim something, in English or Chinese.

The patterns list ways to begin, they are no grammar: a sentence not known to be talk is a claim.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Final, Literal, NotRequired, get_args

from langchain_core.messages import AnyMessage
from pydantic import BeforeValidator, Field
from typing_extensions import TypedDict

from .calls import CallState, CallsUpdate
from .contracts import Contract, Flag, Text, Texts, read_word
from .loop import LoopState, LoopUpdate
from .messages import ROLE
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
Consent = Literal["", "yes", "no", "changed"]
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


class Proposal(TypedDict):
    """A change that waits for the customer's yes to exactly this.

    With `why` the policy wants a colleague to decide, who sets `approved`.
    """

    name: str
    server: str | None
    args: dict[str, Any]
    digest: str
    words: str
    turn: int
    why: NotRequired[str]
    approved: NotRequired[bool]


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
    clarifications: int = 0
    """Questions back on the issue; strategy counts, a new issue begins anew."""
    again: int = 0
    """How often the issue came back unsettled; understand counts."""
    asked: Asked = ""
    """What the customer was asked last; strategy writes it, confirm and close."""
    confirmed: list[str] = field(default_factory=list)
    """Issues of which it was asked whether they are settled, which happens once; confirm adds."""
    opened: int = 0
    """The turn in which the conversation began, or began anew after its end; understand writes."""
    strategy: Strategy = ""
    """How this turn is dealt with; strategy writes it, act, check and confirm change it."""
    why: str = ""
    """Why the thread goes to a human, in words; whoever decides it writes it."""
    consent: Consent = ""
    """The customer's word on the open proposal, or on what was asked; understand writes it."""
    proposal: Proposal | None = None
    """The change that waits for a yes; act writes it, and takes it back."""
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
        "delegations", "strategy", "why", "consent", "answer",
    }  # fmt: skip

    by_tools = frozenset({"messages", "improvements", "task_completed", "should_continue"})

    agents: ClassVar[tuple[str, ...]] = ()
    """Around the desk there is no other agent."""

    @property
    def path(self) -> str:
        """The loop has no tasks: its own name."""
        return PATH

    @property
    def new_proposal(self) -> Proposal | None:
        """The change that this turn puts to the customer, or to a colleague."""
        return self.proposal if self.proposal and self.proposal["turn"] == self.turn else None

    @property
    def open_proposal(self) -> Proposal | None:
        """The change of the turn before, which the customer's message may answer."""
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
        return bool(self.written_ids or find_cited_ids(self.answer, self.sources))


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
    clarifications: int
    again: int
    asked: Asked
    confirmed: list[str]
    opened: int
    strategy: Strategy
    why: str
    consent: Consent
    proposal: Proposal | None
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


CITATION: Final = re.compile(r"[\[【]([^\[\]【】]{1,200})[\]】](?!\()")
_ID: Final = re.compile(r"[A-Za-z][\w.:-]*\d[\w-]*|\d+|[A-Za-z]\w*(?:-\w+)+")
_BARE_ID: Final = re.compile(r"(?<![\w/-])kb-[\w.-]*\w", re.IGNORECASE)
_CLAUSE: Final = re.compile(r"(?<!\d),\s+|[，、；]|(?<!\s)\s+(?:but|and|while|whereas)\s+|而|但是?")  # noqa: RUF001
_QUESTION: Final = re.compile(r"[?？]\s*$")  # noqa: RUF001 - full-width
_POLITE: Final = re.compile(
    r"(?:(?:(?:and|but|so|then|of course|certainly|sure|yes|no|well|if you (?:like|want))[, ]+)*"
    r"(?:i can(?:not)?|i could(?: not)?|i will|i'll|i would|i'd|i do(?: not|n't)"
    r"|i did(?: not|n't)|i am|i'm|i have|i've|i understand"
    r"|i see|shall i|would you|could you"
    r"|can you|may i|let me|tell me|just|feel free|happy to|glad to|thanks?|thank you"
    r"|apologies|my apologies"
    r"|hello|hi|hey|dear|welcome|good (?:morning|afternoon|evening|day)|you(?: a|')re welcome"
    r"|have a|kind regards|best|unfortunately|here (?:is|are)|you (?:said|wrote|mentioned|asked)"
    r"|please (?:tell|send me|give me|let|share|confirm|check the details|wait|answer|reply))\b"
    r"|(?:好的|当然|您好|你好|谢谢|感谢|抱歉|对不起|很抱歉|非常抱歉|不好意思|我(?!们)|请问|请告诉|请提供|麻烦"
    r"|如果您?(?:愿意|需要)|需要我|要我|很高兴|祝您?|亲爱|您(?:说|提到|问)|以下))"
)
_REGRET: Final = re.compile(
    r"(?:(?:and |but |oh )?(?:i am|i'm|we are|we're)? ?(?:so |very |really )?sorry\b|i understand\b"
    r"|i see\b|that(?: is|'s| must be| sounds)(?: (?:not|so|very|really|a))*"
    r" (?:annoying|frustrating|pity|bad|good|great|disappointing|fine|right|understandable|news))"
)
_ASSERTS: Final = re.compile(
    r"\bthat\b|\bbecause\b|\bsince\b|\byou (?:can|may|must|have|get|are|need|will)\b|:\s*\S"
    r"|\bwe (?:offer|ship|deliver|accept|refund|pay|take|give|sell|have|do|also|will)\b"
    r"|[您你](?:可以|必须|需要|能|有权|会|将)|我们(?:提供|支持|接受|可以|会|将|有|不)|确认[^，。]{4,}"  # noqa: RUF001
)
_HEAD: Final = re.compile(r"[:：]\s*$")  # noqa: RUF001 - full-width
_UNKNOWN: Final = re.compile(
    r"\b(?:do not|don['’]t|cannot|can['’]t|could not|couldn['’]t|did not|didn['’]t|unable to|not"  # noqa: RUF001
    r" able to|no)\b.{0,24}\b(?:know|find|found|say|tell|answer|information|articles?|anything"
    r"|confirm|see|have (?:an|that|this)|sure)\b|\bnot sure\b|\bno (?:language )?model\b"
    r"|不知道|不清楚|不确定|没有?(?:能)?(?:找到|查到)|未(?:能)?(?:找到|查到)|[查找]不到|没有相关"
    r"|无法(?:确认|回答|告诉|确定)"
)
_HELP: Final = re.compile(
    r"(?:(?:a|my|our|one of (?:my|our)|another) )(?:human )?(?:colleagues?|team)\b"
    r".{0,30}\b(?:will|can|looks?|takes?|answers?|gets?)\b"
    r"|.{0,4}(?:同事|人工|真人).{0,6}(?:会|将|来|可以)|.{0,6}帮[您你]"
)
_RULE: Final = re.compile(
    r"\byou (?:can|may|must|have to|need to|are (?:entitled|allowed)|get|will (?:get|receive))\b"
    r"|\bwe (?:offer|ship|deliver|accept|refund|pay|take|replace|charge|cover|allow)\b"
    r"|\b(?:is|are|be) (?:free|covered|refund|return|exchange|allowed|accepted|included|possible)"
    r"|\bcosts?\b|\bsources?:|\baccording to\b"
    r"|[您你](?:可以|必须|需要|能|有权|可)|我们(?:提供|支持|接受|可以|会|不)|免费|不支持|支持|根据|来源"
)

_REQUEST: Final = re.compile(
    r"(?:(?:please|kindly|could you|can you|would you|may i ask you to)[, ]+)+(?:please )?"
    r"(?:tell|send|give|provide|confirm|share)(?: with)?(?: me| us)? (?:your|the|which|what)\b"
    r"(?!.*(?:\d|\b(?:is|are|was|were|has|have|will|can|may|takes?|lasts|comes?|costs?|gets?)\b))"
    r"|(?:请|麻烦您?|能否)(?:您)?(?:再)?(?:告诉|提供|发|确认)(?:一下)?(?:我们?)?[您你](?!.*(?:\d|[是会将可能有]))"
)


def split_clauses(text: str) -> list[str]:
    """The parts of a sentence."""
    return [part.strip() for part in _CLAUSE.split(text) if part and part.strip()]


def is_question(text: str) -> bool:
    """Whether it is a question."""
    return bool(_QUESTION.search(text))


def is_request(text: str) -> bool:
    """Whether it only asks for details, such as the last four digits of a number."""
    return bool(_REQUEST.match(text.casefold())) and not states_rule(text)


def states_rule(text: str) -> bool:
    """Whether it says what may be done, what is free, what the company does."""
    return bool(_RULE.search(text.casefold()))


def is_polite(text: str) -> bool:
    """Whether each part of a sentence greets, regrets, offers, or says that it does not know."""
    return bool(_HEAD.search(text)) or all(map(_is_talk, split_clauses(text.casefold())))


def _is_talk(clause: str) -> bool:
    if _UNKNOWN.search(clause) or (_REGRET.match(clause) and not _RULE.search(clause)):
        return True
    if _ASSERTS.search(clause):
        return False
    return bool(_POLITE.match(clause) or _HELP.match(clause) or not clause.strip(" .!。！"))  # noqa: RUF001


def find_cited_ids(text: str, known: Collection[str] = ()) -> list[str]:
    """The ids that a text cites, in order; also such as nobody has found."""
    found: list[str] = []
    for group in CITATION.findall(text):
        ids = [part for part in re.split(r"[\s,;，、；]+", group) if part]  # noqa: RUF001 - full-width
        if all(part in known or _ID.fullmatch(part) for part in ids):
            found += ids
    bare = [one for one in _BARE_ID.findall(text) if one not in found]
    return list(dict.fromkeys([*found, *bare]))

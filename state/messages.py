"""The message channel: conversations on a delta channel, so that 200 turns cost a few megabytes."""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import UTC, datetime
from functools import wraps
from itertools import takewhile
from typing import Annotated, Any, Final, Generic, TypeGuard, TypeVar, cast
from weakref import ref

from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    RemoveMessage,
    ToolMessage,
    convert_to_messages,
)
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import Overwrite

from ..text.canonical import beginning_of, cut_middle, weigh
from ..text.sentences import LANGUAGE, say
from .attachments import Block, blocks_in, build_attachment_blocks, name_attachments
from .channels import GrowingChannel, IndexedList
from .limits import refuse_excess

T = TypeVar("T")


def merge_messages(state: list[AnyMessage], writes: Sequence[Any]) -> list[AnyMessage]:
    """Fold batches of messages, in any spelling LangChain reads, into the conversation.

    A known id replaces, `RemoveMessage` removes (an unknown id is ignored), `REMOVE_ALL_MESSAGES`
    empties. A message without id gets one derived from its place and content, so that replaying
    the same writes gives the same ids, in whatever batches.
    """
    news = [m for w in writes for m in read_messages(w if isinstance(w, list) else [w])]
    whole = IndexedList.of(state if isinstance(state, IndexedList) else read_messages(state), _id)
    if any(isinstance(message, RemoveMessage) for message in news):
        merged = {str(message.id): message for message in whole}
        for message in news:
            if not isinstance(message, RemoveMessage):
                named = _assign_id(message, next(reversed(merged), ""), len(merged))
                merged[str(named.id)] = named
            elif message.id == REMOVE_ALL_MESSAGES:
                merged.clear()
            else:
                merged.pop(str(message.id), None)
        return IndexedList.of(merged.values(), _id)
    for message in news:
        last = str(whole[-1].id) if whole else ""
        whole.put(_assign_id(message, last, len(whole)), _id)
    return whole


def _id(message: BaseMessage) -> str:
    return str(message.id)


def read_messages(items: Sequence[Any]) -> list[AnyMessage]:
    """The messages that these mean, in any spelling LangChain reads."""
    if all(isinstance(item, BaseMessage) for item in items):
        return list(items)
    return cast("list[AnyMessage]", convert_to_messages(items))


def explain_unreadable(given: Any) -> str:
    """Why values for the message channel are no messages; "" where they are.

    Writing an unreadable value would make every state of the thread unreadable.

    Raises:
        SettingsError: They are too long.
    """
    if isinstance(given, Overwrite):
        mine = given.value is None or isinstance(given.value, list)
        if not mine or not all(isinstance(written, BaseMessage) for written in given.value or ()):
            return "an Overwrite holds something else than a list of messages"
        given = given.value or []
    refuse_excess("input", given)
    texts: list[str] = []
    for place, written in enumerate(given if isinstance(given, list) else [given], start=1):
        try:
            texts += [one.text for one in read_messages([written])]
        except KeyError as error:
            return f"message {place} has no {error.args[0]!r}"
        except (AttributeError, RuntimeError, TypeError, ValueError) as error:
            why = str(error).partition("\nFor troubleshooting")[0]
            return f"message {place}: {' '.join(why.split())[:_SHOWN]}"
    refuse_excess("words", texts)
    return ""


_SHOWN: Final = 300


def _assign_id(message: AnyMessage, last: str, count: int) -> AnyMessage:
    """The message with an id; `count` messages precede it, the last one with the id `last`."""
    if message.id is not None:
        return message
    seed = f"{last}\0{count}\0{message.type}\0{message.content!r}"
    name = "msg-" + hashlib.sha256(seed.encode()).hexdigest()[:24]
    return message.model_copy(update={"id": name})


# Fewer writes between snapshots would cost space, more would make reading replay longer.
MESSAGES: Final = GrowingChannel[AnyMessage](merge_messages, snapshot_frequency=100)

Messages = Annotated[list[AnyMessage], MESSAGES]

# Longer requests are shown shortened in the middle; state keeps every word.
REQUEST_CAP: Final = 100_000
# What a role sees of earlier turns: enough to follow the talk, small enough to send each time.
TALK_CAP: Final = 24_000
TEXT_CAP: Final = 8_000

Conversation = list[dict[str, Any]]


def find_request(messages: Sequence[AnyMessage], request: str) -> int:
    """Where the message with the request stands: by its id, else the newest human one; -1: nowhere.

    Nodes and tools may add human messages too, so only a turn that begins looks for the newest.
    """
    place = -1
    if isinstance(messages, IndexedList):
        place = messages.find_place(request, _id)
    elif request:
        place = _find_newest(messages, lambda message: message.id == request)
    if place >= 0 and messages[place].type == "human":
        return place
    return _find_newest(messages, lambda message: message.type == "human")


def slice_since(messages: Sequence[AnyMessage], name: str) -> Sequence[AnyMessage]:
    """The messages from the one with this id on; all of them if there is none."""
    if not name:
        return messages
    place = messages.find_place(name, _id) if isinstance(messages, IndexedList) else -1
    if place < 0:
        place = _find_newest(messages, lambda message: message.id == name)
    return messages[max(0, place) :]


def _find_newest(messages: Sequence[AnyMessage], fits: Callable[[AnyMessage], bool]) -> int:
    """The index of the newest message that matches; -1 if none does."""
    return next((p for p in range(len(messages) - 1, -1, -1) if fits(messages[p])), -1)


def request_text(messages: Sequence[AnyMessage], request: str = "") -> str:
    """The words of the request, in prompt length; a sentence for a picture alone; '' if none."""
    place = find_request(messages, request)
    if place < 0:
        return ""
    text = messages[place].text
    if not text.strip() and blocks_in(messages[place]):
        return say("request_without_words")
    return cut_middle(text, REQUEST_CAP)


def attachments_of(messages: Sequence[AnyMessage], request: str) -> list[Block]:
    """What a role that sees the request is shown of it beside its words, and of the talk before."""
    return build_attachment_blocks(messages, find_request(messages, request))


def conversation_of(messages: Sequence[AnyMessage], request: str) -> Conversation:
    """The conversation before a request as {role, text}: words of the user and final answers.

    If not all have room, the oldest are left out, and the first entry says how many.
    """
    before = messages[: max(0, find_request(messages, request))]
    talk = [(place, message) for place, message in enumerate(before) if is_talk(message)]
    names = name_attachments(before)
    shown: Conversation = []
    room = float(TALK_CAP)
    for place, message in reversed(talk):
        text = beginning_of(message.text, TEXT_CAP)
        room -= weigh(text)
        if room < 0 and shown:
            break
        entry = {"role": "user" if message.type == "human" else "assistant", "text": text}
        shown.insert(0, entry | ({"attached": names[place]} if place in names else {}))
    left = len(talk) - len(shown)
    return [{"left_out": say("earlier_words_left_out", count=left)}, *shown] if left else shown


def is_talk(message: AnyMessage) -> bool:
    """Whether a message is for the other side: of the user, or an answer to the user."""
    if message.type == "human":
        return bool(message.text.strip() or blocks_in(message))
    if not isinstance(message, AIMessage) or _list_call_ids(message) or not message.text.strip():
        return False
    about = message.additional_kwargs
    if about.get(ROLE, PACKAGE) == PACKAGE:
        return True
    ended = about.get(ENDS) or about.get(CUT)  # a turn, or with one
    return str(message.id).startswith(ANSWER) or bool(ended)


REASONING: Final = "reasoning_content"
"""Key in a message's `additional_kwargs`: what the model thought; LangChain's, see
`content_blocks`."""
ROLE: Final = "agent_type"
"""Key in a message's `additional_kwargs`: who wrote it."""
PACKAGE: Final = "loopwright"
"""Signs what the package itself says to the user."""
TOOL: Final = "tool"
"""Signs the messages that tools add."""
ANSWER: Final = "answer-"
"""Begins the id of a turn's final message where the graph has a plan."""
FINAL: Final = "final_refusal"
"""In a message's `additional_kwargs`: its model would refuse again, so it is asked no more."""
EVIDENCE: Final = "evidence"
"""Key in a message's `additional_kwargs`: the evidence id of the call it makes or answers."""
STORED: Final = "stored"
"""Key in a message's `additional_kwargs`: under which id the store has the whole result."""
STEERS: Final = "steers"
"""Key in the `additional_kwargs` of a user's message that came while a turn was running."""
CUT: Final = "cut"
"""Key in a message's `additional_kwargs`: the end of its run cut it while it was written."""
ENDS: Final = "ends"
"""Key in a message's `additional_kwargs`: a model ended the turn with it."""

REJECTED: Final = "rejected"
"""Key in a message's `additional_kwargs`: why a hook did not accept what was said with it."""
TOLD: Final = "told"
"""Key in a message's `additional_kwargs`: what the model is told behind it."""
REPEATS: Final = "repeats"
"""Key in a message's `additional_kwargs`: it says what was said before."""


def calls_in(message: BaseMessage) -> list[Any]:
    """The calls a message makes, unreadable ones included, which stand last."""
    return [*message.tool_calls, *message.invalid_tool_calls] if _of_model(message) else []


def is_words(message: AnyMessage) -> bool:
    """Whether the assistant says something and calls nothing."""
    return _of_model(message) and not calls_in(message)


def _of_model(message: BaseMessage) -> TypeGuard[AIMessage]:
    """Asked of every message of every request: pydantic's isinstance is slow where it says no."""
    return message.type not in ("human", "tool") and isinstance(message, AIMessage)


class _Note(ref[BaseMessage]):
    """What was made of a message. One object each: the garbage collector meets thousands."""

    __slots__ = ("key", "made")
    key: int
    made: Any


class MessageNotes(Generic[T]):
    """What was made of a message, kept as long as the message is: nobody changes one in place."""

    def __init__(self) -> None:
        """Nothing noted yet."""
        self._known: dict[int, _Note] = {}
        self._forget = lambda note: self._known.pop(note.key, None)  # before the id is reused

    def get(self, message: BaseMessage) -> T | None:
        """What was noted of this very object."""
        known = self._known.get(id(message))
        return known.made if known and known() is message else None

    def put(self, message: BaseMessage, made: T) -> T:
        """Note it."""
        note = _Note(message, self._forget)
        note.key, note.made = id(message), made
        self._known[note.key] = note
        return made


def remember_by_message(make: Callable[[Any], T]) -> Callable[[Any], T]:
    """A function of a message, asked once for each message object and language."""
    notes = defaultdict[str, MessageNotes[T]](MessageNotes)

    @wraps(make)
    def get(message: Any) -> T:
        here = notes[LANGUAGE.get()]
        known = here.get(message)
        if known is None:
            known = make(message)
            if known is not message:  # which it must not keep alive
                here.put(message, known)
        return known

    return get


def make_signature(role: str) -> dict[str, str]:
    """What a message carries beside its words: who wrote it, and when (UTC, ISO 8601)."""
    return {ROLE: role, "timestamp": datetime.now(UTC).isoformat(timespec="seconds")}


def answer_name(message: BaseMessage) -> str:
    """The id of the answer to the one call of a message that people were asked about."""
    return f"{message.id}{_ANSWER}"


_ANSWER: Final = ".answer"


PLACEHOLDER: Final = "do-not-render-"
"""How the id of a message begins that Agent Chat UI does not draw: its own made-up answers,
"Successfully handled tool call", and what only says how an agent's work ended."""


Answer = Callable[[str], ToolMessage]
"""From the id of a call that has no answer to the message that answers it."""


def make_repairs(
    messages: Sequence[AnyMessage], answer: Answer, *, open_calls: Collection[str] = ()
) -> list[Any]:
    """The writes that give each call of a conversation its answer, from the first defect on.

    `answer` makes the missing answers, with new ids or those of the answers they replace.
    `open_calls` are calls of the newest message with calls that our own tool node has not
    answered: any other answer to them is made up.
    """
    if not open_calls and _is_whole(messages):
        return []
    return make_rewrite(messages, _repair_all(messages, answer, frozenset(open_calls)))


def make_rewrite(before: Sequence[AnyMessage], after: Sequence[AnyMessage]) -> list[Any]:
    """The writes that make one conversation of the other; none where they are the same."""
    pairs = zip(before, after, strict=False)
    same = sum(1 for _ in takewhile(lambda pair: pair[0] is pair[1] or pair[0] == pair[1], pairs))
    return [*(RemoveMessage(id=str(m.id)) for m in before[same:]), *after[same:]]


def _is_whole(messages: Sequence[AnyMessage]) -> bool:
    """Whether each answer stands where it belongs, as it does in nearly every conversation."""
    asked, open_ = "", list[str]()
    for message in messages:
        if message.type != "tool":
            if open_:
                return False
            asked, open_ = answer_name(message), _list_call_ids(message)
        elif not open_ or not _answers(message, open_.pop(0), asked):
            return False
    return not open_


def _answers(message: ToolMessage, call: str, asked: str) -> bool:
    """Whether a message answers this call, and is no answer of people to another message."""
    own = not str(message.id).endswith(_ANSWER) or message.id == asked
    return own and message.tool_call_id == call and not _is_made_up(message, frozenset())


def _repair_all(
    messages: Sequence[AnyMessage], answer: Answer, open_calls: frozenset[str]
) -> list[AnyMessage]:
    newest = max((i for i, m in enumerate(messages) if _list_call_ids(m)), default=-1)
    named = {str(m.id): m for m in messages if isinstance(m, ToolMessage)}
    owned = named.keys() & {answer_name(m) for m in messages if _list_call_ids(m)}
    whole: list[AnyMessage] = []
    for place, message in enumerate(messages):
        if isinstance(message, ToolMessage):
            continue  # follows its call below; an answer without a call is dropped
        whole.append(message)
        if calls := _list_call_ids(message):
            made_up = open_calls if place == newest else frozenset()
            own = named.get(answer_name(message))  # by its id, wherever it stands
            given = _find_answers(
                (m for m in messages[place + 1 :] if str(m.id) not in owned), made_up
            )
            whole += [own] if own else [given.get(call) or answer(call) for call in calls]
    return whole


def _list_call_ids(message: AnyMessage) -> list[str]:
    """Ids of the calls a message makes, each once."""
    return list(dict.fromkeys(call["id"] for call in calls_in(message) if call["id"]))


def _find_answers(behind: Iterable[AnyMessage], made_up: frozenset[str]) -> dict[str, ToolMessage]:
    """Call id to the first answer before the next message with calls: providers repeat ids."""
    given: dict[str, ToolMessage] = {}
    for message in takewhile(lambda m: not _list_call_ids(m), behind):
        if isinstance(message, ToolMessage) and not _is_made_up(message, made_up):
            given.setdefault(message.tool_call_id, message)
    return given


def _is_made_up(message: ToolMessage, open_calls: frozenset[str]) -> bool:
    if EVIDENCE in message.additional_kwargs:  # our own tool node signs its answers
        return False
    return message.tool_call_id in open_calls or str(message.id).startswith(PLACEHOLDER)

"""Fits each request into its model's context window, for every role.

Old results are shortened. If that is not enough, the oldest messages are replaced by a snapshot of
the user's words and the calls made; a single text that is too long loses its middle. A cut goes
down to about half of the room, so that the next one is far away: between two cuts each request
begins with the bytes of the one before. Nothing is saved: a cut follows from the messages alone, so
a later request of the same conversation repeats it byte for byte.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, takewhile
from typing import Any, Final, TypeVar

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from ..prompts.prompt import render_section, shorten_sections
from ..state.attachments import blocks_in
from ..state.messages import ENDS, calls_in, remember_by_message
from ..state.snapshot import (
    UNKNOWN_WINDOW,
    KeptFact,
    bound_message_tokens,
    estimate_message_tokens,
    get_message_text,
    is_of_user,
    make_short_name,
)
from ..text.canonical import canonical, cut_middle, estimate_tokens, find_cap, shorten_text
from ..text.sentences import say
from .choice import window_of
from .request import Asker, Call, Reply, Request, RequestTooLong

M = TypeVar("M", bound=BaseMessage)

USED: Final = 0.9
"""How much of what its model takes a request may have: the answer has to fit, too."""
_SMALLEST: Final = 500
"""Tokens; a model that refuses a request below this refuses it for another reason."""
_LEAST: Final = 250
"""Tokens for the words of a request, beside its prompt and tools."""
_OPENING: Final = 0.75
"""How much of the room system prompt and data may take, so that messages have the rest."""
_NEWEST: Final = 0.25
"""How much of the room the newest results, and the newest messages, keep at a cut."""
_FULL: Final = 0.75
"""How much of it the newest messages may have that were never shown and are too long."""
WORDS: Final = 0.15
_LONGEST: Final = 0.08
_LINES: Final = 0.03
"""What a snapshot may have: words of the user, the longest of them, and lines of one kind."""
_FEWEST: Final = 60
"""Tokens of the room for each message that a snapshot is made from: more would not be shown."""
_LINE: Final = 120
_ANSWER: Final = 500
"""Characters of a line about a call, and about an answer."""
_NOTE: Final = 30
"""Tokens of the sentence that stands for a middle."""
_EDGE: Final = 250
"""Characters of head and tail each that stay of a result which is shown shortened."""


async def bound_request(asker: Asker, inner: Call, request: Request) -> Reply:
    """Ask with what fits; a model that refuses it as too long is asked with half of it.

    Raises:
        RequestTooLong: What is left cannot be made smaller.
    """
    quirks, refused, shown = request.chosen.quirks, 0, request
    window = window_of(request.chosen.model) or UNKNOWN_WINDOW
    limit = min(asker.scope.context.context_budget, int(window * USED))
    surely_fits = not quirks.room and _bound_size(request) <= USED * limit
    while True:
        if not surely_fits:
            shown = await _shorten_request(asker, request, limit)
        try:
            return await inner(shown)
        except RequestTooLong:
            size = estimate_message_tokens(shown.messages) + _measure_tools(shown.tools)
            if size < _SMALLEST or (refused and size > USED * refused):
                quirks.room = 0  # so it is not for its length that it is refused
                raise
            refused, quirks.room, surely_fits = size, size // 2, False


def _measure_tools(tools: Sequence[dict[str, Any]]) -> int:
    return estimate_tokens(canonical([*tools])) if tools else 0


def _bound_size(request: Request) -> float:
    return bound_message_tokens(request.messages) + _measure_tools(request.tools) + _LEAST


async def _shorten_request(asker: Asker, request: Request, limit: int) -> Request:
    """The request with what fits, and with its spare tools where something is left out."""
    spare = [tool for tool in request.spare_tools() if tool not in request.tools]
    offered, quirks = [*request.tools, *spare], request.chosen.quirks
    prompts = estimate_message_tokens(m for m in request.messages if m.type == "system")
    least = (tools := _measure_tools(offered)) + prompts + _LEAST
    if least > limit:
        raise RequestTooLong(say("no_room_for_words", role=asker.role, least=least, most=limit))
    room = max(min(limit, quirks.room or limit), least) - tools
    fit = fit_messages(request.messages, room, attachments=not quirks.room)
    if fit.is_new:
        await _report_cut(asker, request.messages, fit)
    return replace(request, messages=fit.messages, tools=offered if fit.is_cut else request.tools)


async def _report_cut(asker: Asker, whole: Sequence[BaseMessage], fit: "Fit") -> None:
    """Say that the request is from now on shorter than its conversation."""
    await asker.scope.fire("PreCompress", trigger="auto")
    asker.scope.emit({
        "type": "compressed", "task": asker.scope.path, "how": "cut" if fit.count else "masked",
        "before": estimate_message_tokens(whole), "after": estimate_message_tokens(fit.messages),
        "messages": fit.count, "facts": 0, "dropped": 0,
    })  # fmt: skip


@dataclass(frozen=True)
class Fit:
    """The messages of a request that fits."""

    messages: Sequence[BaseMessage]
    is_cut: bool = False
    """They do not say all that they said."""
    is_new: bool = False
    """The newest request before this one was not cut here."""
    count: int = 0
    """Messages that are left out."""


def fit_messages(messages: Sequence[BaseMessage], room: int, *, attachments: bool = True) -> Fit:
    """The messages in about `room` tokens; without `attachments` older ones give way, too.

    System prompt and data before the conversation keep their place. A cut may be wherever a model
    was asked before, which is at each of its messages, and at the end.
    """
    if estimate_message_tokens(messages) <= room and attachments:
        return Fit(messages)
    first = len([*takewhile(_is_opening, messages)])
    data = [m for m in messages[:first] if m.type != "system"]
    left = room - estimate_message_tokens(messages[:first]) + estimate_message_tokens(data)
    most = int(_OPENING * left / max(len(data), 1))
    opening = [_shorten_opening(m, most, attachments=attachments) for m in messages[:first]]
    shown = _Shown(max(room - estimate_message_tokens(opening), int((1 - _OPENING) * left)))
    for message in messages[first:]:
        if message.type == "ai":
            shown.make_room()
        shown.append(message)
    is_new = shown.make_room()
    return Fit([*opening, *shown.snapshot, *shown.messages], True, is_new, len(shown.gone))


def _is_opening(message: BaseMessage) -> bool:
    """Whether a message is no part of the conversation: a prompt, or data before it."""
    return message.type == "system" or (message.type == "human" and message.id is None)


def _shorten_opening(message: BaseMessage, most: int, *, attachments: bool) -> BaseMessage:
    """Data in `most` tokens, the longest sections without their middle; prompts stay whole."""
    if message.type == "system" or estimate_message_tokens([message]) <= most:
        return message
    if isinstance(message.content, str):
        return HumanMessage(shorten_sections(message.content, most))
    blocks = list[Any](message.content)
    while (
        not attachments
        and len(blocks) > 1
        and estimate_message_tokens([HumanMessage(blocks)]) > most
    ):
        del blocks[0]
    if isinstance(data := blocks[-1], dict) and data.get("type") == "text":
        blocks[-1] = {**data, "text": shorten_sections(data["text"], most)}
    return HumanMessage(blocks)


class _Shown:
    """What a request shows of a conversation, while it is read from its beginning."""

    def __init__(self, room: int) -> None:
        self.room, self.messages, self.gone = room, list[BaseMessage](), list[BaseMessage]()
        self.snapshot, self._size, self._sizes = list[BaseMessage](), 0, list[int]()

    def append(self, message: BaseMessage) -> None:
        self.messages.append(message)
        self._sizes.append(size := estimate_message_tokens([message]))
        self._size += size

    def make_room(self) -> bool:
        """Cut if the messages do not fit; returns whether they did not."""
        if self._size <= self.room:
            return False
        self._mask_older_results()
        if self._size > self.room / 2:
            self._leave_out_oldest()
        if self._size > self.room:
            self._shorten_newest()
        return True

    def _put(self, place: int, message: BaseMessage) -> None:
        size = estimate_message_tokens([message])
        self._size += size - self._sizes[place]
        self.messages[place], self._sizes[place] = message, size

    def _mask_older_results(self) -> None:
        """Shorten all results but the newest; those behind the last answer were never shown."""
        place = find_fresh(self.messages)
        protected = self.room * _NEWEST
        while place and protected > 0:
            place -= 1
            if self.messages[place].type == "tool":
                protected -= self._sizes[place]
        for old in range(place + (protected <= 0)):
            if (masked := mask_message(self.messages[old])) is not self.messages[old]:
                self._put(old, masked)

    def _leave_out_oldest(self) -> None:
        """Let the snapshot stand for the oldest messages."""
        border = find_border(self.messages, int(self.room * _NEWEST))
        self.gone += self.messages[:border]
        del self.messages[:border], self._sizes[:border]
        self.snapshot = self._render_snapshot() if self.gone else []
        self._size = estimate_message_tokens(self.snapshot) + sum(self._sizes)

    def _shorten_newest(self) -> None:
        """Show what is too long by itself without its middle."""
        sizes = [estimate_tokens(get_message_text(message)) for message in self.messages]
        left = self.room * _FULL - self._size + sum(sizes)  # pictures may take all of it
        cap = find_cap(sizes, int(max(left, self.room * _NEWEST)))
        for place, (message, size) in enumerate(zip(self.messages, sizes, strict=True)):
            if size > cap:
                share = (cap - _NOTE) / size
                most = max(int(len(get_message_text(message)) * share), 2)
                self._put(place, _shorten_message(message, most))

    def _render_snapshot(self) -> list[BaseMessage]:
        """What is said of the messages that are left out, with the pictures sent with the last."""
        newest = self.gone[-(self.room // _FEWEST) - 1 :]
        users = [m for m in self.gone if m.id and is_of_user(m)][-(self.room // _FEWEST) - 1 :]
        words = [KeptFact(text=m.text, sources=[str(m.id)]) for m in users]
        said = [m for m in newest if m.additional_kwargs.get(ENDS) and m.text.strip()]
        answers = [f"{make_short_name(m.id)} {shorten_text(m.text, _ANSWER)}" for m in said]
        parts = {
            "user_words": map(render_fact, keep_newest_words(words, self.room)),
            "earlier_answers": keep_last_lines(answers, self.room),
            "earlier_calls": keep_last_lines(list_calls(newest), self.room),
        }
        body = "\n\n".join("\n".join([f"{name}:", *lines]) for name, lines in parts.items())
        text = "\n\n".join([say("snapshot_told"), render_section("snapshot", body)])
        blocks = blocks_in(users[-1]) if users else []
        if blocks and estimate_message_tokens([HumanMessage([*blocks])]) <= self.room * WORDS:
            return [HumanMessage([*blocks, {"type": "text", "text": text}])]
        return [HumanMessage(text)]


def find_fresh(messages: Sequence[BaseMessage]) -> int:
    """Where the messages begin that no model has seen: behind the last one of a model."""
    return next((p + 1 for p in range(len(messages) - 1, -1, -1) if messages[p].type == "ai"), 0)


def find_border(messages: Sequence[BaseMessage], most: int) -> int:
    """Where the kept newest messages begin, within `most` tokens; 0 if nothing can be cut.

    The newest turn always stays, and no call is separated from its answer.
    """
    border, tokens, open_ = 0, 0, set[str]()
    for place in range(len(messages) - 1, 0, -1):
        message = messages[place]
        tokens += estimate_message_tokens([message])
        if isinstance(message, ToolMessage):
            open_.add(message.tool_call_id)
            continue
        open_ -= {str(call["id"]) for call in calls_in(message)}
        if border and tokens > most:
            break
        if not open_:
            border = place
    return border


def _shorten_message(message: M, most: int) -> M:
    """A message, of whose words, and of each call, this many characters stay at the edges."""
    if message.type == "ai":
        return _shorten_calls(message, most)
    text, kind, edge = message.text, "words_masked", most // 2
    if message.type == "tool":
        kind = "result_masked"
    note = say(kind, left=len(text) - 2 * edge, id=make_short_name(message.id))
    short: Any = f"{text[:edge]}\n{note}\n{text[-edge:]}"
    if kept := blocks_in(message):
        short = [*kept, {"type": "text", "text": short}]
    return message.model_copy(update={"content": short})


def _shorten_calls(message: M, most: int) -> M:
    """The words, and the arguments of each call, without their middle."""
    words, made = message.content, calls_in(message)
    most = max(most // (2 * len(made) + bool(words)) - 2 * _NOTE, 2)  # quoted text may be twice
    calls: dict[str, list[Any]] = {"tool_calls": [], "invalid_tool_calls": []}
    for call in made:
        text = args if isinstance(args := call["args"], str) else canonical(args)
        short = cut_middle(text, most)
        kept = args if short == text else short if args is text else {"arguments": short}
        calls["invalid_tool_calls" if args is text else "tool_calls"].append({**call, "args": kept})
    said = cut_middle(words, most) if isinstance(words, str) else words
    return message.model_copy(update={**calls, "content": said})


@remember_by_message
def mask_message(message: M) -> M:
    """An older result as it is shown from then on: whole, if that is hardly longer."""
    is_long = isinstance(message, ToolMessage) and len(message.text) > 3 * _EDGE
    return _shorten_message(message, 2 * _EDGE) if is_long else message


def keep_newest_words(words: Sequence[KeptFact], room: int) -> list[KeptFact]:
    """The newest words of a user that have room together, oldest first; the newest always."""
    left, kept = room * WORDS, list[KeptFact]()
    for one in reversed(words):
        most = room * _LONGEST / max(estimate_tokens(one["text"]), 1)
        text = shorten_text(one["text"], int(most * len(one["text"])) + 1)
        left -= estimate_tokens(text)
        if left < 0 and kept:
            break
        kept.insert(0, KeptFact(text=text, sources=one["sources"]))
    return kept


def keep_last_lines(lines: Sequence[str], room: int) -> list[str]:
    """The last lines that have room together."""
    sizes = accumulate(map(estimate_tokens, reversed(lines)))
    return [*lines][len(lines) - sum(size <= room * _LINES for size in sizes) :]


def list_calls(messages: Iterable[BaseMessage]) -> list[str]:
    """The calls among messages, one line each, with the handles of their results."""
    lines, asked = list[str](), dict[str, str]()
    for message in messages:
        if isinstance(message, AIMessage):
            for call in message.tool_calls:
                args = json.dumps(call["args"], ensure_ascii=False)
                asked[str(call["id"])] = shorten_text(f"{call['name']}({args})", _LINE)
        elif isinstance(message, ToolMessage) and message.tool_call_id in asked:
            name = make_short_name(message.id)
            lines.append(f"{name} {asked[message.tool_call_id]}: {message.status}")
    return lines


def render_fact(fact: KeptFact) -> str:
    """A fact on a line, with the handles of its sources."""
    handles = " ".join(map(make_short_name, fact["sources"]))
    return f"- {' '.join(fact['text'].split())} ({handles})"

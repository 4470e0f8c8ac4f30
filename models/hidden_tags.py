"""What a phase of the ReAct loop says, and the tag that nobody but the loop may see.

A thought is a text and then `<agent_meta>{"shouldContinue": …, "reason": …}</agent_meta>`. The tag
is confidential: whatever begins one is taken out of a message before anybody else gets it.

`strip_tags` takes hidden tags out of a whole text, `VisibleText` out of one that is being written:
it holds back what `strip_tags` may take out, so what is shown is the beginning of the final text.
One thing cannot be known early: a text before a `</think>` that nobody opened was a thought, and
is no longer shown then.
"""

import re
from dataclasses import replace
from typing import Any, Final

import regex  # type: ignore[import-untyped]  # its stubs are a package of their own
from langchain_core.messages import AIMessage
from pydantic import ConfigDict, StrictBool

from ..state.contracts import Contract, Text
from ..state.messages import is_words
from ..text.loose_json import extract, strip_thoughts
from ..text.sentences import say, says_nothing
from .reading import Reading, explain_unusable, field_names, read_answer, read_object

_TAG_NAME: Final = r"agent[\s_-]?meta"
_NAME: Final = rf"{_TAG_NAME}(?!data|\]\()"
# Brackets in the ways models write them: escaped, full-width, or as a special token, <|…|>.
_OPENED: Final = r"\\?(?:<|&lt;|\[|＜|〈|《|【)\s*+\|?+\s*+"  # noqa: RUF001 - full-width on purpose
_CLOSED: Final = r"\s*+\|?+\s*+\\?(?:>|&gt;|\]|＞|〉|》|】)?"  # noqa: RUF001 - full-width on purpose
_END: Final = rf"{_OPENED}/\s*+{_NAME}{_CLOSED}"
_TAG: Final = re.compile(
    rf"{_OPENED}{_NAME}(?P<inside>.*?)(?:(?P<end>{_END})|\Z)", re.IGNORECASE | re.DOTALL
)
_CLOSING: Final = re.compile(_END, re.IGNORECASE)
# The flags without their tag, as the last words, maybe with its name before them.
_BARE: Final = re.compile(
    rf"(?:\{{?\s{{0,9}}['\"*_`#]{{0,4}}{_NAME}['\"*_`]{{0,4}}\s*+[:=]?+\s*+)?"
    r"\{(?=[^{}]*['\"]should_?continue['\"])[^{}]*+(?:\}|\Z)[\s`}]*+\Z",
    re.IGNORECASE,
)
# Tags within tags, peeled off layer by layer; who nests them deeper says nothing.
_MOST_LAYERS: Final = 20
# A fence with something in it is read as a whole: what closes it opens none.
_EMPTY_FENCE: Final = re.compile(r"```[ \t]*+\w*+\s*+(?:```|\Z)|(?P<full>```.*?(?:```|\Z))", re.S)
_CUT_TAG: Final = "<agent_meta"


class AgentMeta(Contract):
    """What the tag of a thought holds, exactly."""

    model_config = ConfigDict(extra="forbid")

    should_continue: StrictBool
    reason: Text = ""


def read_thought(
    message: AIMessage, *, must_answer: bool = False, request: str = ""
) -> Reading[AgentMeta]:
    """Read a thought: its text as a message without the tag, and the tag.

    Args:
        message: As the provider gave it.
        must_answer: No step is left, so a thought that wants one has a problem; its tag is
            returned all the same, as is that of a thought without words.
        request: What the answer is to, if the thought ends with one.
    """
    text = message.text
    shown = AIMessage(strip_tags(text), usage_metadata=message.usage_metadata)
    reading: Reading[AgentMeta] = Reading(shown, text=text, wanted="wanted_thought")
    if problem := explain_unusable(message):
        return replace(reading, problems=[problem], complete=False)
    parsed, problems = _parse_tag(strip_thoughts(text))
    if not shown.text:
        problems = [*problems, say("tag_alone")]
    if problems:
        return replace(reading, parsed=parsed, problems=problems)
    if parsed is not None and parsed.should_continue:
        problems = [say("must_answer")] if must_answer else []
    elif says_nothing(shown.text, request):
        problems = [say("says_nothing")]
    return replace(reading, parsed=parsed, problems=problems)


def read_words(
    message: AIMessage,
    *,
    with_tools: bool = False,
    must_call: bool = False,
    answers: str | None = None,
) -> Reading[Any]:
    """Read an action or an observation: calls if tools were offered, else a text.

    Args:
        message: As the provider gave it.
        with_tools: Tools were offered.
        must_call: A text without a call is no answer.
        answers: The request that a text without a call answers; None if it answers none.
    """
    reading: Reading[Any] = read_answer(message, None, with_tools=with_tools)
    shown = strip_message_tags(reading.message)
    problems = reading.problems
    if is_words(shown):
        if not problems and not shown.text.strip():
            problems = [say("empty_answer")]
        elif must_call and not problems:
            problems = [say("must_call")]
        elif not problems and answers is not None and says_nothing(shown.text, answers):
            problems = [say("says_nothing")]
    wanted = "wanted_call" if must_call else "wanted_text"
    return replace(reading, message=shown, problems=problems, wanted=wanted)


def strip_message_tags(message: AIMessage) -> AIMessage:
    """The message with nothing in it that begins a hidden tag; its calls stay as they are."""
    extra = {
        k: v for k, v in message.additional_kwargs.items() if not _mentions_tag(v) or k in _CALLS
    }
    content = message.content
    if isinstance(content, str):
        content = strip_tags(content)
    elif _mentions_tag(content):
        texts = [b for b in content if isinstance(b, str) or b.get("type") == "text"]
        others = [b for b in content if b not in texts and not _mentions_tag(b)]
        shown = strip_tags(message.text)
        content = [*([{"type": "text", "text": shown}] if shown else []), *others]
    return message.model_copy(update={"content": content, "additional_kwargs": extra})


_CALLS: Final = frozenset({"tool_calls", "function_call"})


def _mentions_tag(value: object) -> bool:
    return re.search(_NAME, str(value), re.IGNORECASE) is not None


def strip_tags(text: str) -> str:
    """The text without hidden tags: whole, cut, unclosed, repeated or spelled in another way."""
    shown = strip_thoughts(text)
    for _ in range(_MOST_LAYERS):  # taking one tag out may join the halves of another
        before = shown
        shown = _BARE.sub("", _CLOSING.sub("", _TAG.sub("", shown)))
        shown = _EMPTY_FENCE.sub(r"\g<full>", _strip_tag_start(shown)).strip()
        if shown == before:
            return shown
    return ""


def _strip_tag_start(text: str) -> str:
    """The text without the first letters of a tag at its end, if the answer was cut."""
    stripped = text.rstrip()
    for length in range(len(_CUT_TAG), 1, -1):
        if stripped.lower().endswith(_CUT_TAG[:length]):
            return stripped[:-length]
    return text


def _parse_tag(text: str) -> tuple[AgentMeta | None, list[str]]:
    tags = list(_TAG.finditer(text))
    if not tags:
        return None, [say("tag_missing")]
    read = [_read(tag["inside"]) for tag in tags]
    parsed, problems = read[-1]
    if parsed is None:
        return None, problems
    if any(other != parsed for other, _ in read):
        return None, [say("tag_twice")]
    last = tags[-1]
    # Of a tag that is never closed, what stands behind its object.
    after = text[last.end() :] if last["end"] else last["inside"].rpartition("}")[2]
    if after.strip(" \t\r\n`"):
        return None, [say("tag_not_last")]
    return parsed, []


def _read(inside: str) -> tuple[AgentMeta | None, list[str]]:
    value, problem = extract(inside, field_names(AgentMeta))
    if value is None or problem:
        return None, [say("tag_unreadable")]
    return read_object(value, AgentMeta)


# Of a text that is being written.

# The same as above, for a reader that sees no end: `regex` says what may still match.
_HIDDEN: Final = regex.compile(rf"</?think(?:ing)?>|{_OPENED}/?+\s*+{_TAG_NAME}", regex.IGNORECASE)
_THINK: Final = re.compile(r"<(/?)think(?:ing)?>", re.IGNORECASE)
_THINK_END: Final = regex.compile(r"</think(?:ing)?>", regex.IGNORECASE)
# The flags without their tag are hidden if they are the last words.
_OBJECT: Final = r"\{[^{}]*(?:['\"]should_?continue['\"]|(?:\}[\s`}]*)?\Z)"
_FLAGS: Final = regex.compile(
    rf"\{{?\s{{0,9}}['\"*_`#]{{0,4}}{_TAG_NAME}['\"*_`]{{0,4}}\s*+[:=]?+\s*+(?:{_OBJECT}|\Z)|{_OBJECT}",
    regex.IGNORECASE,
)
_FENCE: Final = "```"
_NOTHING_IN_IT: Final = regex.compile(r"```[ \t]*+\w*+\s*+(?:```|\Z)")


class Throttle:
    """Says when a text that grows is read again: a long one not at every piece."""

    def __init__(self, long: int, part: int) -> None:
        """A text of more than `long` characters is read when it has grown by 1 / `part`."""
        self._long, self._part, self._next = long, part, 0

    def is_due(self, length: int) -> bool:
        """Whether a text of this length is to be read."""
        if length < self._next:
            return False
        self._next = length + max(0, length - self._long) // self._part
        return True


class VisibleText:
    """Reads a text piece by piece, and says what of it may be shown."""

    def __init__(self, *, thinks: bool = False) -> None:
        """Nothing is read yet; `thinks` says that it begins with thoughts, as if a tag said so."""
        self.shown = ""
        """What may be shown by now."""
        self.thoughts = ""
        """What stood in think blocks so far."""
        self.unopened = False
        """Whether thoughts ended that no tag had begun."""
        self._text = "<think>" if thinks else ""
        self._throttle = Throttle(2_000, 200)

    def read(self, piece: str) -> None:
        """Read on."""
        self._text += piece
        if self._throttle.is_due(len(self._text)):
            text = self._split_thoughts().lstrip()
            before = self.shown if text.startswith(self.shown) else ""
            self.shown = before + _cut_hidden(text, before)

    def _split_thoughts(self) -> str:
        """Keep the thoughts, and return what is said aloud."""
        spoken, thoughts, place, inside = "", "", 0, False
        for tag in _THINK.finditer(self._text):
            closes, part = bool(tag[1]), self._text[place : tag.start()]
            if inside and not closes:
                continue
            if inside:
                thoughts += part
            elif closes:
                self.unopened = True
                thoughts, spoken = thoughts + (spoken + part).lstrip(), ""
            else:
                spoken += part
            place, inside = tag.end(), not closes
        rest = self._text[place:]
        if inside:
            end = _THINK_END.search(rest, partial=True)
            rest, thoughts = "", thoughts + (rest[: end.start()] if end else rest)
        self.thoughts = thoughts
        return spoken + rest


def _cut_hidden(text: str, before: str) -> str:
    """What of a text may be shown behind what is shown: no end that may turn out to be hidden."""
    text = text[len(before) :]
    flags = _FLAGS.search(text, partial=True)
    text = text[: flags.start()] if flags else text
    tag = _HIDDEN.search(text, partial=True)
    text = text[: tag.start()] if tag else text
    return _cut_open_fence(text, is_open=before.count(_FENCE) % 2 == 1).rstrip()


def _cut_open_fence(text: str, *, is_open: bool) -> str:
    """The text up to a fence with nothing in it yet; what closes a fence opens none."""
    end, place = 0, text.find(_FENCE)
    while place >= 0:
        if not is_open and _NOTHING_IN_IT.match(text, place, partial=True):
            return text[:place]
        is_open, end = not is_open, place + len(_FENCE)
        place = text.find(_FENCE, end)
    return text[:end] + text[end:].rstrip("`")


_MENTION: Final = regex.compile(rf"{_TAG_NAME}|should_?continue", regex.IGNORECASE)


class VisibleThoughts:
    """Reads thoughts piece by piece; what is hidden is not even mentioned in what is shown."""

    def __init__(self) -> None:
        """Nothing is read yet."""
        self.shown = ""
        self._rest = ""

    def read(self, piece: str) -> None:
        """Read on, up to the first mention."""
        self._rest += piece
        mention = _MENTION.search(self._rest, partial=True)
        more = self._rest[: mention.start()] if mention else self._rest
        self.shown, self._rest = self.shown + more, self._rest[len(more) :]

    @property
    def final_text(self) -> str:
        """The visible rest at the end of the text: an unfinished mention is plain text."""
        is_none = "_" not in self._rest and not _MENTION.match(self._rest)
        return self.shown + (self._rest if is_none else "")

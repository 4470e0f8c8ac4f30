"""What a phase of the ReAct loop says, and the tag that nobody but the loop may see.

A thought is a text and then `<agent_meta>{"shouldContinue": …, "reason": …}</agent_meta>`. The tag
is confidential: whatever begins one is taken out of a message before anybody else gets it.

`visible` takes hidden tags out of a whole text, `VisibleText` out of one that is being written. It
holds back from its first letter on whatever `visible` takes out, so what is shown is the beginning
of what will be visible. One thing cannot be known early: a text before a `</think>` that nobody
opened was a thought, and is no longer shown then.
"""

import re
from dataclasses import replace
from typing import Any, Final

import regex  # type: ignore[import-untyped]  # its stubs are a package of their own
from langchain_core.messages import AIMessage
from pydantic import ConfigDict, StrictBool

from ..state.contracts import Contract, Text
from ..state.messages import is_words
from ..text.sentences import say, says_nothing
from .reading import (
    Reading,
    explain_unusable,
    extract,
    field_names,
    read_answer,
    read_object,
    strip_thoughts,
)

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
        others = [block for block in content if not _is_text(block) and not _mentions_tag(block)]
        shown = strip_tags(message.text)
        content = [*([{"type": "text", "text": shown}] if shown else []), *others]
    return message.model_copy(update={"content": content, "additional_kwargs": extra})


_CALLS: Final = frozenset({"tool_calls", "function_call"})


def _mentions_tag(value: object) -> bool:
    return re.search(_NAME, str(value), re.IGNORECASE) is not None


def _is_text(block: object) -> bool:
    return isinstance(block, str) or (isinstance(block, dict) and block.get("type") == "text")


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
_HIDDEN: Final = regex.compile(
    rf"(?P<think><think(?:ing)?>)|(?P<thought></think(?:ing)?>)|{_OPENED}/?+\s*+{_TAG_NAME}",
    regex.IGNORECASE,
)
_THOUGHT_END: Final = regex.compile(r"</think(?:ing)?>", regex.IGNORECASE)
# The flags without their tag are hidden if they are the last words.
_OBJECT: Final = r"\{[^{}]*(?:['\"]should_?continue['\"]|(?:\}[\s`}]*)?\Z)"
_FLAGS: Final = regex.compile(
    rf"\{{?\s{{0,9}}['\"*_`#]{{0,4}}{_TAG_NAME}['\"*_`]{{0,4}}\s*+[:=]?+\s*+(?:{_OBJECT}|\Z)|{_OBJECT}",
    regex.IGNORECASE,
)
_FENCE: Final = "```"
_NOTHING_IN_IT: Final = regex.compile(r"```[ \t]*+\w*+\s*+(?:```|\Z)")
_LONG: Final = 2_000
_MORE: Final = 50
"""Of what is held back more than `_LONG` is read again when it has grown by one part in so many."""


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
        self._rest = ""
        self._spoken = ""
        self._thinks, self._fenced = thinks, False
        self._next = 0

    def read(self, piece: str) -> None:
        """Read on."""
        self._rest += piece
        if len(self._rest) + len(self._spoken) < self._next:
            return
        while self._rest and self._step():
            pass
        self._show()
        held = len(self._rest) + len(self._spoken)
        self._next = held + max(0, held - _LONG) // _MORE

    def _step(self) -> bool:
        """Go on to the next sign; False if the rest must wait for more."""
        if self._thinks:
            end = _THOUGHT_END.search(self._rest, partial=True)
            self.thoughts += self._rest[: end.start()] if end else self._rest
            return self._advance(end, thinks=False)
        sign = _find_first_sign(self._rest)
        text = self._rest[: sign.start()] if sign else self._rest
        self._spoken += text
        if sign is None or sign.partial or not (sign["think"] or sign["thought"]):
            self._rest = self._rest[len(text) :]
            return False
        if sign["thought"]:
            self.unopened = True
            self.thoughts += (self.shown + self._spoken).lstrip()
            self.shown = self._spoken = ""
            self._fenced = False
        return self._advance(sign, thinks=bool(sign["think"]))

    def _advance(self, sign: Any, *, thinks: bool) -> bool:
        if sign is None or sign.partial:
            self._rest = self._rest[sign.start() :] if sign else ""
            return False
        self._rest, self._thinks = self._rest[sign.end() :], thinks
        return True

    def _show(self) -> None:
        """Show the text, without an end that may turn out to be hidden."""
        text = self._spoken if self.shown else self._spoken.lstrip()
        flags = _FLAGS.search(text, partial=True)
        text = text[: flags.start()] if flags else text
        text = self._cut_open_fence(text)
        half = _HIDDEN.search(text, partial=True)
        text = (text[: half.start()] if half else text).rstrip()
        if text:
            whole = self._spoken if self.shown else self._spoken.lstrip()
            self.shown, self._spoken = self.shown + text, whole[len(text) :]

    def _cut_open_fence(self, text: str) -> str:
        """The text up to a fence with nothing in it yet; what closes a fence opens none."""
        end, place = 0, text.find(_FENCE)
        while place >= 0:
            if not self._fenced and _NOTHING_IN_IT.match(text, place, partial=True):
                return text[:place]
            self._fenced, end = not self._fenced, place + len(_FENCE)
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
        """What is shown at the end of the text: a mention that was only begun is none."""
        is_none = "_" not in self._rest and not _MENTION.match(self._rest)
        return self.shown + (self._rest if is_none else "")


def _find_first_sign(text: str) -> Any:
    """The first sign of something hidden; half a one before another may become one with it."""
    sign = _HIDDEN.search(text, partial=True)
    for _ in range(_MOST_LAYERS):
        before = sign and _HIDDEN.search(text, endpos=sign.start(), partial=True)
        if before is None or before.start() == sign.start():
            break
        sign = before
    return sign

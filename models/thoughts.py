"""What a phase of the ReAct loop says, and the tag that nobody but the loop may see.

A thought is a text and then `<agent_meta>{"shouldContinue": …, "reason": …}</agent_meta>`. The tag
is confidential: whatever begins one is taken out of a message before anybody else gets it.
"""

import re
from dataclasses import replace
from typing import Any, Final

from langchain_core.messages import AIMessage
from pydantic import ConfigDict, StrictBool

from ..state.contracts import Contract, Text
from ..state.messages import is_words
from ..text.empty_phrases import says_nothing
from ..text.told import say
from .reading import Reading, extract, field_names, read_answer, read_object, spoken, unusable

TAG_NAME: Final = r"agent[\s_-]?meta"
_NAME: Final = rf"{TAG_NAME}(?!data|\]\()"
# Brackets in the ways models write them: escaped, full-width, or as a special token, <|…|>.
OPENED: Final = r"\\?(?:<|&lt;|\[|＜|〈|《|【)\s*+\|?+\s*+"  # noqa: RUF001 - full-width on purpose
_CLOSED: Final = r"\s*+\|?+\s*+\\?(?:>|&gt;|\]|＞|〉|》|】)?"  # noqa: RUF001 - full-width on purpose
_END: Final = rf"{OPENED}/\s*+{_NAME}{_CLOSED}"
_TAG: Final = re.compile(
    rf"{OPENED}{_NAME}(?P<inside>.*?)(?:(?P<end>{_END})|\Z)", re.IGNORECASE | re.DOTALL
)
_CLOSING: Final = re.compile(_END, re.IGNORECASE)
# The flags without their tag, as the last words, maybe with its name before them.
_BARE: Final = re.compile(
    rf"(?:\{{?\s{{0,9}}['\"*_`#]{{0,4}}{_NAME}['\"*_`]{{0,4}}\s*+[:=]?+\s*+)?"
    r"\{(?=[^{}]*['\"]should_?continue['\"])[^{}]*+(?:\}|\Z)[\s`}]*+\Z",
    re.IGNORECASE,
)
# Tags within tags, peeled off layer by layer; who nests them deeper says nothing.
MOST_LAYERS: Final = 20
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
            told all the same, as is that of a thought without words.
        request: What the answer is to, where the thought ends with one.
    """
    text = message.text
    shown = AIMessage(visible(text), usage_metadata=message.usage_metadata)
    reading: Reading[AgentMeta] = Reading(shown, text=text, wanted="wanted_thought")
    if problem := unusable(message):
        return replace(reading, problems=[problem], complete=False)
    parsed, problems = _meta(spoken(text))
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
    """Read an action or an observation: calls where tools were offered, else a text.

    Args:
        message: As the provider gave it.
        with_tools: Tools were offered.
        must_call: A text without a call is no answer.
        answers: The request that a text without a call answers; None where it answers none.
    """
    reading: Reading[Any] = read_answer(message, None, with_tools=with_tools)
    shown = without_tag(reading.message)
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


def without_tag(message: AIMessage) -> AIMessage:
    """The message with nothing in it that begins a hidden tag; its calls stay as they are."""
    extra = {k: v for k, v in message.additional_kwargs.items() if not _tells(v) or k in _CALLS}
    content = message.content
    if isinstance(content, str):
        content = visible(content)
    elif _tells(content):
        others = [block for block in content if not _is_text(block) and not _tells(block)]
        shown = visible(message.text)
        content = [*([{"type": "text", "text": shown}] if shown else []), *others]
    return message.model_copy(update={"content": content, "additional_kwargs": extra})


_CALLS: Final = frozenset({"tool_calls", "function_call"})


def _tells(value: object) -> bool:
    return re.search(_NAME, str(value), re.IGNORECASE) is not None


def _is_text(block: object) -> bool:
    return isinstance(block, str) or (isinstance(block, dict) and block.get("type") == "text")


def visible(text: str) -> str:
    """The text without hidden tags: whole, cut, unclosed, repeated or spelled in another way."""
    shown = spoken(text)
    for _ in range(MOST_LAYERS):  # taking one tag out may join the halves of another
        before = shown
        shown = _BARE.sub("", _CLOSING.sub("", _TAG.sub("", shown)))
        shown = _EMPTY_FENCE.sub(r"\g<full>", _without_beginning(shown)).strip()
        if shown == before:
            return shown
    return ""


def _without_beginning(text: str) -> str:
    """The text without the first letters of a tag at its end, where the answer was cut."""
    stripped = text.rstrip()
    for length in range(len(_CUT_TAG), 1, -1):
        if stripped.lower().endswith(_CUT_TAG[:length]):
            return stripped[:-length]
    return text


def _meta(text: str) -> tuple[AgentMeta | None, list[str]]:
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

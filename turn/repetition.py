"""Finds loops: the same calls with the same results, or the same words. Pure.

A read that repeats a cycle is answered with `Repeat.text` and does not run; a write runs, and the
warning goes with its result. `count_strikes` tells from the records whether the model was warned
or the step must end.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, Literal

from ..state.agent import DELEGATE
from ..state.calls import Evidence
from ..state.context import DEFAULTS
from ..text.canonical import canonical
from ..text.sentences import say

REPEATED: Final = "repeated"
LOOP_DETECTED: Final = "loop_detected"

# Cycle lengths, thresholds and chunks are those of gemini-cli's loop detection. It looks at the
# calls alone; here a new result is progress, and the model is warned before the end.
LONGEST_CYCLE: Final = 5
STUCK_AT: Final = DEFAULTS.loop_repeats
LAST_STRIKE: Final = 2
CHUNK: Final = 50
CHUNK_TIMES: Final = DEFAULTS.loop_phrases
_CLOSE: Final = 5
_WORDS_SHOWN: Final = 200
_TEXT_WINDOW: Final = 5_000
_LONGEST_WORD: Final = 7  # ordinals up to this one are words

_ANY_RESULT: Final = "\0"
"""An agent that is given the same work again tells it in other words: they are no progress."""

_Token = tuple[str, str, str]
Content = Callable[[str, Mapping[str, Any]], str]


@dataclass(frozen=True)
class Repeat:
    """A call that continues a cycle of calls which brought nothing new."""

    times: int
    """Which repetition of the cycle this is."""
    length: int
    """Calls in the cycle, 1 to 5."""
    same_as: str
    """Evidence id of the identical earlier call that was really answered."""
    result: str
    """What that call gave."""
    stuck: bool
    """The model was warned and went on; the step must end."""

    def is_same(self, result: str) -> bool:
        """Whether the call brought what the earlier ones did."""
        return self.result in (result, _ANY_RESULT)

    @property
    def reason(self) -> Literal["repeated", "loop_detected"]:
        """The word for the record."""
        return "loop_detected" if self.stuck else "repeated"

    @property
    def text(self) -> str:
        """The answer to a call that is not made: the known result, and what to do instead."""
        return say(
            "repeated_call" if self.length == 1 else "repeated_round",
            times=self._nth,
            length=self.length,
            advice=say("work_ends_here" if self.stuck else "use_this_result"),
            evidence=self.same_as,
            result=self.result,
        )

    def build_warning(self, *, again: bool) -> str:
        """The warning beside the result of a call that ran; `again` if the result is not new."""
        advice = say("work_ends_here") if again and self.stuck else say("repeat_if_meant")
        return say("made_again", times=self._nth, advice=advice)

    @property
    def _nth(self) -> str:
        nth = self.times if self.times <= _LONGEST_WORD else ""
        return say(f"ordinal_{nth}" if nth else "ordinal", number=self.times)


def find_repeat(
    history: Sequence[Evidence],
    tool: str,
    arguments: Mapping[str, Any],
    *,
    again: bool = False,
    content: Content = lambda _, arguments: canonical(arguments),
    stuck_at: int = STUCK_AT,
) -> Repeat | None:
    """The cycle of 1 to 5 calls that a call would repeat too often; None if it may run.

    A call with new arguments or a new result ends every cycle. An answer from memory or from this
    guard counts as the result it showed; the same failure of several calls of a message is one.

    Args:
        history: The calls of the task or turn before this message, oldest first.
        tool: The name the model used.
        arguments: What the call would run with.
        again: The model asks for a fresh result: only calls that really ran count.
        content: From tool and arguments to what makes two calls the same.
        stuck_at: The repetition that ends the work; two before it the model is warned.
    """
    most, warned_at = LONGEST_CYCLE * stuck_at, max(stuck_at - 2, 2)
    called = [r for r in history if r.get("tool")]
    # A read is not made if an equal one in the same message has failed: one failure, not two.
    records = [r for r in called if not (r["status"] == "error" and r.get("reused_from"))][-most:]
    key = (tool, content(tool, arguments))
    if not any(
        r["tool"] == tool and key == _identify_call(r, content) for r in records[-LONGEST_CYCLE:]
    ):
        return None
    if again:
        ran = [r for r in called if not (r.get("same_as") or r.get("reused_from"))][-most:]
        if _find_cycle(_build_tokens(ran, history, content), key, warned_at) is None:
            return None
    tokens = _build_tokens(records, history, content)
    found = _find_cycle(tokens, key, warned_at)
    if found is None:
        return None
    length, times = found
    before = records[-length]
    known = before.get("same_as") or before["id"]
    warned = any(record.get("same_as") for record in records[-length:])
    return Repeat(times, length, known, tokens[-length][2], stuck=warned and times >= stuck_at)


def count_strikes(records: Sequence[Mapping[str, Any]]) -> int:
    """What the guard said about these calls: 0 nothing, 1 a warning, LAST_STRIKE the end."""
    reasons = {record.get("reason") for record in records if record.get("same_as")}
    return LAST_STRIKE if LOOP_DETECTED in reasons else int(REPEATED in reasons)


def describe_loop(history: Sequence[Evidence], turn: str = "") -> str:
    """Which call the guard ended a step at, in words for the task's feedback."""
    last = next(r for r in reversed(history) if r.get("reason") == LOOP_DETECTED)
    text = say("loop_of_calls", tool=last["tool"], first=last.get("same_as"), last=last["id"])
    return say("seen_in_turn", what=text, turn=turn) if turn else text


def _find_cycle(
    tokens: Sequence[_Token], key: tuple[str, str], warned_at: int
) -> tuple[int, int] | None:
    """The shortest cycle that the call goes on with: its length, and which repetition this is."""
    for length in range(1, min(LONGEST_CYCLE, len(tokens) // 2) + 1):
        if tokens[-length][:2] != key:
            continue
        same = 0
        while same + length < len(tokens) and tokens[-same - 1] == tokens[-same - 1 - length]:
            same += 1
        times = (same + length) // length + 1
        if times >= warned_at:
            return length, times
    return None


def _identify_call(record: Evidence, content: Content) -> tuple[str, str]:
    tool = str(record["tool"])
    return tool, content(tool, record["arguments"])


def _build_tokens(
    records: Sequence[Evidence], history: Sequence[Evidence], content: Content
) -> list[_Token]:
    """These calls as tool, arguments and result; a result shown again is the one it shows."""
    again = {record["same_as"] for record in records if record.get("same_as")}
    results = {r["id"]: _read_result(r) for r in history if r["id"] in again} if again else {}
    return [
        (
            *_identify_call(record, content),
            results.get(record.get("same_as", ""), _read_result(record)),
        )
        for record in records
    ]


def _read_result(record: Evidence) -> str:
    """What counts as the result of a call; that of an agent is always in other words."""
    return _ANY_RESULT if record["tool"] == DELEGATE else record["result"]


def find_repeated_words(texts: Sequence[str], repeats: int, phrases: int) -> str:
    """The words that come again in an assistant's texts, oldest first; "" if none do.

    The same text counts if it is there `repeats` times, whatever its length; a part of a text as
    `find_repeated_text` says, `phrases` times.
    """
    said = Counter(words for text in texts if (words := " ".join(text.split())))
    words, times = said.most_common(1)[0] if said else ("", 0)
    return words[:_WORDS_SHOWN] if times >= repeats else find_repeated_text(texts, phrases)


def find_repeated_text(texts: Sequence[str], times: int = CHUNK_TIMES) -> str:
    """The words that come again and again in an assistant's texts, oldest first; "" if none do.

    A chunk of 50 characters counts if it is there 10 times without overlap, on average within 250
    characters, with at most half as many different texts between; half of that if a character is
    a syllable or a word. Code, tables, lists, quotes, headings and dividers separate passages.
    """
    if sum(map(len, texts)) < CHUNK // 2 * times:
        return ""
    for passage in _split_passages(texts):
        is_wide = len(passage.encode("utf-8", "replace")) > 2 * len(passage)
        size = CHUNK // 2 if is_wide else CHUNK
        places: dict[str, list[int]] = {}
        for start in range(len(passage) - size + 1):
            chunk = passage[start : start + size]
            seen = places.setdefault(chunk, [])
            if not seen or start - seen[-1] >= size:
                seen.append(start)
                if _is_chant(passage, seen, times, size):
                    return chunk.strip()
    return ""


def _is_chant(passage: str, places: Sequence[int], times: int, size: int) -> bool:
    """Whether the last places of a chunk are close together, with little new text between."""
    last = places[-times:]
    if len(last) < times or last[-1] - last[0] > _CLOSE * size * (times - 1):
        return False
    between = {passage[a:b] for a, b in pairwise(last)}
    return len(between) <= times // 2


_FENCE: Final = re.compile(r"\s*(```|~~~)")
_SET_APART: Final = re.compile(r"\s*(\||>|#|[-*+•]\s|\d+[.)]\s|[-=*_+|:]{3,}\s*$)|(?: {4}|\t)\S")


def _split_passages(texts: Sequence[str]) -> Iterator[str]:
    """The prose in these texts, parted where something else stands between."""
    prose: list[str] = []
    for text in texts:
        fenced = False
        for line in text.splitlines():
            fence = bool(_FENCE.match(line))
            if fence or fenced or _SET_APART.match(line):
                yield _join_lines(prose)
                prose = []
            else:
                prose.append(line)
            fenced = fenced != fence
    yield _join_lines(prose)


def _join_lines(lines: Sequence[str]) -> str:
    return " ".join(" ".join(lines).split())[-_TEXT_WINDOW:]

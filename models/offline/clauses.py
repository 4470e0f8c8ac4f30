"""What a goal says: its clauses, the values written in it, and its words. Pure."""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

READ: Final = 40_000
"""Characters of a text that are read: matching words must stay fast on any input."""


@lru_cache(maxsize=20_000)
def stem(word: str) -> str:
    """Cut the commonest English endings; rough, but the same for the same word."""
    word = word.lower()
    for ending in () if word.endswith("ss") else ("ies", "ing", "ed", "es", "s", "e"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)] + ("y" if ending == "ies" else "")
    return word


def stems(text: str) -> frozenset[str]:
    """The stems of a list of words."""
    return frozenset(map(stem, text.split()))


_MEANINGLESS: Final = stems(
    "a an the and or but then also please of in on at to from for by with as into under inside is "
    "are was were be am do does did has have had it its this that these those there here i me my "
    "we us our you your he she his her they them their what which who whose when where why how "
    "will would can could should shall may must not no yes if so just only any some all every each "
    "both many much tell say know want need like one"
)
_QUOTED: Final = re.compile(r"`[^`\n]+`|\"[^\"]*\"|“[^”]*”|(?<!\w)'[^'\n]+'(?!\w)")
_CUT: Final = re.compile(r"(?i)\n|(?<=[.!?;])\s+|;\s*|,?\s+(?:and then|and|then)\s+|,\s+")
_COURTESY: Final = re.compile(
    r"(?i)(?:[-*•\s]|\d+[.)](?=\s|$)|(?:please|and|then|also|first|next|finally|now|hello|hi|thanks|"
    r"i(?: want|'d like| would like)(?: you)? to|(?P<can>can|could|would|will) you)\b)+[\s,]*"
)
_QUESTION: Final = re.compile(
    r"(?i)(?:who|whose|what|which|when|where|why|how|is|are|was|were|does|did|has|tell|say)\b|.*\?$"
)
_NUMBER: Final = re.compile(r"[$€£]?(-?\d+(?:\.\d+)?)[%$€£]?")
_PATH: Final = re.compile(r"[\w~.*-]*/[\w/.*~-]*|[\w*-][\w.*-]*\.[a-z]\w{0,7}|https?://.+", re.I)
_CODE: Final = re.compile(r"(?=.*\d)[\w.:+-]*[A-Za-z:_-][\w.:+-]*|[\w.+-]+@[\w.-]+")
_LEADS_TO_NAME: Final = ("in", "inside", "into", "under", "for", "at", "of")


@dataclass(frozen=True)
class Value:
    """A value in a clause: a `text` in quotes or like A-100, a `path`, a `number`, or a `name`.

    A name is a guess: it has a capital or follows 'in', 'for' and the like. `before` is the stem
    of the word in front: 'the title "Tea"'.
    """

    kind: str
    text: str
    before: str


def clauses(goal: str) -> list[str]:
    """Cut a goal at sentences, lines, commas, 'and' and 'then', but never inside quotes.

    A piece of one word asks for nothing by itself and stays with its neighbour.
    """
    text = re.sub("[\ue000\ue001]", "", goal[:READ])
    quoted = _QUOTED.findall(text)
    numbers = iter(range(len(quoted)))
    masked = _QUOTED.sub(lambda _: f"\ue000{next(numbers)}\ue001", text)
    found: list[str] = []
    for piece in map(_tidied, _CUT.split(masked)):
        if found and piece and (len(piece.split()) < 2 or len(found[-1].split()) < 2):
            found[-1] = f"{found[-1]} and {piece}"
        elif re.search(r"[^\W_]|\ue000", piece):
            found.append(piece)
    if len(goal) > READ:
        found.append(f"… {len(goal) - READ:,} more characters, which were not read")
    whole = [re.sub("\ue000(\\d+)\ue001", lambda m: quoted[int(m[1])], p) for p in found]
    return whole or ([goal] if goal else [])


def _tidied(piece: str) -> str:
    courtesy = _COURTESY.match(piece.strip())
    bare = piece.strip()[courtesy.end() :] if courtesy else piece.strip()
    return bare.rstrip(" .!,;?" if courtesy and courtesy["can"] else " .!,;")


def is_question(clause: str) -> bool:
    """Whether it asks to be told something, rather than to have something done."""
    return _QUESTION.match(clause) is not None


def values(clause: str) -> list[Value]:
    """The values written in a clause, in its order; guessed names come last."""
    found, before = [], ""
    for token in re.findall(rf"{_QUOTED.pattern}|[^\s\"`“]+", clause[:READ]):
        found.append(_value(token, before))
        before = token.strip(".,;:!?()").lower()
    return sorted((v for v in found if v is not None), key=lambda value: value.kind == "name")


def _value(token: str, before: str) -> Value | None:
    if _QUOTED.fullmatch(token):
        return Value("text", token[1:-1], stem(before))
    bare = token.strip(",;:!?()'").rstrip(".").removesuffix("'s")
    if number := _NUMBER.fullmatch(bare):
        return Value("number", number[1], stem(before))
    for kind, pattern in (("path", _PATH), ("text", _CODE)):
        if pattern.fullmatch(bare):
            return Value(kind, bare, stem(before))
    named = before and (bare.istitle() or bare.isupper() or before in _LEADS_TO_NAME)
    return Value("name", bare, stem(before)) if named and words(bare) else None


def words(text: str) -> list[str]:
    """The stems of the words that mean something, each once, in their order."""
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text[:READ])
    found = (word.lower() for word in re.findall(r"[^\W_]+", apart))
    kept = (stem(word) for word in found if len(word) > 1)
    return [word for word in dict.fromkeys(kept) if word not in _MEANINGLESS]


def wanted(clause: str) -> list[str]:
    """The stems of what is asked, first the verb, without the values written in it."""
    bare = (token for token in _QUOTED.sub(" ", clause).split() if _value(token, "") is None)
    return words(" ".join(bare))

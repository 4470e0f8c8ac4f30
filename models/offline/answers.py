"""Picks from texts what answers a question, without a language model: passages, fields, counts."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from .known import json_values
from .words import READ_LIMIT, best_related, content_words, raw_words, stem, stems, words

NO_MODEL: Final = "No language model is configured"
NO_ANSWER: Final = (
    f"{NO_MODEL}, so this cannot be answered. Set OPENAI_API_KEY, or LOOPWRIGHT_MODEL to a "
    "model such as 'openai:gpt-5.4-mini', and ask again."
)
# Characters of one result that are kept where it is shown or handed on.
SHOWN: Final = 6_000
_ASKED_ABOUT_ASKING: Final = stems(
    "tell say explain answer give know what who name many much number count summarise "
    "summarize sum report list show find according file result sag dime extract identify "
    "determine value state"
)


_VAGUE: Final = stems("tell say give show result results answer outcome output know report explain")


@dataclass(frozen=True)
class Picked:
    """What was found: the text, and the share of the question's words that it covers (0 to 1)."""

    text: str
    share: float


def pick(question: str, texts: Sequence[str]) -> Picked:
    """The passages of the texts that answer the question best; share 0 where none touches it."""
    if re.search(r"(?i)\bsummar|\bsum up\b|\boverview\b", question):
        return Picked(
            "\n\n".join(shorten(text, question, 1_200) for text in texts),
            1.0 if any(texts) else 0.0,
        )
    if re.search(r"(?i)\bhow many\b|\bnumber of\b|^\W*count\b", question):
        counted = count(question, texts)
        if counted:
            return Picked(counted, 1.0)
    asked = content_words(question)
    wanted = [word for word in asked if word not in _ASKED_ABOUT_ASKING] or [
        w for w in asked if w not in _VAGUE
    ]
    if not wanted and texts:
        return Picked(shorten(texts[-1], question), 1.0)
    passages = [passage for text in texts for passage in split(text)]
    if not wanted or not passages:
        return Picked("", 0.0)
    weights = {word: _weight(word, passages) for word in wanted}
    scored = [(_score(passage, weights, question), place) for place, passage in enumerate(passages)]
    best = max(score for score, _ in scored)
    if best <= 0:
        return Picked("", 0.0)
    many = (
        8 if re.search(r"(?i)\bwhich\b|\ball\b|\bevery\b|\blist\b|\bwhat \w+s\b", question) else 3
    )
    kept = [place for score, place in scored if score >= 0.8 * best][:many]
    chosen = list(dict.fromkeys(_with_next(passages, place, wanted) for place in kept))
    covered = [word for word in wanted if best_related(word, words(" ".join(chosen)))]
    return Picked("\n".join(chosen), len(covered) / len(wanted))


def split(text: str) -> list[str]:
    """A text as passages: sentences of prose, lines, or `path: value` lines of JSON."""
    text = text[:READ_LIMIT]
    values = list(json_values(text.lstrip())) if text.lstrip()[:1] in ("{", "[") else []
    if values:
        return [line for value in values for line in _flat(value, "")][:2_000]
    lines = _blocks(text) or [line.strip() for line in text.splitlines() if line.strip()]
    return [
        part.strip()
        for line in lines
        for part in re.split(r"(?<=[.!?。])\s+(?=[^\Wa-z])", line)
        if part.strip()
    ][:4_000]


def _blocks(text: str) -> list[str]:
    """Records of 'Label: value' lines with blank lines between them, one passage each."""
    blocks = [block.strip() for block in re.split(r"\n\s*\n", text) if block.strip()]
    labelled = [
        block for block in blocks if len(re.findall(r"(?m)^[ \t]*[\w -]{1,30}:\s", block)) >= 2
    ]
    return (
        [" | ".join(line.strip() for line in block.splitlines()) for block in blocks]
        if len(labelled) > 1
        else []
    )


def _flat(value: object, path: str, depth: int = 0) -> Iterable[str]:
    if isinstance(value, dict) and depth < 8:
        plain = {key: item for key, item in value.items() if not isinstance(item, dict | list)}
        if plain:
            fields = ", ".join(f"{key}: {item}" for key, item in plain.items())
            yield f"{path}: {fields}" if path else fields
        for key, item in value.items():
            if isinstance(item, dict | list):
                yield from _flat(item, f"{path}.{key}" if path else str(key), depth + 1)
    elif isinstance(value, list) and depth < 8:
        for item in value[:500]:
            yield from _flat(item, path, depth + 1)
    else:
        yield f"{path}: {value}" if path else str(value)


def _weight(word: str, passages: Sequence[str]) -> float:
    having = sum(1 for passage in passages[:2_000] if word in passage.lower())
    return 1.0 + 1.0 / (1 + having)


_KINDS: Final = (
    (
        re.compile(r"(?i)\bwho(?:se|m)?\b"),
        re.compile(
            r"[A-Z][a-z]+ [A-Z][a-z]+|@|"
            r"(?<=[a-z:] )[A-Z][a-z]+"
        ),
    ),
    (
        re.compile(r"(?i)\bwhen\b|\bdate\b"),
        re.compile(
            r"\d{4}-\d\d|\d{1,2}[:.]\d\d|"
            r"(?i:\b(?:mon|tues|wednes|thurs|fri|"
            r"satur|sun)day|\d+ (?:days?|weeks?|"
            r"months?)|january|february|march|april|"
            r"june|july|august|september|october|"
            r"november|december)\b"
        ),
    ),
    (re.compile(r"(?i)\bhow (?:many|much|long|often|old)\b"), re.compile(r"\d")),
    (re.compile(r"(?i)\bwhere\b"), re.compile(r"/|\b(?:in|at) [A-Z]")),
)


def _score(passage: str, weights: dict[str, float], question: str) -> float:
    told = set(words(passage))
    score = sum(
        weight * (1.0 if word in told else best_related(word, told))
        for word, weight in weights.items()
    )
    if score and any(asks.search(question) and fits.search(passage) for asks, fits in _KINDS):
        score += 0.75
    return score - min(len(passage) / 4_000, 0.5) if score else 0.0


def _with_next(passages: Sequence[str], place: int, wanted: Sequence[str]) -> str:
    """A heading or a bare label goes with the passage after it."""
    passage = passages[place]
    bare = (
        passage.startswith("#")
        or passage.endswith(":")
        or all(word in wanted for word in content_words(passage))
    )
    follows = passages[place + 1 : place + 2]
    return f"{passage.lstrip('# ')} {follows[0]}" if bare and follows else passage


def count(question: str, texts: Sequence[str]) -> str:
    """Count what 'how many …' asks for, or '' where that cannot be done reliably."""
    match = re.search(
        r"(?i)\bhow many\s+(.+)|\bnumber of\s+(.+)|^\W*count\s+(?:the\s+|all\s+)?(.+)", question
    )
    if match is None:
        return ""
    asked = content_words(next((group for group in match.groups() if group), ""))[:3]
    for text in reversed(texts):
        for line in split(text):
            for noun in asked[:1]:
                stated = re.search(r"(\d[\d,.]*)\s+((?:\w+\s)?\w+)", line)
                if stated and noun in words(stated[2]) and not re.match(r"\d{4}-", line):
                    return line
        found = _items(text, asked)
        if found is not None:
            return f"{found} (counted in the result)"
    return ""


def _items(text: str, asked: Sequence[str]) -> int | None:
    for value in json_values(text):
        items = _list_of(value, asked)
        if items is not None:
            return items
    lines = [line for line in text[:READ_LIMIT].splitlines() if line.strip()]
    if asked and asked[0] in ("lin", "line", stem("lines")):
        return len(lines)
    labelled = [line for line in lines if asked and words(line)[:2] and asked[0] in words(line)[:2]]
    if len(labelled) >= 2:
        return len(labelled)
    short = [
        line
        for line in lines
        if len(raw_words(line)) <= 12 and not line.rstrip().endswith((".", ":"))
    ]
    return len(short) if lines and len(short) == len(lines) and len(lines) > 1 else None


def _list_of(value: Any, asked: Sequence[str]) -> int | None:
    if isinstance(value, list):
        return len(value)
    if isinstance(value, dict):
        lists = {key: item for key, item in value.items() if isinstance(item, list)}
        named = [
            item
            for key, item in lists.items()
            if any(best_related(word, words(key)) for word in asked)
        ]
        if named or len(lists) == 1:
            return len((named or list(lists.values()))[0])
    return None


def shorten(text: str, question: str, limit: int = SHOWN) -> str:
    """A long text as its beginning, the lines that match the question, and its end."""
    if len(text) <= limit:
        return text
    third = limit // 3
    wanted = [
        word for word in content_words(question[:READ_LIMIT]) if word not in _ASKED_ABOUT_ASKING
    ]
    middle, size = [], 0
    for line in text[third:-third].splitlines():
        if size < third and wanted and set(wanted) & set(words(line)):
            middle.append(line[:500])
            size += len(line[:500])
    kept = ["…", *middle, "…"] if middle else [f"… ({len(text) - 2 * third} characters left out) …"]
    head, tail = text[:third], text[-third:]
    if "\n" in head and "\n" in tail:  # whole lines, where there are lines
        head, tail = head.rpartition("\n")[0], tail.partition("\n")[2]
    return "\n".join([head, *kept, tail])


_FAILED: Final = re.compile(
    r"(?i)^\W*(?:error\b|(?:[\w-]+\s){0,3}(?:error|exception|failed|failure)\b\s*[:!(]|"
    r"access denied|permission denied|"
    r"unknown (?:tool|command)|[^\s:]+: error\b|invalid (?:argument|input|params|arguments)|"
    r"not found\b|traceback )"
)


def reads_as_error(text: str) -> bool:
    """Whether a short result is an error told as text, as many tools do."""
    return len(text) < 2_000 and bool(_FAILED.match(text.lstrip()))


_NOTHING: Final = re.compile(
    r"(?i)^\W*(?:no (?:\w+ ){0,3}(?:found|match\w*|results?)\b.*|nothing found.*|\[\]|\{\}|"
    r"null|none|0 (?:results|matches).*)?\W*$",
    re.DOTALL,
)


def reads_as_nothing(text: str) -> bool:
    """Whether a result says that nothing was found."""
    if len(text) >= 300:
        return False
    values = list(json_values(text)) if text.lstrip()[:1] == "{" else []
    lists = [item for value in values if isinstance(value, dict) for item in value.values()]
    return bool(_NOTHING.match(text)) or (
        bool(lists) and all(item in ([], {}, None, 0) for item in lists)
    )

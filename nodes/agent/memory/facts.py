"""What of a summary is proven: each fact by the messages it names, word by word. Pure.

A model that sums up forgets, which `recall` mends; what it invents nothing would mend. So a fact
whose numbers, names, paths and quotes do not all stand in its sources is dropped, and one most of
whose words do not.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import Final

from langchain_core.messages import AnyMessage

from ....state.messages import TOLD, calls_in
from ....state.snapshot import OF_USER, SECTIONS, Fact, KeptFact, Snapshot, is_of_user
from ....text.words import words_of

_MOST_SOURCES: Final = 12
"""Who names the whole conversation as the source names none."""
_SHARE: Final = 0.75
"""How many of a fact's words must be exceeded by those that its sources say."""

_TOKEN: Final = re.compile(r"[A-Za-z0-9\u00c0-\u024f_./\\@#:%+\-=$€£~&?]+")
_EXACT: Final = re.compile(r"\d|[/\\_@=]|\w[.:]\w|[a-z][A-Z]")
_QUOTED: Final = re.compile(
    r'"([^"\n]{2,})"|(?<!\w)\'([^\'\n]{2,})\'(?!\w)|`([^`\n]{2,})`|“([^“”\n]{2,})”'
    r"|「([^「」\n]{2,})」|『([^『』\n]{2,})』|《([^《》\n]{2,})》"
)
_NUMERALS: Final = re.compile("[零〇一二两三四五六七八九十百千万亿]{2,}")
_WORD: Final = re.compile(r"[^\W\d_]+")
_SENTENCE_END: Final = re.compile(r"[.!?](?=\s|$)|[\u3002\uff01\uff1f\uff1b;\n]")
_DENIAL: Final = re.compile(
    r"\b(?:not?|never|none|nobody|nothing|nowhere|neither|nor|without|cannot|unless|except|only"
    r"|avoid|forbidden|forbids?|prohibited|nicht|kein\w*|niemals?|nie)\b|n['\u2019]t\b"
    r"|[不没无勿别未非莫]|禁止|避免|只|仅",
    re.IGNORECASE,
)
_HANDLE: Final = re.compile(r"(?<!\s)\s*[(\[]?\bm-[0-9a-f]{8}\b[)\]]?")

_GLUE: Final = """
a about after again all also an and any are as asked at be because been before but by call called
can cannot changed contains created decided did do does done each every exists file files for found
from gave goal had has have i in into is it its just last learnt made message must needs next no
not now of on once one only or other out over read result results said say says see set should so
some still step steps task tasks than that the their them then there these they this those through
to told tool tools turn up use used user users uses using via wanted wants was we were what when
where which while who will with without wrote you your 用户 任务 工具 结果 文件 需要 已经
"""


def proven(
    answer: Snapshot, sources: Mapping[str, AnyMessage]
) -> tuple[dict[str, list[KeptFact]], int]:
    """The facts of an answer that its sources prove, by section, and how many others there were.

    Args:
        answer: What a model has summed up.
        sources: The messages it could see, by their handles.
    """
    facts: dict[str, list[KeptFact]] = {section: [] for section in SECTIONS}
    dropped, seen = 0, set[str]()
    for section in SECTIONS:
        for fact in getattr(answer, section):
            text = " ".join(_HANDLE.sub("", fact.text).split())
            named = [sources[name] for name in _named(fact) if name in sources]
            users = [message for message in named if is_of_user(message)]
            where = section if section not in OF_USER or users else "key_knowledge"
            by_user = where in OF_USER
            said = is_said(text, users, words_in) if by_user else is_said(text, named)
            if text in seen or not said:
                dropped += 1
                continue
            seen.add(text)
            ids = [str(message.id) for message in named]
            facts[where].append(KeptFact(text=text, sources=ids))
    return {section: found for section, found in facts.items() if found}, dropped


def _named(fact: Fact) -> list[str]:
    names = [name.strip(" []()#`") for name in fact.sources]
    return list(dict.fromkeys(names))[:_MOST_SOURCES]


def is_said(
    fact: str, sources: Sequence[AnyMessage], read: Callable[[AnyMessage], str] | None = None
) -> bool:
    """Whether messages say what a fact says: all that is exact in it, and most of its words.

    `read` says which words of a message count: all of them, or only those of its writer.
    """
    read = read or all_in
    if not fact or not sources:
        return False
    text = " ".join("\n".join(map(read, sources)).split()).casefold()
    if not all(_stands(exact.casefold(), text) for exact in _exact(fact)):
        return False
    words = {word for word in words_of(fact) - _glue() if len(word) > 1}
    if not words:
        return bool(_EXACT.search(fact))
    said = words & set().union(*(_words(read(message)) for message in sources))
    return len(said) > _SHARE * len(words) and _is_denied(fact) == _is_denied(
        _nearest(words, map(read, sources))
    )


def _nearest(words: set[str], texts: Iterable[str]) -> str:
    """The sentence that says most of some words."""
    sentences = [s for text in texts for s in _SENTENCE_END.split(text) if s]
    return max(sentences, key=lambda sentence: len(words & _words(sentence)), default="")


_words: Final = lru_cache(maxsize=4_000)(words_of)
"""Many facts are compared with the same messages."""


def _is_denied(sentence: str) -> bool:
    """Whether it says that something is not so, or must not be: half of a ban is a command."""
    return _DENIAL.search(sentence) is not None


def _exact(fact: str) -> Iterator[str]:
    """What of a fact must stand in its sources letter by letter."""
    for quoted in _QUOTED.findall(fact):
        yield " ".join("".join(quoted).split())
    for token in _TOKEN.findall(fact):
        token = token.strip(".:-?#+=&~")
        if _EXACT.search(token):
            yield token
    yield from _NUMERALS.findall(fact)
    for word in _WORD.findall(fact):
        if word[0].isupper() and not words_of(word) <= _glue():
            yield word


def _stands(exact: str, text: str) -> bool:
    """Whether it stands in a text by itself: 42 does not stand in 1.42 or in 420."""
    pattern = rf"(?<![a-z0-9_])(?<!\d[.,]){re.escape(exact)}(?![a-z0-9_])(?![.,]\d)"
    return exact in text and re.search(pattern, text) is not None


@cache
def _glue() -> frozenset[str]:
    return frozenset(words_of(_GLUE))


def words_in(message: AnyMessage) -> str:
    """What a message says, its calls included; not what its writer thought."""
    calls = [
        f"{call['name']}({json.dumps(call['args'], ensure_ascii=False)})"
        for call in calls_in(message)
    ]
    return "\n".join(filter(None, [message.text, *calls]))


def all_in(message: AnyMessage) -> str:
    """What a message says, and what the agent was told behind it, such as a sub-agent's result."""
    told = message.additional_kwargs.get(TOLD)
    return f"{words_in(message)}\n\n{told}" if told else words_in(message)


def who(message: AnyMessage) -> str:
    """Who says a message, for a model that reads what was said."""
    if message.type == "tool":
        return f"result of {message.name or 'a tool'}"
    return "user" if is_of_user(message) else "agent" if message.type == "ai" else "a tool"

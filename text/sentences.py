"""The sentences and lists of words of each language, from the folder `prompts/core/<language>`.

`say` uses the language of the run, which each node sets when it begins; English stands in for what
a language lacks. `says_nothing` and `synonyms_of` use the lists of all languages, because models
and people mix languages.
"""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from contextvars import ContextVar
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

from .words import fold_case

ENGLISH: Final = "en"
FILE: Final = "sentences.md"
"""What models are told."""
PEOPLE: Final = "people.md"
"""What people read."""
SYNONYMS: Final = "synonyms.md"
EMPTY_PHRASES: Final = "empty_phrases.md"
OFFLINE: Final = "offline_words.md"
CUSTOMER: Final = "customer.md"
CUSTOMER_WORDS: Final = "customer_words.md"
FILES: Final = frozenset({FILE, PEOPLE, SYNONYMS, EMPTY_PHRASES, OFFLINE, CUSTOMER, CUSTOMER_WORDS})
"""What stands in the folder of a language beside its templates."""
LANGUAGE: Final[ContextVar[str]] = ContextVar("loopwright_language", default=ENGLISH)

_HEADING: Final = re.compile(r"^## (.+)\n", re.MULTILINE)
_SLOT: Final = re.compile(r"\{\{(\w+)\}\}")
_SYNONYM: Final = re.compile(r"^- ([^:\n]+): (.+)$", re.MULTILINE)
_PHRASE: Final = re.compile(r"^- (.+)$", re.MULTILINE)
_GROUP: Final = re.compile(r"([\[(])([^\])]*)[\])]|([^\[(]+)")
_SENTENCE_ENDS: Final = re.compile(r"[.!?,;:…\n。！？，、；：]+")  # noqa: RUF001 - full-width on purpose
_STOPS: Final = re.compile(r"[,\u3001\u060c]|(?<![.\u3002])[.\u3002]\s*$|!+\s*$")
_LONGEST_EMPTY: Final = 400
_NOTHING: Final = "Say nothing"
_ASIDE: Final = "Only beside such phrases"


def read_sentences(text: str) -> dict[str, str]:
    """Name to sentence, from a file with a heading `## name` over each."""
    _, *parts = _HEADING.split(text)
    return {name.strip(): body.strip() for name, body in zip(parts[::2], parts[1::2], strict=True)}


def slots_in(text: str) -> list[str]:
    """The names of the slots in a sentence."""
    return _SLOT.findall(text)


SENTENCES: Final[dict[str, Mapping[str, str]]] = {}
"""Language to name to sentence."""
_FOR_CUSTOMERS: Final[dict[str, Mapping[str, str]]] = {}
"""The same of sentences that customers read; more languages have these."""
_WHOLE: Final[dict[str, dict[str, str]]] = {}
"""Language to whole message of a customer, squeezed by `_squeeze`, to what it says."""
_SYNONYMS: Final[defaultdict[str, dict[str, str]]] = defaultdict(dict)
"""Set to synonym to the word it stands for."""
_EMPTY: Final[dict[str, dict[str, re.Pattern[str]]]] = {}
"""Language to heading to all its phrases."""


def learn_language(language: str, folder: Traversable | Path) -> None:
    """Read the files of a language's folder, as far as they are there."""

    def read(name: str) -> dict[str, str] | None:
        file = folder.joinpath(name)
        return read_sentences(file.read_text(encoding="utf-8")) if file.is_file() else None

    if texts := [said for name in (FILE, PEOPLE) if (said := read(name)) is not None]:
        SENTENCES[language] = {name: text for said in texts for name, text in said.items()}
    if (sentences := read(CUSTOMER)) is not None:
        _FOR_CUSTOMERS[language] = sentences
    for kind, lines in (read(CUSTOMER_WORDS) or {}).items():
        whole = {_squeeze(phrase): kind for phrase in _PHRASE.findall(lines)}
        _WHOLE[language] = whole | _WHOLE.get(language, {})
    if (phrases := read(EMPTY_PHRASES)) is not None:
        _EMPTY[language] = {heading: _compile_phrases(text) for heading, text in phrases.items()}
    for name, lines in (read(SYNONYMS) or {}).items():
        for meaning, others in _SYNONYM.findall(lines):
            words = (word.strip() for word in others.split(","))
            _SYNONYMS[name] |= dict.fromkeys(words, meaning)


def _compile_phrases(text: str) -> re.Pattern[str]:
    """One pattern for phrases; `[a|b]` may be missing, `(a|b)` may not."""

    def join(words: Iterable[str]) -> str:
        # The longest first: of two that begin alike the shorter would be tried in vain.
        return "|".join(map(re.escape, sorted(map(_squash, words), key=len, reverse=True)))

    def build(phrase: str) -> str:
        return "".join(
            f"(?:{join(words.split('|') if bracket else [bare])}){'?' * (bracket == '[')}"
            for bracket, words, bare in _GROUP.findall(phrase)
        )

    return re.compile("|".join(map(build, _PHRASE.findall(text))) or r"(?!)")


def _squash(text: str) -> str:
    """The letters, marks and digits of a text alone, in small letters."""
    return "".join(sign for sign in fold_case(text) if unicodedata.category(sign)[0] in "LMN")


@cache
def list_receipt_beginnings() -> tuple[str, ...]:
    """How the lines of a receipt begin, in all languages."""
    lines = (
        sentence.partition("{{")[0].strip()
        for said in _FOR_CUSTOMERS.values()
        for name, sentence in said.items()
        if name.startswith("receipt_")
    )
    return tuple(sorted({line for line in lines if line}))


def guess_language(text: str, before: str) -> str:
    """The language of a text by its letters, where those of `before` are others."""
    script = _find_script(text)
    hello = {one: said.get("desk_hello", "") for one, said in _FOR_CUSTOMERS.items()}
    alike = [one for one, said in hello.items() if script and _find_script(said) == script]
    return before if before in alike or not alike else alike[0]


def _find_script(text: str) -> str:
    """The script of most letters of a text, such as LATIN or CJK."""
    letters = Counter(
        unicodedata.name(c, "").split(" ")[0] for c in text[:_LONGEST_EMPTY] if c.isalpha()
    )
    return letters.most_common(1)[0][0] if letters else ""


def _squeeze(text: str) -> str:
    """A message without case, with one space between words, without commas and its last stop."""
    plain = fold_case(text.replace("\u2019", "'"))
    return " ".join(_STOPS.sub(" ", plain).split())


_CORE: Final = files(str(__package__).rpartition(".")[0]).joinpath("prompts", "core")


for _folder in _CORE.iterdir():  # at import: a file read inside a node would block the event loop
    if _folder.is_dir():
        learn_language(_folder.name, _folder)
OFFLINE_WORDS: Final = read_sentences(_CORE.joinpath(ENGLISH, OFFLINE).read_text(encoding="utf-8"))
"""Lists of English words by name, for the offline model."""


def match_language(language: str, known: Collection[str]) -> str:
    """The known language that `ZH`, `zh-CN` or `zh_Hans` means; what means none as it is."""
    main = re.split(r"[-_]", language.strip())[0].lower()
    return language if language in known or main not in known else main


def say(name: str, /, **slots: object) -> str:
    """A sentence in the run's language; slots are filled once, braces in what fills them stay."""
    return say_to(LANGUAGE.get(), name, **slots)


def say_to(language: str, name: str, /, **slots: object) -> str:
    """The same in another language, such as that of a customer."""
    known = (
        kind.get(one, {}).get(name)
        for one in (language, ENGLISH)
        for kind in (_FOR_CUSTOMERS, SENTENCES)
    )
    text = next(filter(None, known))
    return _SLOT.sub(lambda slot: str(slots[slot[1]]), text)


def classify_message(text: str, language: str) -> tuple[str, str]:
    """What a customer's whole message says, and in which language; ("", "") for anything else.

    `yes`, `no`, `thanks`, `hello` or `human`: nothing but one of the few phrases of a language's
    file counts, first of theirs. A sign, a quote or a word beside it needs a reader.
    """
    squeezed = _squeeze(text)
    for one in dict.fromkeys([language, ENGLISH, *_WHOLE]):
        if said := _WHOLE.get(one, {}).get(squeezed):
            return said, one
    return "", ""


def synonyms_of(name: str) -> Mapping[str, str]:
    """Synonym to the word it stands for, in the set of this name."""
    return _SYNONYMS[name]


def says_nothing(text: str, request: str = "") -> bool:
    """Whether a text is empty, or holds only phrases without any data, such as "Done".

    `42`, `Yes` and `Berlin` are answers; so is "done" if the `request` asks for that word.
    """
    if len(text) > _LONGEST_EMPTY:
        return False
    parts = [part for part in map(_squash, _SENTENCE_ENDS.split(text)) if part]
    if not parts:
        return not any(unicodedata.category(sign) in ("Sc", "Sm", "Sk") for sign in text)
    if "".join(parts) in _squash(request):
        return False
    empty = [_is_phrase(part, _NOTHING) for part in parts]
    return any(empty) and all(
        nothing or _is_phrase(part, _ASIDE) for part, nothing in zip(parts, empty, strict=True)
    )


def _is_phrase(part: str, heading: str) -> bool:
    return any(heading in lists and lists[heading].fullmatch(part) for lists in _EMPTY.values())

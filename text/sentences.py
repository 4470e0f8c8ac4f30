"""What a model is told beside its prompt: sentences of `prompts/core/<language>/sentences.md`.

`say` speaks the language of the run, which each node notes when it begins. What a language lacks
is said in English. A language is a folder; the lists of words in it are read with it.
"""

import re
from collections.abc import Collection, Mapping
from contextvars import ContextVar
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

from . import empty_phrases, synonyms

ENGLISH: Final = "en"
FILE: Final = "sentences.md"
OFFLINE: Final = "offline_words.md"
FILES: Final = frozenset({FILE, empty_phrases.FILE, synonyms.FILE, OFFLINE})
"""What stands in the folder of a language beside its templates."""
LANGUAGE: Final[ContextVar[str]] = ContextVar("loopwright_language", default=ENGLISH)

_HEADING: Final = re.compile(r"^## (\w+)\n", re.MULTILINE)
_SLOT: Final = re.compile(r"\{\{(\w+)\}\}")


def read_sentences(text: str) -> dict[str, str]:
    """Name to sentence, from a file with a heading `## name` over each."""
    _, *parts = _HEADING.split(text)
    return {name: said.strip() for name, said in zip(parts[::2], parts[1::2], strict=True)}


def slots_in(text: str) -> list[str]:
    """The names of the slots in a sentence."""
    return _SLOT.findall(text)


SENTENCES: Final[dict[str, Mapping[str, str]]] = {}
"""Language to name to sentence."""


def learn_language(language: str, folder: Traversable | Path) -> None:
    """Take what the folder of a language holds for `say`, and its lists of words."""
    said, empty = folder.joinpath(FILE), folder.joinpath(empty_phrases.FILE)
    others = folder.joinpath(synonyms.FILE)
    if said.is_file():
        SENTENCES[language] = read_sentences(said.read_text(encoding="utf-8"))
    if empty.is_file():
        empty_phrases.learn_phrases(language, empty.read_text(encoding="utf-8"))
    if others.is_file():
        synonyms.learn_synonyms(others.read_text(encoding="utf-8"))


_CORE: Final = files(str(__package__).rpartition(".")[0]).joinpath("prompts", "core")


def _learn_all() -> None:
    for folder in _CORE.iterdir():
        if folder.is_dir():
            learn_language(folder.name, folder)


_learn_all()  # at import: a file read inside a node would block the event loop
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
    told = SENTENCES.get(language, {}).get(name) or SENTENCES[ENGLISH][name]
    return _SLOT.sub(lambda slot: str(slots[slot[1]]), told)

"""What a model is told beside its prompt: sentences of `prompts/core/<language>/sentences.md`.

`say` speaks the language of the run, which each node notes when it begins. What a language lacks
is said in English.
"""

import re
from collections.abc import Mapping
from contextvars import ContextVar
from importlib.resources import files
from typing import Final

ENGLISH: Final = "en"
FILE: Final = "sentences.md"
LANGUAGE: Final[ContextVar[str]] = ContextVar("loopwright_language", default=ENGLISH)

_HEADING: Final = re.compile(r"^## (\w+)\n", re.MULTILINE)
_SLOT: Final = re.compile(r"\{\{(\w+)\}\}")


def read_sentences(text: str) -> dict[str, str]:
    """Name to sentence, from a file with a heading `## name` over each."""
    _, *parts = _HEADING.split(text)
    return {name: said.strip() for name, said in zip(parts[::2], parts[1::2], strict=True)}


def _read_all() -> dict[str, Mapping[str, str]]:
    package = str(__package__).rpartition(".")[0]
    folders = [f for f in files(package).joinpath("prompts", "core").iterdir() if f.is_dir()]
    found = {f.name: f.joinpath(FILE) for f in folders}
    return {
        name: read_sentences(file.read_text(encoding="utf-8"))
        for name, file in found.items()
        if file.is_file()
    }


# At import: a file read inside a node would block the event loop.
SENTENCES: Final = _read_all()


def say(name: str, /, **slots: object) -> str:
    """A sentence in the run's language; slots are filled once, braces in what fills them stay."""
    told = SENTENCES.get(LANGUAGE.get(), {}).get(name) or SENTENCES[ENGLISH][name]
    return _SLOT.sub(lambda slot: str(slots[slot[1]]), told)

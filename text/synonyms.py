"""Other words for the fixed words of contracts and files: `prompts/core/<language>/synonyms.md`.

A line such as `- completed: done, success` under the heading of its set says which words are read
as which. Models and people mix languages, so those of all languages count.
"""

import re
from collections import defaultdict
from collections.abc import Mapping
from typing import Final

FILE: Final = "synonyms.md"

_SET: Final = re.compile(r"^## (.+)\n", re.MULTILINE)
_LINE: Final = re.compile(r"^- ([^:\n]+): (.+)$", re.MULTILINE)

_SYNONYMS: Final[defaultdict[str, dict[str, str]]] = defaultdict(dict)


def learn_synonyms(text: str) -> None:
    """Add the synonyms of a file."""
    _, *parts = _SET.split(text)
    for name, lines in zip(parts[::2], parts[1::2], strict=True):
        for meant, others in _LINE.findall(lines):
            words = (word.strip() for word in others.split(","))
            _SYNONYMS[name.strip()] |= dict.fromkeys(words, meant)


def synonyms_of(name: str) -> Mapping[str, str]:
    """Synonym to the word it stands for, in the set of this name."""
    return _SYNONYMS[name]

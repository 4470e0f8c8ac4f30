"""How much of a model's context a text takes, where no provider has counted it."""

import re
from typing import Final

# Rules of thumb of tokenizers: English text, and scripts written without spaces.
_CHARACTERS_PER_TOKEN: Final = 4.0
_CJK_CHARACTERS_PER_TOKEN: Final = 1.5
_CJK: Final = re.compile(
    "[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]+"
)


def weigh(text: str) -> float:
    """Length in Latin characters; one of Chinese, Japanese or Korean counts as 2.7 of them."""
    wide = sum(map(len, _CJK.findall(text)))
    return len(text) + (_CHARACTERS_PER_TOKEN / _CJK_CHARACTERS_PER_TOKEN - 1) * wide


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text: 4 characters each, 1.5 for Chinese, Japanese and Korean."""
    return round(weigh(text) / _CHARACTERS_PER_TOKEN)

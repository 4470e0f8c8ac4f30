"""Texts that are too long to be shown whole. Pure."""

import re
from typing import Final

from .told import say

_SHOWN: Final = 100


def shortened(text: str, most: int = _SHOWN) -> str:
    """The text in `most` characters at most, the last of them '…' where something is left out."""
    return text if len(text) <= most else text[: most - 1] + "…"


def beginning_of(text: str, most: int) -> str:
    """The first `most` characters of a text, and behind them how many are left out.

    For those who go on working with what they see: half a result must not pass for a whole one.
    """
    left = len(text) - most
    return text if left <= 0 else say("left_out_at_the_end", text=text[:most], left=left)


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

"""Texts that are too long to be shown whole. Pure."""

from typing import Final

_SHOWN: Final = 100


def shortened(text: str, most: int = _SHOWN) -> str:
    """The text in `most` characters at most, the last of them '…' where something is left out."""
    return text if len(text) <= most else text[: most - 1] + "…"


def beginning_of(text: str, most: int) -> str:
    """The first `most` characters of a text, and behind them how many are left out.

    For those who go on working with what they see: half a result must not pass for a whole one.
    """
    left = len(text) - most
    return text if left <= 0 else f"{text[:most]} [… {left} characters left out]"

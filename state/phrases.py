"""What a few words of a customer mean, without a model: thanks, yes, no, a human. Pure."""

import re
from collections.abc import Collection
from typing import Final

from .desk import Consent

_CLOSING: Final = frozenset({
    "thanks", "thank you", "thanks a lot", "thank you very much", "bye", "goodbye", "thats all",
    "that is all", "no thats all", "谢谢", "多谢", "谢谢你", "谢谢您", "再见", "没有了", "没了",
})  # fmt: skip
_YES: Final = frozenset({
    "yes", "y", "yes please", "yes i agree", "yes go ahead", "go ahead", "i agree", "confirm",
    "i confirm", "confirmed", "是", "是的", "好的", "同意", "确认", "可以", "我同意", "我确认",
})  # fmt: skip
_NO: Final = frozenset({
    "no", "n", "no thanks", "cancel", "stop", "不", "不要", "不用", "不是", "取消", "不同意",
})  # fmt: skip
_HUMAN: Final = re.compile(
    r"\b(?:human|real person|agent|representative|supervisor|operator)\b|人工|真人|客服人员", re.I
)
_HAN: Final = re.compile(r"[\u4e00-\u9fff]")


def _squashed(text: str) -> str:
    return re.sub(r"[\s\W]+", " ", text.replace("'", "")).strip().lower()


def is_closing(text: str) -> bool:
    """Whether the customer ends the conversation, and says nothing else."""
    return _squashed(text) in _CLOSING


def consent_in(text: str) -> Consent:
    """The customer's word on what was put to them: yes or no where it is nothing but that."""
    words = _squashed(text)
    return "yes" if words in _YES else "no" if words in _NO else ""


def wants_human(text: str) -> bool:
    """Whether the customer asks for a person."""
    return _HUMAN.search(text) is not None


def names_one_of(text: str, phrases: Collection[str]) -> bool:
    """Whether one of the phrases stands in the text."""
    low = text.lower()
    return any(phrase.lower() in low for phrase in phrases)


def language_of(text: str) -> str:
    """`zh` or `en`; "" where the text has no letters."""
    if _HAN.search(text):
        return "zh"
    return "en" if re.search(r"[A-Za-z]", text) else ""

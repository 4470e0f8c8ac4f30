"""What the text of a call that did not work tells a model to do next. Pure.

It is the end of that text; where a human is told why a call did not work it is left out.
"""

from typing import Final

from ..state.told import say

ADVICE: Final = (
    "correct_it", "do_without", "report_doubt", "send_anew", "report_it", "answer_with_it"
)  # fmt: skip


def without_advice(text: str) -> str:
    """Why a call did not work, in one line, without what a model is to do about it."""
    for name in ADVICE:
        text = text.replace(say(name), "")
    return " ".join(text.split())

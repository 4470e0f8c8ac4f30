"""What the text of a call that did not work tells a model to do next. Pure.

It is the end of that text; where a human is told why a call did not work it is left out.
"""

from typing import Final

CORRECT_IT: Final = "Correct the arguments, try another tool, or say plainly that it failed."
DO_WITHOUT: Final = "Do not send it again; do without it or report it."
REPORT_DOUBT: Final = "Do not send it again; report that its outcome is not known."
SEND_ANEW: Final = "Send the call again if it is still needed, or report it."
REPORT_IT: Final = "Do without it, or report what you could not do."
ANSWER_NOW: Final = "Answer with what you have."

_ALL: Final = (CORRECT_IT, DO_WITHOUT, REPORT_DOUBT, SEND_ANEW, REPORT_IT, ANSWER_NOW)


def without_advice(text: str) -> str:
    """Why a call did not work, in one line, without what a model is to do about it."""
    for advice in _ALL:
        text = text.replace(advice, "")
    return " ".join(text.split())

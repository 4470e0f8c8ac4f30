"""What the offline model says: passages that answer a question, results as they came. Pure."""

import re
from collections.abc import Sequence
from typing import Final

from ...state.canonical import beginning_of
from .clauses import READ, is_question, wanted, words

NO_MODEL: Final = "No language model is configured"
NO_ANSWER: Final = (
    f"{NO_MODEL}, so this cannot be answered. Set OPENAI_API_KEY, or LOOPWRIGHT_MODEL to a "
    "model such as 'openai:gpt-5.4-mini', and ask again."
)
_ENOUGH: Final = 0.6  # of a question's words must be spoken of for it to count as answered
_SHOWN: Final = 2_000  # characters of a result that an answer shows
_READS_AS_ERROR: Final = re.compile(r"\s*(?:error|failed|failure|exception)\b", re.IGNORECASE)


def failed(status: object, result: str) -> bool:
    """Whether a call brought nothing, be it that only its text says so."""
    return status != "success" or bool(_READS_AS_ERROR.match(result))


def speaks_of(question: str, told: Sequence[str]) -> bool:
    """Whether some texts speak of what is asked."""
    asked, said = wanted(question), {word for text in told for word in words(text)}
    return sum(word in said for word in asked) >= _ENOUGH * len(asked)


def picked(question: str, texts: Sequence[str]) -> str:
    """The sentences and lines that answer a question; '' where none speaks of enough of it."""
    asked = set(wanted(question))
    parts = [part.strip() for t in texts for part in re.split(r"\n|(?<=[.!?])\s+", t[:READ])]
    shares = {part: len(asked.intersection(words(part))) for part in parts if part}
    best = max(shares.values(), default=0)
    if not asked or best < _ENOUGH * len(asked):
        return ""
    return "\n".join([part[:600] for part, share in shares.items() if share == best][:3])


def answer(parts: Sequence[tuple[str, str, Sequence[str]]], not_done: Sequence[str]) -> str:
    """The answer to a goal from (asked, result, proofs) of each part, questions first."""
    ordered = sorted(parts, key=lambda part: not is_question(part[0]))
    told = [_part(*part) for part in ordered]
    if not_done:
        told.append("Not done:\n" + "\n".join(f"- {text[:700]}" for text in not_done))
    return "\n\n".join([*told, f"_{NO_MODEL}; results are shown as the tools gave them._"])


def _part(asked: str, result: str, proofs: Sequence[str]) -> str:
    cited = "".join(f" [{proof}]" for proof in proofs)
    return f"**{asked[:300]}**{cited}\n\n{_block(beginning_of(result.strip() or 'Done.', _SHOWN))}"


def _block(text: str) -> str:
    """Several lines, and a line with brackets, as code: nothing in it is a list or a citation."""
    if "\n" in text:
        fence = "```" if "```" not in text else "~~~~"
        return f"{fence}\n{text}\n{fence}"
    return f"`{text}`" if "[" in text and "`" not in text else text

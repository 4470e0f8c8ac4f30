"""What may be shown of a text while it is being written: never what may become a hidden tag.

Whatever `thoughts.visible` takes out of the whole text is held back from its first letter on, so
what is shown is the beginning of what will be visible. One thing cannot be known early: a text
before a `</think>` that nobody opened was a thought, and is no longer shown then.
"""

from typing import Any, Final

import regex  # type: ignore[import-untyped]  # its stubs are a package of their own

from .thoughts import MOST_LAYERS, OPENED, TAG_NAME

# The same as in thoughts.py, for a reader that sees no end: `regex` says what may still match.
_HIDDEN: Final = regex.compile(
    rf"(?P<think><think(?:ing)?>)|(?P<thought></think(?:ing)?>)|{OPENED}/?+\s*+{TAG_NAME}",
    regex.IGNORECASE,
)
_THOUGHT: Final = regex.compile(r"</think(?:ing)?>", regex.IGNORECASE)
# The flags without their tag are hidden where they are the last words.
_OBJECT: Final = r"\{[^{}]*(?:['\"]should_?continue['\"]|(?:\}[\s`}]*)?\Z)"
_FLAGS: Final = regex.compile(
    rf"\{{?\s{{0,9}}['\"*_`#]{{0,4}}{TAG_NAME}['\"*_`]{{0,4}}\s*+[:=]?+\s*+(?:{_OBJECT}|\Z)|{_OBJECT}",
    regex.IGNORECASE,
)
_FENCE: Final = "```"
_NOTHING_IN_IT: Final = regex.compile(r"```[ \t]*+\w*+\s*+(?:```|\Z)")
_LONG: Final = 2_000
_MORE: Final = 50
"""Of what is held back more than `_LONG` is read again when it has grown by one part in so many."""


class Veil:
    """Reads a text piece by piece, and says what of it may be shown."""

    def __init__(self, *, thinks: bool = False) -> None:
        """Nothing is read yet; `thinks` says that it begins with thoughts, as if a tag said so."""
        self.shown = ""
        """What may be shown by now."""
        self.thoughts = ""
        """What stood in think blocks so far."""
        self.unopened = False
        """Whether thoughts ended that no tag had begun."""
        self._rest = ""
        self._said = ""
        self._thinks, self._fenced = thinks, False
        self._next = 0

    def read(self, piece: str) -> None:
        """Read on."""
        self._rest += piece
        if len(self._rest) + len(self._said) < self._next:
            return
        while self._rest and self._step():
            pass
        self._show()
        held = len(self._rest) + len(self._said)
        self._next = held + max(0, held - _LONG) // _MORE

    def _step(self) -> bool:
        """Go on to the next sign; False where what is left must wait for more."""
        if self._thinks:
            end = _THOUGHT.search(self._rest, partial=True)
            self.thoughts += self._rest[: end.start()] if end else self._rest
            return self._went_on(end, thinks=False)
        sign = _first(self._rest)
        said = self._rest[: sign.start()] if sign else self._rest
        self._said += said
        if sign is None or sign.partial or not (sign["think"] or sign["thought"]):
            self._rest = self._rest[len(said) :]
            return False
        if sign["thought"]:
            self.unopened = True
            self.thoughts += (self.shown + self._said).lstrip()
            self.shown = self._said = ""
            self._fenced = False
        return self._went_on(sign, thinks=bool(sign["think"]))

    def _went_on(self, sign: Any, *, thinks: bool) -> bool:
        if sign is None or sign.partial:
            self._rest = self._rest[sign.start() :] if sign else ""
            return False
        self._rest, self._thinks = self._rest[sign.end() :], thinks
        return True

    def _show(self) -> None:
        """Show what was said but for its end, as far as that may turn out to be hidden."""
        said = self._said if self.shown else self._said.lstrip()
        flags = _FLAGS.search(said, partial=True)
        said = said[: flags.start()] if flags else said
        said = self._closed(said)
        half = _HIDDEN.search(said, partial=True)
        said = (said[: half.start()] if half else said).rstrip()
        if said:
            whole = self._said if self.shown else self._said.lstrip()
            self.shown, self._said = self.shown + said, whole[len(said) :]

    def _closed(self, said: str) -> str:
        """The text up to a fence with nothing in it yet; what closes a fence opens none."""
        end, place = 0, said.find(_FENCE)
        while place >= 0:
            if not self._fenced and _NOTHING_IN_IT.match(said, place, partial=True):
                return said[:place]
            self._fenced, end = not self._fenced, place + len(_FENCE)
            place = said.find(_FENCE, end)
        return said[:end] + said[end:].rstrip("`")


_TELLS: Final = regex.compile(rf"{TAG_NAME}|should_?continue", regex.IGNORECASE)


class Musings:
    """Reads thoughts piece by piece; what is hidden is not even mentioned in what is shown."""

    def __init__(self) -> None:
        """Nothing is read yet."""
        self.shown = ""
        self._rest = ""

    def read(self, piece: str) -> None:
        """Read on, up to the first mention."""
        self._rest += piece
        told = _TELLS.search(self._rest, partial=True)
        more = self._rest[: told.start()] if told else self._rest
        self.shown, self._rest = self.shown + more, self._rest[len(more) :]

    @property
    def whole(self) -> str:
        """What is shown where no more comes: the end that might have been a mention is none."""
        is_none = "_" not in self._rest and not _TELLS.match(self._rest)
        return self.shown + (self._rest if is_none else "")


def _first(text: str) -> Any:
    """The first sign of something hidden; half a one before another may become one with it."""
    sign = _HIDDEN.search(text, partial=True)
    for _ in range(MOST_LAYERS):
        before = sign and _HIDDEN.search(text, endpos=sign.start(), partial=True)
        if before is None or before.start() == sign.start():
            break
        sign = before
    return sign

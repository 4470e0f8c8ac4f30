"""References as other plan languages spell them, where they mean a step of this plan. Pure.

`$s1.x`, `${s1.x}`, `{s1.x}`, `<s1.x>`, `#E1`, `$.steps.s1.x`, `s1.output.x` would be sent to a tool
as they stand, and so would `{{s1.x}}` in the wide signs of a Chinese keyboard. What looks like one
and names no step of the plan is text: `${HOME}`, `<b>`, `#12`.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, NamedTuple

from ..text.canonical import shortened
from ..text.told import say
from .references import OPEN, literals_in

_ID: Final = r"(?:steps?\.)?(?P<id>[\w-]+)"
_PATH: Final = r"""(?P<path>(?:\.[\w-]+|\[(?:-?\d+|"[^"\]]*"|'[^'\]]*')\])*)"""
_WHOLE: Final = re.compile(
    rf"\s*+(?P<sign>[$#@%<(\[{{]*+)\s*+\.?+{_ID}{_PATH}\s*+(?P<close>[>)\]}}%]*+)\s*"
)
_OPENING: Final = re.compile(r"[%<({\[]")
_LONGEST: Final = 300
_WITHIN: Final = tuple(
    re.compile(text)
    for text in (
        rf"(?P<sign>\$?\{{)\s*[$.]*{_ID}{_PATH}\s*\}}",
        rf"(?P<sign>(?<![\w$])\$)(?:\.)?{_ID}{_PATH}(?![\w-])",
        rf"(?P<sign><)\s*{_ID}{_PATH}\s*>",
        rf"(?P<sign>(?<![\w/&#])#){_ID}{_PATH}(?![\w-])",
    )
)
_SIGNS: Final = frozenset("${<#")
# As a Chinese keyboard writes these signs; each is one character here and there.
_NARROW: Final = str.maketrans(
    "\uff5b\uff5d\uff04\uff1c\uff1e\uff03\uff0e\uff3b\uff3d", "{}$<>#.[]"
)
# An id that is no word of any language: nobody writes it but to name the step.
_MADE_UP: Final = re.compile(r"[A-Za-z]{1,8}[-_]?\d{1,4}")
_WORD: Final = re.compile(r"\.[^\W\d]")
_RESULT: Final = re.compile(r"\.(output|result)s?(?![\w-])")


class Foreign(NamedTuple):
    """A reference in another spelling: it as written, the step it means, and how to write it."""

    text: str
    step: str
    path: str

    def __str__(self) -> str:
        """What is wrong with it, in words."""
        path = re.sub(r"^\.(?:output|result)s(?![\w-])", "", self.path)
        right = f"{OPEN}{self.step}{path}}}}}"
        text, step = repr(shortened(self.text)), repr(self.step)
        return say("reference_foreign", text=text, step=step, right=shortened(right))


def foreign_in(value: Any, fields: Mapping[str, Collection[str]]) -> list[str]:
    """What is wrong with each reference in another spelling, one sentence each, none twice.

    Args:
        value: The arguments of a step.
        fields: The ids of the plan's steps, and what is known of the fields of their results.
    """
    found = (one for text, whole in literals_in(value) for one in _in(text, fields, whole=whole))
    return list(dict.fromkeys(map(str, found)))


def _in(text: str, fields: Mapping[str, Collection[str]], *, whole: bool) -> Iterator[Foreign]:
    written, text = text, text.translate(_NARROW)
    match = _WHOLE.fullmatch(text) if whole and len(text) <= _LONGEST else None
    closed = match is not None and len(match["close"]) == len(_OPENING.findall(match["sign"]))
    if match and closed and (one := _read(match, fields, whole=True)):
        yield one._replace(text=written.strip())
        return
    if _SIGNS.isdisjoint(text):
        return
    for pattern in _WITHIN:
        for match in pattern.finditer(text):
            if one := _read(match, fields, whole=False):
                yield one._replace(text=written[match.start() : match.end()].strip())


def _read(
    match: re.Match[str], fields: Mapping[str, Collection[str]], *, whole: bool
) -> Foreign | None:
    """The reference that was matched; None where it names no step, or may well be meant as text."""
    sign, path = match["sign"], match["path"]
    step = next((i for i in (match["id"], sign[-1:] + match["id"]) if i in fields), None)
    if step is None or (step.isdigit() and not _WORD.match(path)):
        return None
    if not sign:
        surely = _names_result(path, fields[step]) or ("steps." in match[0] and bool(path))
    elif _MADE_UP.fullmatch(match["id"]):
        surely = "<" not in sign or whole or bool(path)
    elif sign[0] in "$<{#":
        surely = bool(path) or sign == "${" or (whole and sign[0] in "${")
    else:
        surely = _names_result(path, fields[step])
    return Foreign(match[0].strip(), step, path) if surely else None


def _names_result(path: str, fields: Collection[str]) -> bool:
    """Whether a path can hardly be anything but the way into a result: no end of a file's name."""
    first = re.match(r"\.([\w-]+)", path)
    return bool(_RESULT.match(path) or "[" in path or (first and first[1] in fields))

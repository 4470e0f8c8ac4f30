"""A reply as the customer gets it: references rendered, each figure, link and citation sourced.

Code checks what it can in every language: what stands where. What a sentence means is asked of the
proofreader. Pure.
"""

import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from ...text.sentences import list_receipt_beginnings, say, say_to
from .figures import Figure, Source, end_of_unit, find_figures, find_links, is_quoted, quote_around
from .references import REFERENCE, ReferenceProblem, read_reference, render_value

_CITATION: Final = re.compile(r"[\[\u3010]([^\[\]\u3010\u3011\n]{1,200})[\]\u3011](?!\()")
_LIST_MARKER: Final = re.compile(r"^([ \t]*)\d{1,2}[.)\u3001\uff0e][ \t]+", re.MULTILINE)
_DRAWN: Final = "\ue000"
"""Stands for a list marker until everything is checked."""


@dataclass(frozen=True)
class Grounds:
    """What a reply may stand on.

    Attributes:
        articles: Id to title and text of what was found above the threshold; each may be cited.
        records: Short name to the data of each result of this thread.
        told: What tools gave as text, colleagues said, and the company says of itself.
        said: What the customer has written; it proves nothing, but may be repeated as theirs.
        links: Addresses of articles.
        language: Of the customer.
    """

    articles: Mapping[str, str] = field(default_factory=dict)
    records: Mapping[str, Any] = field(default_factory=dict)
    told: str = ""
    said: str = ""
    links: frozenset[str] = frozenset()
    language: str = ""

    @cached_property
    def record_source(self) -> Source:
        """Results, and what colleagues and the company say."""
        return Source(self.told, [*self.records.values()])

    @cached_property
    def link_source(self) -> Source:
        """Addresses of articles."""
        return Source("\n".join(self.links))

    @cached_property
    def customer_source(self) -> Source:
        """The customer's own words."""
        return Source(self.said)

    @cached_property
    def article_sources(self) -> Mapping[str, Source]:
        """Each article."""
        return {name: Source(text) for name, text in self.articles.items()}


@dataclass(frozen=True)
class Reply:
    """A reply that was looked through: its text as it is shown, and what is wrong with it.

    `unquoted` names figures of articles that stand beside other words there; no error by itself.
    """

    text: str
    problems: list[str]
    unquoted: list[str]
    cited: list[str]


def find_cited_ids(text: str, known: Collection[str] = ()) -> list[str]:
    """What stands in brackets as ids do, in order: known ones, or one word between commas."""
    groups = map(_split_ids, _CITATION.findall(text))
    return list(dict.fromkeys(one for group in groups if _are_ids(group, known) for one in group))


def _split_ids(group: str) -> list[str]:
    return [one for one in re.split(r"\s*[,;\uff0c\u3001\uff1b]\s*", group.strip()) if one]


def _are_ids(group: list[str], known: Collection[str]) -> bool:
    return all(one in known or (one.isascii() and " " not in one) for one in group)


def remove_citations(text: str, known: Collection[str]) -> str:
    """A line without citations and white space around it."""
    return " ".join(_blank_citations(text, known).split())


def _blank_citations(text: str, known: Collection[str]) -> str:
    """The text with spaces where it cites."""
    return _CITATION.sub(
        lambda one: " " * len(one[0]) if _are_ids(_split_ids(one[1]), known) else one[0], text
    )


def settle_reply(answer: str, grounds: Grounds) -> Reply:
    """Render the references of a reply, and say what in it no source carries."""
    cited = find_cited_ids(answer, grounds.articles)
    problems = [say("desk_unknown_source", id=one) for one in cited if one not in grounds.articles]
    marked = _LIST_MARKER.sub(rf"\1{_DRAWN} ", answer.replace(_DRAWN, " "))
    shown: list[str] = []
    check = _Check(grounds, [one for one in cited if one in grounds.articles])
    for place, part in enumerate(REFERENCE.split(marked)):
        is_reference = place % 2
        shown.append(
            _render_reference(part, grounds, problems)
            if is_reference
            else check.settle_literal(part)
        )
    text = _draw_markers("".join(shown))
    problems += [say("desk_unknown_reference", reference=one) for one in _find_joined(shown)]
    problems = [*problems, *check.problems, *check.find_unknown_links(text)]
    if any(line.startswith(list_receipt_beginnings()) for line in map(str.strip, text.split("\n"))):
        problems.append(say("desk_forged_receipt"))
    return Reply(text, list(dict.fromkeys(problems)), check.unquoted, cited)


def _find_joined(shown: list[str]) -> Iterator[str]:
    """Figures of references that stand side by side as one, and braces that are left over."""
    for place, part in [*enumerate(shown)][::2]:
        around = [*shown[place - 1 : place], part, *shown[place + 1 : place + 2]]
        seen = "".join(sign for sign in part if unicodedata.category(sign) != "Cf")
        if not seen.strip(".,'-_") and around[0][-1:].isdigit() and around[-1][:1].isdigit():
            yield "".join(around)
        if "{" in part or "}" in part:
            yield part.strip()


def _render_reference(text: str, grounds: Grounds, problems: list[str]) -> str:
    try:
        return render_value(read_reference(text, grounds.records), grounds.language)
    except ReferenceProblem:
        problems.append(say("desk_unknown_reference", reference=text.strip()))
        return ""


def _draw_markers(text: str) -> str:
    """Number the lines of each list from 1 on."""
    lines, number = [], 0
    for line in text.split("\n"):
        number = number + 1 if _DRAWN in line else 0 if line.strip() else number
        lines.append(line.replace(_DRAWN, f"{number}.", 1))
    return "\n".join(lines)


@dataclass
class _Check:
    """Looks through the parts of a reply between its references."""

    grounds: Grounds
    cited: list[str]
    problems: list[str] = field(default_factory=list)
    unquoted: list[str] = field(default_factory=list)

    def settle_literal(self, text: str) -> str:
        """The text, in which a figure that only the customer said is marked as theirs."""
        plain = _blank_citations(text, self.grounds.articles)
        mine = [one for one in find_figures(plain) if self._is_customers(plain, one)]
        ends = [end_of_unit(plain, one) for one in mine]
        for end in reversed(ends):
            text = f"{text[:end]} {say_to(self.grounds.language, 'desk_as_you_wrote')}{text[end:]}"
        return text

    def find_unknown_links(self, text: str) -> Iterator[str]:
        """What is wrong with the links of the whole reply: a reference may be a part of one."""
        known = self.grounds
        sources = [known.link_source, known.record_source, known.customer_source]
        sources += [known.article_sources[one] for one in self.cited]
        for link in find_links(_blank_citations(text, known.articles)):
            if not any(link.text in source.links for source in sources):
                yield say("desk_unknown_link", link=link.text)

    def _is_customers(self, text: str, figure: Figure) -> bool:
        """Whether a figure has to be marked as the customer's; one that nobody said is noted."""
        if self.grounds.record_source.carries(figure):
            return False
        sources = [self.grounds.article_sources[one] for one in self.cited]
        carrying = [source for source in sources if source.carries(figure)]
        if any(is_quoted(text, figure, source, whole=True) for source in carrying):
            return False
        if self.grounds.customer_source.carries(figure):
            return not any(map(str.isalpha, figure.text))  # an id is no figure
        shown = text[figure.start : figure.end]
        if not carrying:
            self.problems.append(say("desk_unknown_figure", figure=shown))
            return False
        told = say("desk_figure_quote", figure=shown, quote=quote_around(carrying[0], figure))
        has_unit = any(is_quoted(text, figure, source, whole=False) for source in carrying)
        (self.unquoted if has_unit else self.problems).append(told)
        return False


def iter_quotes(quotes: list[str], text: str) -> Iterator[str]:
    """The quotes that stand in a text, white space aside."""
    plain = " ".join(text.split())
    yield from (one for one in quotes if one.strip() and " ".join(one.split()) in plain)

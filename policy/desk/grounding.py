"""What in an answer to a customer is carried by what was found, and what is not. Pure.

A sentence is carried by the articles it cites, by results of tools, or by what the company says of
itself. Code compares words, numbers and names; it does not understand. So it is strict where that
costs a second try, and says what is wrong in words a model can act on.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from ...state.desk import (
    CITATION,
    find_cited_ids,
    is_polite,
    is_question,
    is_request,
    split_clauses,
    states_rule,
)
from ...text.sentences import say
from ...text.words import words_in
from .phrases import detect_language
from .quantities import Quantity, find_names, find_quantities, remove_numbers

_LINK: Final = re.compile(
    r"https?://[^\s<>()\[\]\"'，。；）】]+|www\.[^\s<>()\[\]\"'，。；）】]+"  # noqa: RUF001 - full-width
    r"|(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+|(?<![\w@.-])(?:[\w-]++\.)++[a-z]{2,}/[^\s<>()\[\]，。]*"  # noqa: RUF001
)
_SENTENCE: Final = re.compile(
    r"(?<=[.!?;])\s+(?![\[【])|(?<=[。！？；])(?!\s*[\[【])|(?<=[\]】])\s*(?=[。\n])|\n+"  # noqa: RUF001
)
_MARK: Final = re.compile(r"^\s*(?:\d{1,2}[.)、]|[-*•])\s+|[*`#>]+")
_NUMBERED: Final = re.compile(r"(?<![a-zA-Z_-])[a-zA-Z_-]*\d[a-zA-Z0-9_-]*")
_NO: Final = re.compile(
    r"\b(?:not|no|never|cannot|neither|nor|nobody)\b|n['’]t\b|\b(?:except|excluded)\b|[不没無无未别勿非]|除外"  # noqa: RUF001
)
_STOPPED: Final = """
a an the and or but if so as at by for from in into of on to with without within up than then
that this these those there here it its is are was were be been being am do does did done has have
had having can could may might must shall should will would you your yours we our ours us i me my
he she they them their his her not no yes please also just only any all some each every more most
very too such which who whom whose what when where why how both either per via about after before
until unless while because since still already again now today once one s t re ve ll d m get got
way long day days week weeks month months year years hour hours minute minutes working business
eur usd gbp cny euro euros"""
_ZH_STOPPED: Final = """
可以 我们 你们 您可 以在 需要 如果 的话 以及 或者 并且 但是 因为 所以 这个 那个 一个 就可 即可 都可
请您 会在 您的 我的 之后 之前 之内 以内 天内 日内 工作 作日 个工"""
_STOPS: Final = frozenset(words_in(_STOPPED, asked=True)) | frozenset(_ZH_STOPPED.split())

_ENOUGH: Final = 0.4
"""The part of a sentence's words that what carries it must have."""
_ENOUGH_PAIRS: Final = 0.25
"""The same of a text in pairs of characters, of which many stand across two words."""
_CLOSER: Final = 0.3
"""By how much another article may have more of them."""
_HALF: Final = 0.5
_SAME: Final = 0.6
"""The part from which two sentences are on the same thing."""


class ComparedText:
    """A text as it is compared: its words, its numbers, its names."""

    def __init__(self, text: str) -> None:
        """Read it, without citations."""
        self.text = _MARK.sub(" ", CITATION.sub(" ", text)).strip()

    @cached_property
    def words(self) -> frozenset[str]:
        """The words that say something; numbers and units are no words."""
        plain = re.sub(r"['’]", " ", remove_numbers(_LINK.sub(" ", self.text)))  # noqa: RUF001
        found = words_in(plain, asked=True)
        return frozenset(w for w in found if w not in _STOPS and not w.isdigit())

    @cached_property
    def quantities(self) -> Collection[Quantity]:
        """Its numbers, each once."""
        return frozenset(find_quantities(_LINK.sub(" ", self.text)))

    @cached_property
    def claimed_quantities(self) -> list[Quantity]:
        """Its numbers, where it claims something."""
        return find_quantities(_LINK.sub(" ", self.text), claimed=True)

    @cached_property
    def is_denial(self) -> bool:
        """Whether it denies something."""
        return bool(_NO.search(self.text.casefold()))

    @cached_property
    def clauses(self) -> "list[ComparedText]":
        """Its clauses, each with a number of its own where there are several."""
        parts: list[str] = []
        open_: list[str] = []
        for clause in split_clauses(self.text):
            open_.append(clause)
            if find_quantities(clause):
                parts.append(" ".join(open_))
                open_ = []
        if open_:
            parts[-1:] = [" ".join([*parts[-1:], *open_])]
        return [ComparedText(part) for part in parts]

    @cached_property
    def sentences(self) -> "list[ComparedText]":
        """Its sentences."""
        return [ComparedText(one) for one in _SENTENCE.split(self.text) if one and one.strip()]

    @cached_property
    def titled_sentences(self) -> "list[tuple[ComparedText, frozenset[str]]]":
        """Of an article the sentences below its title, each with its words and the title's."""
        title, *rest = self.sentences or [self]
        return [(one, one.words | title.words) for one in rest or [title]]

    @property
    def is_paired(self) -> bool:
        """Whether most of its words are pairs of characters."""
        return sum(not word.isascii() for word in self.words) * 2 > len(self.words)


@dataclass(frozen=True)
class Grounds:
    """What an answer may stand on.

    Attributes:
        articles: Id to title and text of what was found above the threshold; "" where a search
            tells no text: code cannot compare with it.
        facts: Results of tools, and what the company says of itself.
        said: What the customer has said; it proves nothing, but may be repeated.
        links: Addresses that may be named.
        language: Of the customer; "" where it is not known.
        asked: The turn is a question: each of its statements must be carried.
    """

    articles: Mapping[str, str] = field(default_factory=dict)
    facts: str = ""
    said: str = ""
    links: Collection[str] = ()
    language: str = ""
    asked: bool = True

    @cached_property
    def article_texts(self) -> Mapping[str, ComparedText]:
        """The articles."""
        return {name: ComparedText(text) for name, text in self.articles.items()}

    @cached_property
    def fact_text(self) -> ComparedText:
        """The facts."""
        return ComparedText(self.facts)

    @cached_property
    def all_names(self) -> frozenset[str]:
        """Names that stand anywhere."""
        return find_names(" ".join([self.facts, self.said, *self.articles.values()]))

    @cached_property
    def fact_names(self) -> frozenset[str]:
        """Names that stand in the facts."""
        return find_names(self.facts)

    @cached_property
    def customer_text(self) -> ComparedText:
        """The words of the customer."""
        return ComparedText(self.said)


def find_unproven(answer: str, grounds: Grounds) -> list[str]:
    """What of an answer nothing carries, as sentences for whoever writes it anew."""
    cited = find_cited_ids(answer, grounds.articles)
    wrong = [say("desk_unknown_source", id=one) for one in cited if one not in grounds.articles]
    wrong += [say("desk_unknown_link", link=one) for one in _find_unknown_links(answer, grounds)]
    spoken = detect_language(_NUMBERED.sub("", ComparedText(answer).text))
    if grounds.language in ("en", "zh") and spoken and spoken != grounds.language:
        wrong.append(say("desk_other_language", language=grounds.language))
    for sentence in _split_sentences(answer):
        wrong += _check_sentence(
            sentence, [one for one in cited if one in grounds.articles], grounds
        )
    return list(dict.fromkeys(wrong))


def _find_unknown_links(answer: str, grounds: Grounds) -> Iterator[str]:
    for found in _LINK.findall(answer):
        link = found.rstrip(".,;:!")
        if link not in grounds.links and link not in f"{grounds.facts} {grounds.said}":
            yield link


def _split_sentences(answer: str) -> list[str]:
    """The sentences of an answer, each with the citations behind it."""
    return [one.strip() for one in _SENTENCE.split(answer) if one and ComparedText(one).text]


def _check_sentence(sentence: str, cited: list[str], grounds: Grounds) -> list[str]:
    """What is wrong with one sentence; its own citations count, else all of the answer."""
    text = ComparedText(sentence)
    own = [one for one in find_cited_ids(sentence, grounds.articles) if one in grounds.articles]
    if not own and not _is_claim(text, grounds):
        return []
    articles = [grounds.article_texts[one] for one in (own or cited)]
    if any(not article.text for article in articles):
        return []
    if names := find_names(text.text) - grounds.all_names:
        return [say("desk_unproven_number", number=", ".join(sorted(names)), sentence=sentence)]
    if not own and _is_known(text, grounds):
        return []
    if not articles:
        name = "desk_uncited" if grounds.articles else "desk_nothing_found"
        return [say(name, sentence=sentence)]
    return _find_differences(sentence, text, articles, grounds, own=bool(own))


def _find_differences(
    sentence: str, text: ComparedText, articles: list[ComparedText], grounds: Grounds, *, own: bool
) -> list[str]:
    """How a sentence differs from the articles that are to carry it."""
    for one in text.claimed_quantities:
        fits = any(_has_same_count(one, text, article) for article in articles)
        if not fits and not _is_fact(one, text, articles, grounds):
            number = f"{one.value:g} {one.unit}".strip()
            return [say("desk_unproven_number", number=number, sentence=sentence)]
    if not any(_carries(article, text, grounds) for article in articles):
        return [say("desk_not_in_source" if own else "desk_uncited", sentence=sentence)]
    if any(_denies(article, text) for article in articles):
        return [say("desk_denied_by_source", sentence=sentence)]
    if strange := _find_unknown_names(text, articles, grounds):
        return [say("desk_unproven_number", number=", ".join(strange), sentence=sentence)]
    return []


def _is_claim(text: ComparedText, grounds: Grounds) -> bool:
    """Whether a sentence without a citation states something that must be carried."""
    if is_request(text.text):
        return False
    if text.claimed_quantities and not all(
        q.is_in(grounds.fact_text.quantities) for q in text.claimed_quantities
    ):
        return not (is_question(text.text) and _is_all_said(text, grounds))
    if is_question(text.text) or is_polite(text.text):
        return False
    return grounds.asked or states_rule(text.text)


def _is_all_said(text: ComparedText, grounds: Grounds) -> bool:
    return all(q.is_in(grounds.customer_text.quantities) for q in text.claimed_quantities)


def _is_known(text: ComparedText, grounds: Grounds) -> bool:
    """Whether results of tools carry a sentence, or the company's words, or it repeats theirs."""
    if text.claimed_quantities and not all(
        q.is_in(grounds.fact_text.quantities) for q in text.claimed_quantities
    ):
        return False
    if find_names(text.text) & grounds.fact_names or not text.words:
        return True
    share = _measure_overlap(text.words, grounds.fact_text.words)
    if text.claimed_quantities and text.is_paired:  # results are in English
        return all(q.is_said_in(grounds.fact_text.quantities) for q in text.claimed_quantities)
    return share >= (_ENOUGH_PAIRS if text.claimed_quantities else _SAME)


def _measure_overlap(words: frozenset[str], others: frozenset[str]) -> float:
    return len(words & others) / len(words) if words else 1.0


def _carries(article: ComparedText, text: ComparedText, grounds: Grounds) -> bool:
    """Whether an article has enough of a sentence's words, or, in another language, its names."""
    words = text.words - grounds.fact_text.words | (text.words & article.words)
    if detect_language(article.text) != detect_language(text.text):
        mine = any(
            detect_language(o.text) == detect_language(text.text)
            for o in grounds.article_texts.values()
        )
        shared = any(q.is_in(article.quantities) for q in text.claimed_quantities)
        return not mine and (shared or bool(words & article.words))
    least = _ENOUGH_PAIRS if text.is_paired else _ENOUGH
    best = max(_measure_overlap(words, other.words) for other in grounds.article_texts.values())
    return _measure_overlap(words, article.words) >= max(least, best - _CLOSER)


def _is_fact(
    one: Quantity, text: ComparedText, articles: list[ComparedText], grounds: Grounds
) -> bool:
    """Whether a number is a tool's, and not what an article has another number for."""
    part = _find_clause(one, text)
    numbered = [c for a in articles for s in a.sentences for c in s.clauses if c.quantities]
    near = any(_measure_overlap(part.words, clause.words) >= _HALF for clause in numbered)
    return one.is_in(grounds.fact_text.quantities) and not near


def _has_same_count(one: Quantity, text: ComparedText, article: ComparedText) -> bool:
    """Whether an article has a number for the same thing: no other number of it fits better."""
    if not one.is_in(article.quantities):
        return False
    if detect_language(article.text) != detect_language(text.text):
        return True
    part, best, rival = _find_clause(one, text), 0, 0
    for clause in (clause for sentence in article.sentences for clause in sentence.clauses):
        fits = len(part.words & clause.words)
        if one.is_in(clause.quantities):
            best = max(best, fits)
        elif one.unit and any(other.unit in (one.unit, "") for other in clause.claimed_quantities):
            rival = max(rival, fits)
    return best >= rival


def _find_clause(one: Quantity, text: ComparedText) -> ComparedText:
    """The clause of a sentence in which a number stands."""
    return next((part for part in text.clauses if one in part.claimed_quantities), text)


def _denies(article: ComparedText, text: ComparedText) -> bool:
    """Whether the sentence of an article that has most of these words says the opposite."""
    if not text.words:
        return False
    shares = {False: 0.0, True: 0.0}
    for one, words in article.titled_sentences:
        opposite = one.is_denial != text.is_denial
        shares[opposite] = max(shares[opposite], _measure_overlap(text.words, words))
    return shares[True] > shares[False] and shares[True] >= (_HALF if text.is_paired else _SAME)


def _find_unknown_names(
    text: ComparedText, articles: list[ComparedText], grounds: Grounds
) -> list[str]:
    """Names in the middle of a sentence that nothing knows, where it does not deny them."""
    if text.is_denial:
        return []
    known = grounds.fact_text.words.union(*(article.words for article in articles))
    found = re.findall(r"(?<=[a-z,;] )[A-Z][\w-]*", text.text)
    return [name for name in found if not ComparedText(name).words <= known]

"""Finds names and ids for an argument: labelled, shaped like it, proper names, earlier results."""

import re
from collections.abc import Iterator
from typing import Final

from .clause import EACH, Clause, from_to, nearest_first, nowhere, said_options
from .literals import Given
from .tools import Parameter, Tool, listed
from .words import CHANGES, LOOKS, STOPWORDS, best_related, content_words, raw_words, stem

_PROPER: Final = re.compile(
    r"(?:(?<=\bin )|(?<=\bfor )|(?<=\bat )|(?<=\bof )|(?<=\babout )|(?<=\bon )|(?<=\bfrom )|"
    r"(?<=\bto )|(?<=\bby )|"
    r"(?<=\bwith )|(?<=\bnamed )|(?<=\bcalled )|(?<=\band )|"
    r"(?<=, ))(?:the )?([^\W\d_a-z][\w'.-]*(?:\s[^\W\d_a-z][\w'.-]*)*)"
)


_LOWER: Final = re.compile(
    r"(?i)\b(?:in|for|about|of|at|on)\s+(?:the\s+)?([^\W\d_][\w-]*(?:\s+(?!(?:in|on|at|for|to|"
    r"today|tomorrow|now|and|or|is|are|this|next|last|from|by)\b)[^\W\d_][\w-]*)?)"
)


def names(clause: Clause, parameter: Parameter, tool: Tool) -> Iterator[Given]:
    """Names and ids: labelled, fitting the pattern, quoted, proper names, from results."""
    is_id = bool({"id", "key", "sku", "code"} & set(parameter.name_words))
    yield from _options_in_description(clause, parameter)
    if is_id:
        yield from clause.of("id")
    yield from _labelled(clause, parameter, tool)
    yield from _shaped(clause, parameter)
    told = clause.known.value_of(parameter.name, clause.said) if is_id else None
    if is_id and parameter.required:
        yield from clause.of("number")
    if told is not None:
        yield nowhere(str(told))
    if parameter.required:
        yield from _free_names(clause, parameter, tool)


def _free_names(clause: Clause, parameter: Parameter, tool: Tool) -> Iterator[Given]:
    """For a required argument: quoted, said in a list before, proper names, words after 'in'."""
    quoted = nearest_first(clause, parameter, clause.of("quoted", "code", "id"))
    yield from from_to(clause, parameter, quoted, strict=True)
    yield from _from_results(clause, parameter, tool)
    proper = [
        Given("proper", m[1].rstrip(".,"), m.start(1), m.end(1))
        for m in _PROPER.finditer(clause.bare)
    ]
    yield from from_to(clause, parameter, proper)
    told = clause.known.value_of(parameter.name, clause.said)
    if told is not None:
        yield nowhere(str(told))
    yield from clause.of("path", "email")
    own = {*parameter.name_words, *tool.name_words}
    for match in _LOWER.finditer(clause.bare):
        first = match[1].split()[0]
        known = best_related(stem(match[1]), own) > 0 or first.lower() in STOPWORDS
        if content_words(match[1]) and not known:
            yield from _phrase_and_next(clause, match)


def _from_results(clause: Clause, parameter: Parameter, tool: Tool) -> Iterator[Given]:
    """Names that earlier results list or label and the clause speaks of."""
    own = {*parameter.name_words, *tool.name_words}
    items = clause.known.items()
    if re.search(EACH, clause.text):
        yield from (nowhere(item, "item") for item in items)
    told = clause.known.labelled([word for word in clause.said if word not in tool.name_words])
    if told:
        yield nowhere(told)
    yield from (nowhere(item, "item") for item in items if stem(item) in clause.said)
    for token in clause.known.words_shared([word for word in clause.said if word not in own]):
        if not best_related(stem(token), own):
            yield nowhere(token)


def _phrase_and_next(clause: Clause, match: re.Match[str]) -> Iterator[Given]:
    """A name in lower case, and the one joined to it: 'of customers and orders'."""
    rest = clause.bare[match.end(1) :]
    also = re.match(r"(?:,| and)\s+([^\W\d_][\w-]*)\s*(?:$|[.?!,]|and\b|in\b|from\b)", rest)
    if also is None or " " in match[1] or also[1].lower() in STOPWORDS:
        yield Given("phrase", match[1], match.start(1), match.end(1))
        return
    yield Given("proper", match[1], match.start(1), match.end(1))
    start = match.end(1) + also.start(1)
    yield Given("proper", also[1], start, start + len(also[1]))


def _options_in_description(clause: Clause, parameter: Parameter) -> Iterator[Given]:
    """Values the description lists in quotes: said ones, else 'all' for a required argument."""
    about = str(parameter.schema.get("description", ""))
    if re.search(r"(?i)\be\.?g\b|example|such as|\blike\b", about):
        return
    options = re.findall(r"['\"`]([\w-]{1,30})['\"`]", about)
    if len(options) < 2:
        return
    yield from said_options(clause, options)
    if parameter.required:
        usual = [option for option in options if option.lower() in ("all", "any")] or options[:1]
        yield nowhere(usual[0], "default")


_NO_LABEL: Final = (
    r"(?:in|of|on|to|from|for|by|with|and|or|the|a|an|is|are|was|named|called|that|which|has|have|"
    r"does|do|then|at|as|against|between|since|until|before|after|into|over|about|via|per|it|this)\b"
)
_NOT_LABELLED: Final = STOPWORDS | {
    "new", "list", "show", "describe", "switch", "current", "create", "delete", "open", "whole",
    "get", "check", "cancel", "update",
}  # fmt: skip
_JOINED: Final = re.compile(r"[\"'`]?(?:\s*,\s*|,?\s+and\s+)[\"'`]?([A-Z][\w-]*|\d\w*)")


def _labelled(clause: Clause, parameter: Parameter, tool: Tool) -> Iterator[Given]:
    """'order 17', 'branch named x', 'the customers table': a value beside the argument's noun."""
    for noun in _nouns(parameter, tool):
        for match in re.finditer(_after(noun), clause.text):
            yield Given("labelled", match[1], match.start(1), match.end(1))
            also = _JOINED.match(clause.text, match.end(1))
            if also:
                yield Given("labelled", also[1], also.start(1), also.end(1))
        for match in re.finditer(rf"(?i)(?<![\w])(?!{_NO_LABEL})([\w-]+)\s+{noun}\b", clause.text):
            if match[1].lower() not in _NOT_LABELLED:
                yield Given("labelled", match[1], match.start(1), match.end(1))
    for match in re.finditer(r"(?i)\b(?:named|called|titled)\s+[\"'`]?([\w@./-]*\w)", clause.text):
        yield Given("labelled", match[1], match.start(1), match.end(1))


def _nouns(parameter: Parameter, tool: Tool) -> list[str]:
    """The nouns that may stand beside a value: of the argument's name, then of the tool's."""
    spread = re.sub(r"([A-Z])", r" \1", parameter.name).lower()
    general = ("id", "ids", "name", "names", "number", "key", "code")
    nouns = [word for word in re.findall(r"[a-z]+", spread) if word not in general][::-1]
    if parameter.required:
        owned = [w.lower() for w in raw_words(tool.name)[1:] if stem(w) not in LOOKS | CHANGES]
        nouns += [re.sub(r"(?<=\w)s$", "", re.sub(r"ies$", "y", word)) for word in owned]
    return list(dict.fromkeys(re.escape(noun) for noun in nouns))


def _after(noun: str) -> str:
    """A pattern for the value after a noun; after a plural only for names, quotes and numbers."""
    many = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}e?s"
    return (
        rf"(?i)\b(?:{noun}|{many}(?=\s+(?-i:[\"A-Z\d])))\s+"
        r"(?:(?:named|called|number|no\.?|id|is|of)\s+)?[:=#]?\s*[\"'`]?"
        rf"(?!{_NO_LABEL})([\w@./-]*[\w])"
    )


def _shape(text: str) -> str:
    return re.sub(r"[a-z]+", "a", re.sub(r"[A-Z]+", "A", re.sub(r"\d+", "9", text)))


def _shaped(clause: Clause, parameter: Parameter) -> Iterator[Given]:
    """Words that fit the argument's pattern, or look like one of its examples."""
    about = str(parameter.schema.get("description", ""))
    examples = [str(item) for item in listed(parameter.schema.get("examples"))]
    examples += re.findall(r"(?:e\.g\.?,?|example:?|such as|like)\s*['\"`]?([\w-]+)", about)
    shapes = {_shape(item) for item in examples if re.search(r"\d|^[A-Z]{2,}$", item)}
    pattern = str(parameter.schema.get("pattern") or "")
    for match in re.finditer(r"[\w@.-]*\w", clause.text[:5_000]):
        if (shapes and _shape(match[0]) in shapes) or (
            pattern and len(match[0]) < 100 and _fits(pattern, match[0])
        ):
            yield Given("shaped", match[0], match.start(), match.end())


def _fits(pattern: str, text: str) -> bool:
    try:
        return bool(re.search(pattern, text)) and pattern.startswith("^")
    except re.error:
        return False

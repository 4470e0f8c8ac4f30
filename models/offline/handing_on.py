"""Which earlier result a clause hands on to a tool, where it does not give the value itself."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Final

from .known import key_forms, plain_key
from .literals import literals, without
from .tools import Parameter, Tool, listed, topic
from .words import best_related, content_words, lead, stems

_POINTS: Final = re.compile(
    r"(?i)\b(?:it|its|them|their|this|that|these|those|both|all|everything)\b"
)
_SEVERAL: Final = re.compile(r"(?i)\b(?:them|their|these|those)\b")
_ALL: Final = re.compile(r"(?i)\b(?:both|all|everything|results)\b")
# 'a poem', 'some text': what comes is new, and would have to be written first.
_NEW: Final = re.compile(
    r"(?i)\b(?:an?|some|my|your)\s+(?!(?:\w+\s+)?(?:file|document|list)\b)[^\W\d_]"
)
# Verbs that need no object to mean what was found before.
_KEEPS: Final = stems("write save store put append add send log record export")
_PLACES: Final = stems("file document folder directory path called named")
# What a result holds as it is, so that the whole result is an honest answer to it.
_PARTS: Final = stems(
    "result results output content contents text list name names line lines row rows entry "
    "entries value values id ids title titles detail details data finding findings hit match "
    "everything"
)
_DEEPEST: Final = 3


@dataclass(frozen=True)
class Source:
    """A clause before, and the step that was planned for it.

    Attributes:
        step: Its id; '' where no step gives what the clause asks for.
        clause: Its words.
        tool: What it calls.
        schema: JSON schema of its result as references read it; None where it is not known.
    """

    step: str
    clause: str
    tool: Tool | None = None
    schema: Any = None

    @property
    def told(self) -> set[str]:
        """The stems by which a later clause may speak of it."""
        named = (*self.tool.name_words, *self.tool.first_words) if self.tool else ()
        return {*topic(self.clause), *named}


def handed_on(
    clause: str, parameter: Parameter, kind: str, sources: Sequence[Source]
) -> str | None:
    """The references to earlier results that fill an argument, or None where none is meant.

    A field of the argument's own name is taken where the result's schema has one; a text is filled
    with whole results, but only where the clause asks for nothing that they do not hold.

    Args:
        clause: What is to be done.
        parameter: The argument that the clause gives no value for.
        kind: What sort of value it takes; see `kinds`.
        sources: The clauses before, oldest first.
    """
    found = next(_fields(clause, parameter, sources), None)
    if found is not None:
        return found
    if kind != "text" or parameter.schema.get("type", "string") != "string":
        return None
    meant = _meant(clause, sources)
    if not meant or not all(source.step for source in meant):
        return None
    if len(meant) == 1 and _types(meant[0].schema) == {"string"}:
        return _reference(meant[0].step)
    # Inside a longer text any result becomes text; a bare reference would keep its type.
    return "\n\n".join(_reference(source.step) for source in meant) + "\n"


def _reference(step: str, path: str = "") -> str:
    return f"{{{{{step}{path}}}}}"


def _fields(clause: str, parameter: Parameter, sources: Sequence[Source]) -> Iterator[str]:
    """Fields of results, newest first, that are called as the argument is and of its type."""
    said = set(content_words(without(clause, literals(clause)))) - {lead(clause)}
    points = bool(_POINTS.search(clause))
    owner = set(parameter.name_words) - {"id", "number", "key", "code"}
    for source in reversed(sources):
        if not source.step or not (points or said & source.told):
            continue
        keys = key_forms(parameter.name)
        # A bare 'id' is the customer's id only where it was a customer that was looked for.
        keys = keys if owner & source.told else keys[:1]
        for path, schema in _paths(source.schema, ""):
            name = re.sub(r".*\.", "", path)
            if plain_key(name) in keys and _types(schema) & _types(parameter.schema):
                yield _reference(source.step, path)


def _paths(schema: Any, path: str, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """The named fields of a schema with their paths, the first item standing for a list."""
    if not isinstance(schema, Mapping) or depth > _DEEPEST:
        return
    fields = schema.get("properties")
    for name, inner in fields.items() if isinstance(fields, Mapping) else ():
        if re.fullmatch(r"\w+", str(name)):
            yield f"{path}.{name}", inner
            yield from _paths(inner, f"{path}.{name}", depth + 1)
    yield from _paths(schema.get("items"), f"{path}[0]", depth + 1)


def _types(schema: Any) -> set[str]:
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    found = {str(item) for item in listed(kind)} or {str(kind)}
    return {"number" if item == "integer" else item for item in found}


def _meant(clause: str, sources: Sequence[Source]) -> Sequence[Source]:
    """The results a clause hands on whole; none where it asks for something made of them."""
    bare = without(clause, literals(clause))
    verb = lead(clause)
    said = {word for word in content_words(bare) if word not in {verb, *_PLACES}}
    if not sources or _NEW.search(bare):
        return ()
    if not said and not _POINTS.search(bare) and verb not in _KEEPS:
        return ()
    spoken = _spoken_of(said, sources) if said else None
    if spoken is not None:
        return spoken
    last = sources[-1]
    if _ALL.search(bare):
        return _newest(sources, lambda source: bool(source.step))
    if _SEVERAL.search(bare):
        return _newest(sources, lambda source: source.tool == last.tool)
    return _newest(sources, lambda source: source.clause == last.clause)


def _spoken_of(said: Set[str], sources: Sequence[Source]) -> Sequence[Source] | None:
    """The newest clause whose results the words are about; None where they fit all alike.

    Words that no result holds as it is must be words of the clause or its tool: else none fits.
    """
    fits = [source for source in sources if said - _PARTS <= source.told]
    near = [sum(best_related(word, source.told) for word in said) for source in fits]
    if near and max(near) == 0:
        return None
    best = [source for source, score in zip(fits, near, strict=True) if score == max(near)]
    return [source for source in best if source.clause == best[-1].clause]


def _newest(sources: Sequence[Source], fits: Callable[[Source], bool]) -> Sequence[Source]:
    return list(takewhile(fits, reversed(sources)))[::-1]

"""Finds paths for an argument: given ones, named folders, files that earlier results know."""

import re
from collections.abc import Iterator
from typing import Final

from .clause import EACH, Clause, from_to, nearest_first, nowhere
from .literals import Given
from .tools import Parameter, Tool
from .words import STOPWORDS, stem, stems

_FOLDER: Final = re.compile(
    r"(?i)\b(?:(?:in|of|from|under|inside|into)\s+)(?:the\s+|my\s+|"
    r"our\s+)?[\"']?([\w.-]+)[\"']?\s+(?:folder|directory|dir|subfolder)\b|"
    r"\b(?:folder|directory|dir|subfolder)\s+(?:named\s+|called\s+)?[\"']?((?!in\b|of\b|and\b|"
    r"or\b|named\b|is\b|are\b|tree\b|for\b|to\b)[\w.-]+)[\"']?"
)


_FILES_IN: Final = re.compile(
    r"(?i)\b(?:files?|folders?|everything|contents?|documents?|what(?:'s| is))\s+(?:in|of|"
    r"under|inside)\s+(?:the\s+)?"
    r"([a-z][\w-]*)(?=\s*(?:$|[.?!,]|and\b|ha(?:ve|s)\b|do\b))"
)


def paths(clause: Clause, parameter: Parameter, tool: Tool) -> Iterator[Given]:
    """Paths of the clause as earlier results know them, named folders, known files by name."""
    if wants_folder(parameter, tool):
        yield from _folders(clause, parameter, tool)
    else:
        yield from _files(clause, parameter)


def _given_paths(clause: Clause, parameter: Parameter) -> list[Given]:
    zones = {zone.value for zone in clause.zones}
    items = [
        Given("path", clause.known.resolve(item.value), item.start, item.end)
        for item in clause.of("path")
        if item.value not in zones
    ]
    items = from_to(clause, parameter, nearest_first(clause, parameter, items))
    if "repo" not in parameter.name.lower():
        return items
    near = stems("in at repo repository path inside under")
    return [i for i in items if i.value[:1] in "/~." or near & set(clause.before(i, 1))]


def _folders(clause: Clause, parameter: Parameter, tool: Tool) -> Iterator[Given]:
    items = _given_paths(clause, parameter)
    named = _named_folder(clause)
    yield from (item for item in items if not _is_file(item.value))
    yield from named
    if re.search(EACH, clause.text):
        yield from (nowhere(p, "item") for p in clause.known.latest_paths() if not _is_file(p))
    inside = None if items or named else _FILES_IN.search(clause.bare)
    if inside and inside[1].lower() not in STOPWORDS:
        yield Given("path", clause.known.resolve(inside[1]), inside.start(1), inside.end(1))
    if not tool.action:
        files = (item for item in items if _is_file(item.value))
        yield from (Given("misfit", item.value, item.start, item.end) for item in files)
    if parameter.required:
        yield nowhere(".", "default")


def _files(clause: Clause, parameter: Parameter) -> Iterator[Given]:
    items = _in_folder(clause, _given_paths(clause, parameter))
    yield from (item for item in items if _is_file(item.value))
    if not items:
        yield from _named_folder(clause)
    if re.search(EACH, clause.text):
        yield from (nowhere(p, "item") for p in clause.known.latest_paths() if _is_file(p))
    yield from _files_by_name(clause)
    yield from (item for item in items if not _is_file(item.value))


def _is_file(path: str) -> bool:
    return bool(re.search(r"\.\w{1,8}$", path))


def _named_folder(clause: Clause) -> list[Given]:
    """The folder of 'in the docs folder' or 'folder docs'."""
    named = _FOLDER.search(clause.bare)
    if not named:
        return []
    place = 1 if named[1] else 2
    if named[place].lower() in STOPWORDS | _NO_NAMES:
        return []
    found = clause.known.resolve(named[place])
    return [Given("path", found, named.start(place), named.end(place))]


_NO_NAMES: Final = frozenset({"current", "working", "root", "main", "whole"})


def _in_folder(clause: Clause, items: list[Given]) -> list[Given]:
    """'notes.md in docs/old' as 'docs/old/notes.md'; the folder is then no file of its own."""
    files = [item for item in items if re.search(r"\.\w{1,8}$", item.value)]
    folders = [
        item
        for item in items
        if item not in files
        and set(clause.before(item, 2)) & {"in", "from", "of", "under", "insid"}
    ]
    if not files or not folders:
        return items
    inside = folders[0].value.rstrip("/")
    return [
        Given("path", i.value if "/" in i.value else f"{inside}/{i.value}", i.start, i.end)
        for i in files
    ]


def wants_folder(parameter: Parameter, tool: Tool) -> bool:
    """Whether a path argument means a folder (or a repository's root) rather than a file."""
    said = f"{parameter.name} {parameter.about}".lower()
    if re.search(r"dir|folder|repo|cwd|root", said):
        return True
    if re.search(r"file", said) or any(
        stem(w) in tool.name_words for w in ("read", "write", "append", "edit", "open")
    ):
        return False
    listing = stems("list search find tree directory folder glob grep dir")
    return bool(listing & set(tool.name_words))


def _files_by_name(clause: Clause) -> Iterator[Given]:
    for item in clause.of("quoted", "code"):
        if re.fullmatch(r"[\w./ -]{1,200}", item.value) and "." in item.value:
            yield Given("path", clause.known.resolve(item.value), item.start, item.end)
    for found in clause.known.path_named(clause.said):
        yield nowhere(found)
    for match in re.finditer(r"\b[A-Z]{5,20}\b|\b[A-Z][a-z]+file\b", clause.bare):
        yield Given("path", clause.known.resolve(match[0]), match.start(), match.end())

"""The front page and the manual as tests read them: pages, sections, blocks, tables."""

import re
from collections.abc import Iterable
from itertools import takewhile
from pathlib import Path

ROOT = Path(__file__).parents[2]
# The front page comes first, then the manual, by their paths in the repository.
PAGES = {
    file.relative_to(ROOT).as_posix(): file.read_text(encoding="utf-8")
    for file in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
}
README = PAGES["README.md"]
MANUAL = "\n".join(PAGES.values())


def blocks(language: str, text: str = MANUAL) -> list[str]:
    """The fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def section(page: str, title: str) -> str:
    """The text under a heading of the second level."""
    found = re.search(
        rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", PAGES[page], re.DOTALL | re.MULTILINE
    )
    assert found, f"{page} has no section {title!r}"
    return found[1]


def anchors(page: str) -> set[str]:
    """What a link may name behind `#`: the headings, as GitHub spells them."""
    prose = re.sub(r"^```.*?^```$", "", PAGES[page], flags=re.DOTALL | re.MULTILINE)
    titles = re.findall(r"^#+ (.*)$", prose, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def table(header: str) -> list[list[str]]:
    """The cells of each row of the table whose first line starts so; there is one such table."""
    assert MANUAL.count(f"\n{header}") == 1, header
    lines = MANUAL[MANUAL.index(f"\n{header}") + 1 :].splitlines()
    rows = takewhile(lambda line: line.startswith("|"), lines[2:])
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def entries(page: str, title: str) -> list[list[str]]:
    """What a section lists as "- `name`: meaning": the part with its names, and the rest."""
    found = re.findall(r"^- (`.+?): (.+)$", section(page, title), re.MULTILINE)
    return [list(pair) for pair in found]


def line_with(words: str) -> str:
    """The one line that holds these words."""
    [line] = [line for line in MANUAL.splitlines() if words in line]
    return line


def names(cells: Iterable[str]) -> list[str]:
    """The words set as code, in order."""
    return [name for cell in cells for name in re.findall(r"`(\w+)`", cell)]

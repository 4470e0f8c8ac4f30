"""The README as tests read it: blocks, sections, tables."""

import re
from collections.abc import Iterable
from itertools import takewhile
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    """The fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)


def section(title: str) -> str:
    """The text under a heading of the second level."""
    found = re.search(
        rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", README, re.DOTALL | re.MULTILINE
    )
    assert found, f"the README has no section {title!r}"
    return found[1]


def table(header: str) -> list[list[str]]:
    """The cells of each row of the table whose first line starts so."""
    lines = README[README.index(f"\n{header}") + 1 :].splitlines()
    rows = takewhile(lambda line: line.startswith("|"), lines[2:])
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def names(cells: Iterable[str]) -> list[str]:
    """The words set as code, in order."""
    return [name for cell in cells for name in re.findall(r"`(\w+)`", cell)]

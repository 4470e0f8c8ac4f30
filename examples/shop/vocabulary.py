"""Reads the words of the search and of the sentiment, which stand in vocabulary.yaml."""

from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml  # type: ignore[import-untyped]  # its stubs are a package of their own

_FILE: Final = Path(__file__).with_name("vocabulary.yaml")


def read_vocabulary(name: str) -> dict[str, Any]:
    """One part of the file, by language."""
    part: dict[str, Any] = _read_file()[name]
    return part


@cache
def _read_file() -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(_FILE.read_text(encoding="utf-8"))
    return content

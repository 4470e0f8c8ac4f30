"""Where the tests stand, and how a script of another process finds a module of theirs."""

from pathlib import Path
from typing import Final

TESTS: Final = Path(__file__).parents[1]
DOCS: Final = TESTS.parent / "docs"


def reach(module: str) -> str:
    """The first line of a script that imports the test module of this file by its bare name."""
    return f"import sys; sys.path.insert(0, {str(Path(module).parent)!r})\n"

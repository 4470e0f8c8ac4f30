"""Which version's tables this package reads; those of others are refused, never taken for empty."""

from typing import Final

VERSION: Final = 3


def refusal(found: int, *, used: bool) -> str | None:
    """Why the tables of a database must be left alone; None where they need not.

    Args:
        found: The version that stands in it; 0 where none does.
        used: Whether it has tables of this package all the same, as the first versions left them.
    """
    if found > VERSION:
        return (
            f"The tables of this database are those of a newer loopwright (version {found}, this"
            f" one knows {VERSION}): update the package here, or use another database."
        )
    if found == VERSION or not (found or used):
        return None
    return (
        f"The tables of this database are those of an earlier loopwright (version {found or 1},"
        f" this one knows {VERSION}), which it cannot read: end its threads with the version that"
        " began them, or use another database."
    )

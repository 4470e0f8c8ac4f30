"""Saved threads of earlier versions, brought up to date or refused.

A change of what is saved raises `SCHEMA_VERSION` by one and comes with a step in `MIGRATIONS`: from
the number of the old version to a function that gives the update for its saved values. Threads of a
version that has no step are refused.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from .errors import ThreadIncompatible

SCHEMA_VERSION: Final = 3

MIGRATIONS: Final[dict[int, Callable[[Mapping[str, Any]], dict[str, Any]]]] = {}


def migrate(values: Mapping[str, Any], *, thread: str) -> dict[str, Any]:
    """The update that brings saved values to `SCHEMA_VERSION`; empty where they are there.

    A thread without a version has not begun its first turn.

    Raises:
        ThreadIncompatible: The thread was written by a newer version, or by one that no step
            leads on from.
    """
    version = int(values.get("schema_version") or SCHEMA_VERSION)
    if version > SCHEMA_VERSION:
        msg = (
            f"Thread {thread!r} was saved with schema version {version}, this package knows"
            f" {SCHEMA_VERSION}: upgrade loopwright to continue it."
        )
        raise ThreadIncompatible(msg)
    if version == SCHEMA_VERSION:
        return {}
    update: dict[str, Any] = {}
    for old in range(version, SCHEMA_VERSION):
        if old not in MIGRATIONS:
            msg = (
                f"Thread {thread!r} was saved by an earlier version (schema {version}), which this"
                " package cannot read: start a new thread."
            )
            raise ThreadIncompatible(msg)
        update |= MIGRATIONS[old]({**values, **update})
    return update | {"schema_version": SCHEMA_VERSION}

"""Whether a database can do what runs need of it: findings, each with what to do."""

import re
from collections.abc import Iterator

from ..state.errors import DatabaseError
from .base.findings import Finding
from .postgres import health as of_postgres
from .sqlite import health as of_sqlite


def findings(url: str) -> Iterator[Finding]:
    """Look at a database, and change nothing in it; one that is not there yet is not made.

    Raises:
        DatabaseError: The URL names none, or its drivers are not installed.
    """
    if re.match(r"postgres(ql)?://", url):
        yield from of_postgres.findings(url)
    elif re.fullmatch(r"sqlite:///.+", url):
        yield from of_sqlite.findings(url.removeprefix("sqlite:///"))
    else:
        msg = f"{url!r} names no database: give sqlite:///FILE or postgresql://…."
        raise DatabaseError(msg)

"""Answers one SELECT over a database file, in a process of its own whose memory is limited.

It reads the SQL from stdin and writes one JSON object to stdout: `table`, or `problem`. A process,
because a text function of DuckDB takes memory that DuckDB's own limit does not count.
"""

import json
import math
import resource
import sys
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final

import duckdb

MOST_ROWS: Final = 1_000
MOST_CHARACTERS: Final = 1_000_000
MOST_MEMORY: Final = 1024 * 1024 * 1024
_AT_ONCE: Final = 10


class Problem(Exception):
    """Why there is no answer, for whoever asked."""


def opened(path: str) -> duckdb.DuckDBPyConnection:
    """The database, which nothing can be written into and which reaches nothing else."""
    database = duckdb.connect(path, read_only=True)
    for setting in (
        "memory_limit = '256MB'",
        "threads = 1",
        "temp_directory = ''",
        "enable_external_access = false",
        "lock_configuration = true",  # the last one: nothing is set after it
    ):
        database.execute(f"SET {setting}")
    return database


def table(database: duckdb.DuckDBPyConnection, sql: str) -> dict[str, Any]:
    """What a SELECT gives, within the limits."""
    statements = database.extract_statements(sql)
    if [s.type for s in statements] != [duckdb.StatementType.SELECT]:
        message = "Only one SELECT is answered here, and nothing that changes data."
        raise Problem(message)
    database.execute(statements[0])
    columns = [column[0] for column in database.description or []]
    if len(set(columns)) < len(columns):
        message = f"Two of the columns {columns} have the same name: name each of them with AS."
        raise Problem(message)
    rows: list[dict[str, Any]] = []
    size = 0
    while found := database.fetchmany(_AT_ONCE):
        rows += [dict(zip(columns, map(_plain, row), strict=True)) for row in found]
        size += len(json.dumps(rows[-len(found) :], ensure_ascii=False))
        if len(rows) > MOST_ROWS:
            message = f"The query gives more than {MOST_ROWS:,} rows: aggregate, or set a LIMIT."
            raise Problem(message)
        if size > MOST_CHARACTERS:
            message = (
                f"The answer has more than {MOST_CHARACTERS:,} characters: aggregate, or ask for"
                " fewer columns."
            )
            raise Problem(message)
    return {"columns": columns, "rows": rows, "row_count": len(rows)}


def _plain(value: Any) -> Any:
    """A value of DuckDB as JSON; what has no JSON form becomes its text."""
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, date | datetime):
        return value.isoformat()
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value if value is None or isinstance(value, str | int) else str(value)


def main() -> None:
    """Answer, and say what is wrong where there is no answer."""
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    try:
        said: dict[str, Any] = {"table": table(opened(sys.argv[1]), sys.stdin.read())}
    except Problem as problem:
        said = {"problem": str(problem)}
    except (MemoryError, duckdb.OutOfMemoryException):
        said = {"problem": "The query needs more memory than it may take: ask for less."}
    except duckdb.Error as error:
        said = {"problem": f"DuckDB cannot answer this: {error}"}
    sys.stdout.write(json.dumps(said))


if __name__ == "__main__":
    main()

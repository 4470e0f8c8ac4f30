"""Whether a database can do what runs need of it; it is only read, and nothing is made."""

import os
import re
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from ..state.errors import DatabaseError
from ..text.canonical import format_seconds, format_size, plural
from .base.langgraph_keys import THREADS_SQL
from .journal.sql import get_cause
from .journal.tables import VERSION
from .postgres import database as postgres
from .postgres.schema import (
    ENDED,
    FREE,
    HELD,
    STATEMENTS,
    check_commits,
    explain_other_version,
    find_bad_encoding,
    read_version,
)
from .sqlite.file import URL as SQLITE, refuse_foreign

Level = Literal["ok", "warning", "broken"]
Told = tuple[Level, str]
"""Of a check whose name is known."""

_LATE: Final = 60.0
"""Seconds: a turn that waits for longer, and a lease that ended so long ago, want a worker."""


class Finding(NamedTuple):
    """One thing that was looked at. Only what is `broken` keeps runs from working."""

    level: Level
    check: str
    text: str


def inspect_database(url: str) -> Iterator[Finding]:
    """Look at a database, each check for itself.

    Raises:
        DatabaseError: The URL names none, or its drivers are not installed.
    """
    if postgres.URL.match(url):
        yield from _inspect_server(url)
    elif file := SQLITE.fullmatch(url):
        yield from _inspect_file(file[1])
    else:
        msg = f"{url!r} names no database: give sqlite:///FILE or postgresql://…."
        raise DatabaseError(msg)


_OLDEST_SQLITE: Final = (3, 35, 0)
"""The first SQLite whose statements say what they have written."""
_ROOM: Final = 200 * 1024**2
_LONG_LOG: Final = 256 * 1024**2
_QUICK: Final = 2 * 1024**3
"""Bytes of a file that is read whole in a few seconds."""


def _inspect_file(name: str) -> Iterator[Finding]:
    """Look at a file, by its name in the URL; one that is not there yet is not made."""
    if name == ":memory:":
        yield Finding("warning", "file", "It is in memory: its threads end with the process.")
        return
    path = Path(name).expanduser().absolute()
    if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
        wanted = ".".join(map(str, _OLDEST_SQLITE))
        text = f"SQLite {sqlite3.sqlite_version} is too old: Python needs {wanted} or later."
        yield Finding("broken", "version", text)
    else:
        yield Finding("ok", "version", f"SQLite {sqlite3.sqlite_version}.")
    yield from _check_folder(path)
    if not path.exists():
        yield Finding("warning", "file", f"{path} is not there yet: the first run makes it.")
        return
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
            refuse_foreign(connection, name)
            yield from _check_contents(connection, path)
    except (sqlite3.Error, DatabaseError) as error:
        why = f"{path} cannot be used ({get_cause(error)}): put back a copy, or name another file."
        yield Finding("broken", "file", why)


def _check_folder(path: Path) -> Iterator[Finding]:
    """The folder, the room in it, and where threads are locked."""
    folder = next(one for one in path.parents if one.exists())
    files = [path, Path(f"{path}-wal"), Path(f"{path}-shm"), Path(f"{path}.locks")]
    closed = [one for one in (folder, *files) if one.exists() and not os.access(one, os.W_OK)]
    for one in closed:
        what = "threads cannot be locked" if one.suffix == ".locks" else "nothing can be saved"
        text = f"{one} may not be written: {what}; give it to this user."
        yield Finding("broken", "rights", text)
    if not closed:
        yield Finding("ok", "rights", f"{folder} and the locks of threads may be written.")
    free, size = shutil.disk_usage(folder).free, path.stat().st_size if path.exists() else 0
    told = f"{format_size(free)} are free beside {format_size(size)}"
    if free > max(_ROOM, size // 4):
        yield Finding("ok", "room", f"{told}.")
    else:
        text = f"{told}: make room, or prune threads (loopwright prune)."
        yield Finding("warning", "room", text)


def _check_contents(connection: sqlite3.Connection, path: Path) -> Iterator[Finding]:
    def read_pragma(pragma: str) -> object:
        return connection.execute(f"PRAGMA {pragma}").fetchone()[0]

    size, log = path.stat().st_size, Path(f"{path}-wal")
    if size <= _QUICK and (said := read_pragma("quick_check(1)")) != "ok":
        yield Finding("broken", "file", f"{path} is damaged ({said}): put back a copy.")
        return
    if (mode := str(read_pragma("journal_mode"))) == "wal":
        yield Finding("ok", "log", "It writes ahead (WAL): readers and a writer do not wait.")
    elif read_pragma("schema_version"):
        text = f"It is in {mode} mode, where whoever reads stops who writes: open it once here."
        yield Finding("warning", "log", text)
    if log.exists() and (long := log.stat().st_size) > _LONG_LOG:
        text = f"{format_size(long)} of log wait for a process that has been reading for hours."
        yield Finding("warning", "log", text)
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    count = len(connection.execute(THREADS_SQL).fetchall()) if "checkpoints" in tables else 0
    unused = int(str(read_pragma("freelist_count"))) * int(str(read_pragma("page_size")))
    spare = f"; {format_size(unused)} of it are unused: loopwright prune gives them back"
    yield Finding("ok", "threads", f"{count} saved, {format_size(size)}{spare * (unused > _ROOM)}.")


_OLDEST_SERVER: Final = 140_000
_PATIENCE: Final = 10
_FULL: Final = 0.8
"""The part of the connections above which a few workers more find none."""
_SKEW: Final = 1.0

_CONNECTIONS: Final = """
SELECT (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend') AS used,
    (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()) AS here,
    current_setting('max_connections')::int
        - current_setting('superuser_reserved_connections')::int AS most,
    (SELECT datconnlimit FROM pg_database WHERE datname = current_database()) AS most_here
"""
_RIGHTS: Final = """
SELECT c.relname AS name, p.need
FROM pg_class c CROSS JOIN unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS p (need)
WHERE c.relkind IN ('r', 'p') AND c.relnamespace = to_regnamespace(quote_ident(current_schema()))
    AND c.relname = ANY(%s) AND NOT has_table_privilege(c.oid, p.need)
"""
_THERE: Final = """
SELECT c.relname AS name, coalesce(i.indisvalid, true) AS valid
FROM pg_class c LEFT JOIN pg_index i ON i.indexrelid = c.oid
WHERE c.relnamespace = to_regnamespace(quote_ident(current_schema())) AND c.relname = ANY(%s)
UNION ALL SELECT p.proname, true FROM pg_proc p
WHERE p.pronamespace = to_regnamespace(quote_ident(current_schema())) AND p.proname = ANY(%s)
"""
_LEASES: Final = f"""
SELECT count(*) FILTER (WHERE {HELD}) AS held,
    count(*) FILTER (WHERE {ENDED}) AS ended,
    extract(epoch FROM clock_timestamp() - min(until))::float AS seconds
FROM loopwright_threads WHERE until IS NOT NULL
"""
_OPEN: Final = """
SELECT pid, extract(epoch FROM clock_timestamp() - xact_start)::float AS seconds
FROM pg_stat_activity
WHERE datname = current_database() AND state LIKE 'idle in transaction%%'
    AND clock_timestamp() - xact_start > make_interval(secs => %s)
"""
_NOW: Final = "extract(epoch FROM clock_timestamp())::float"
_BY_GRAPH: Final = """
SELECT args->>'graph' AS graph, count(*) FILTER (WHERE status = 'todo') AS waiting,
    count(*) FILTER (WHERE status = 'failed') AS aside,
    (SELECT extract(epoch FROM clock_timestamp() - min(at))::float FROM procrastinate_events
        WHERE job_id = min(j.id) FILTER (WHERE status = 'todo' AND scheduled_at IS NULL)) AS seconds
FROM procrastinate_jobs j
WHERE task_name LIKE 'loopwright:%%' AND status IN ('todo', 'failed') GROUP BY args->>'graph'
"""
_THREADS: Final = f"""
SELECT count(*) AS saved, coalesce(sum({postgres.BYTES}), 0)::bigint AS bytes,
    count(*) FILTER (WHERE state = 'unfinished') AS unfinished,
    count(*) FILTER (WHERE state = 'asks') AS asks,
    extract(epoch FROM clock_timestamp() - min(updated) FILTER (
        WHERE state = 'unfinished' AND {FREE}
    ))::float AS seconds
FROM loopwright_threads WHERE updated IS NOT NULL
"""

_MADE: Final = re.compile(
    r"CREATE (?:OR REPLACE )?(?:UNIQUE )?(TABLE|INDEX|FUNCTION|SEQUENCE) (?:IF NOT EXISTS )?(\w+)"
)

Check = Callable[[Any], Iterator[Told]]


def _inspect_server(url: str) -> Iterator[Finding]:
    """Look at a database, each check for itself: one that fails hides no other."""
    psycopg = postgres.import_drivers(url)[0]
    shown = postgres.hide_password(url)
    options = {"autocommit": True, "row_factory": psycopg.rows.dict_row, "prepare_threshold": None}
    try:
        connection = psycopg.connect(url, connect_timeout=_PATIENCE, **options)
    except psycopg.Error as error:
        told = f"{shown} is not reached ({postgres.redact_cause(url, error)})"
        yield Finding("broken", "reachable", f"{told}: check {postgres.REACHED}.")
        return
    with connection:
        yield _check_server(connection, shown)
        checks = {**_CHECKS}
        with suppress(psycopg.Error):  # told by a check
            checks |= _OF_TABLES if read_version(connection) == VERSION else {}
        for name, check in checks.items():
            try:
                yield from (Finding(level, name, text) for level, text in check(connection))
            except psycopg.Error as error:
                told = f"This cannot be looked at ({get_cause(error)})"
                yield Finding("broken", name, f"{told}: give this user the right to, or try again.")
                if connection.closed:
                    return


def _check_server(connection: Any, shown: str) -> Finding:
    server, pid = connection.info.server_version, connection.info.backend_pid
    named = f"PostgreSQL {server // 10_000}.{server % 10_000} at {shown}"
    pooled = _query(connection, "SELECT pg_backend_pid() AS pid")[0]["pid"] != pid
    how = "through a connection pool, where statements are not prepared" if pooled else "directly"
    if server < _OLDEST_SERVER:
        return Finding("broken", "reachable", f"{named} is too old: 14 or later is needed.")
    if told := find_bad_encoding(connection):
        return Finding("broken", "reachable", f"{named} keeps texts as {told}: UTF8 is needed.")
    return Finding("ok", "reachable", f"{named} is reached {how}.")


def _check_rights(connection: Any) -> Iterator[Told]:
    about = _query(
        connection,
        "SELECT current_user AS who, current_schema() AS schema, pg_is_in_recovery() AS copy,"
        " current_setting('default_transaction_read_only') = 'on' AS bars,"
        " coalesce(has_schema_privilege(current_schema(), 'CREATE'), false) AS makes",
    )[0]
    who, schema = about["who"], about["schema"]
    if about["copy"] or about["bars"]:
        yield "broken", "It can only be read: name the primary server, not a copy of it."
        return
    lacking = _query(connection, _RIGHTS, [*_list_created_names("TABLE"), *_OTHERS])
    rights = ", ".join(sorted({row["need"] for row in lacking}))
    tables = ", ".join(sorted({row["name"] for row in lacking}))
    if lacking:
        yield "broken", f"The user {who} lacks {rights} on {tables}: GRANT them."
    if not about["makes"]:
        level: Level = "warning" if read_version(connection) else "broken"
        yield level, f"The user {who} may make no tables in {schema}: an upgrade needs that once."
    if about["makes"] and not lacking:
        yield "ok", f"The user {who} may read, write and make tables in {schema}."


def _check_connections(connection: Any) -> Iterator[Told]:
    row = _query(connection, _CONNECTIONS)[0]
    used, most = row["used"], row["most"]
    if 0 <= row["most_here"] < most:
        used, most = row["here"], row["most_here"]
    told = f"{used} of {most} connections are in use"
    if used < most * _FULL:
        yield "ok", f"{told}."
    else:
        yield "warning", f"{told}: raise max_connections, or put PgBouncer in front of it."


def _check_clock(connection: Any) -> Iterator[Told]:
    before = time.time()
    (row,) = _query(connection, f"SELECT {_NOW} AS now")
    ahead = measure_clock_skew(row["now"], before, time.time())
    if abs(ahead) < _SKEW:
        yield "ok", "The clocks of this machine and of the database agree."
        return
    where = "ahead of" if ahead > 0 else "behind"
    told = f"This machine's clock is {format_seconds(abs(ahead))} {where} the database's"
    yield "warning", f"{told}: no lease heeds it, but times in logs are wrong; set it (NTP)."


def _check_schema(connection: Any) -> Iterator[Told]:
    if why := explain_other_version(connection):
        yield "broken", why
    elif found := read_version(connection):
        yield "ok", f"The tables are of version {found}, as this loopwright makes them."
    else:
        yield "warning", "There are no tables of loopwright yet: whoever opens it first makes them."


def _check_parts(connection: Any) -> Iterator[Told]:
    """The tables, indexes and functions of this version."""
    wanted = {name: sql for sql in STATEMENTS for _, name in _MADE.findall(sql)}
    found = {
        row["name"]: row["valid"]
        for row in _query(connection, _THERE, [*wanted], _list_created_names("FUNCTION"))
    }
    bad = [name for name in wanted if not found.get(name)]
    for name in bad:
        sql = " ".join(wanted[name].split())
        first = f"DROP INDEX {name}; " if name in found else ""
        is_index = sql.startswith("CREATE INDEX")
        told = f"{name} is {'not valid' if first else 'missing'}"
        how = f"run {first}{sql}" if is_index else _ANEW
        yield "warning" if is_index else "broken", f"{told}: {how}"
    if not bad:
        yield "ok", "All tables, indexes and functions are there."


def _check_leases(connection: Any) -> Iterator[Told]:
    (row,) = _query(connection, _LEASES)
    held, ended = row["held"], row["ended"]
    if ended:
        age = format_seconds(row["seconds"])
        leases = f"Leases: {held} held, {ended} ended without being let go, {age}"
        yield "warning", f"{leases} ago at most: resume those threads, or start a worker."
    else:
        yield "ok", f"Leases: {held} held, none has run out."
    for row in _query(connection, _OPEN, _LATE):
        told = f"Process {row['pid']} has a transaction open since {format_seconds(row['seconds'])}"
        yield "warning", f"{told} and does nothing: end that process."


def _check_turns(connection: Any) -> Iterator[Told]:
    if not _query(connection, "SELECT to_regclass('procrastinate_jobs') AS made")[0]["made"]:
        yield "ok", "There is no queue of turns yet: loopwright doctor --prepare makes one."
        return
    rows = _query(connection, _BY_GRAPH)
    if aside := sum(row["aside"] for row in rows):
        told = f"{plural(aside, 'turn')} set aside, which cannot run or ended the workers"
        yield "warning", f"{told}: see why (loopwright turns), fix it, then enqueue again."
    for row in rows:
        if (row["seconds"] or 0) > _LATE:
            since = format_seconds(row["seconds"])
            yield "warning", f"A turn of {row['graph']} waits for {since}: start more workers."
    yield "ok", f"{plural(sum(row['waiting'] for row in rows), 'turn')} in the queue."


def _check_threads(connection: Any) -> Iterator[Told]:
    (row,) = _query(connection, _THREADS)
    saved = f"{row['saved']} threads, {format_size(row['bytes'])}; {row['asks']} wait for people"
    left = f"{row['unfinished']} are unfinished"
    if row["seconds"] and row["seconds"] > _LATE:
        since = f"one of them untouched for {format_seconds(row['seconds'])}"
        yield "warning", f"{saved}; {left}, {since}: resume them, or start a worker."
    else:
        yield "ok", f"{saved}; {left}."


_CHECKS: Final[dict[str, Check]] = {
    "rights": _check_rights,
    "connections": _check_connections,
    "clock": _check_clock,
    "commits": check_commits,
    "schema": _check_schema,
}
_OF_TABLES: Final[dict[str, Check]] = {
    "parts": _check_parts,
    "leases": _check_leases,
    "turns": _check_turns,
    "threads": _check_threads,
}
_OTHERS: Final = (
    "store", "loopwright_journal", "checkpoints", "checkpoint_blobs", "checkpoint_writes",
)  # fmt: skip
_ANEW: Final = "run DELETE FROM loopwright_schema, then open the database again."


def _list_created_names(kind: str) -> list[str]:
    made = (pair for sql in STATEMENTS for pair in _MADE.findall(sql))
    return [name for what, name in made if what == kind]


def _query(connection: Any, sql: str, *values: object) -> list[dict[str, Any]]:
    return list(connection.execute(sql, values or None).fetchall())


def measure_clock_skew(theirs: float, before: float, after: float) -> float:
    """How far our clock is ahead of theirs, at least: what the trip took says nothing."""
    return max(before - theirs, min(after - theirs, 0.0))

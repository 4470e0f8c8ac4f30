"""Whether a PostgreSQL database can do what runs need of it; it is only read."""

import re
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from ...text.canonical import format_seconds, format_size
from ..base.findings import LATE, Finding, Level, Told, describe_queue
from ..journal.sql import get_cause
from ..journal.tables import VERSION
from ..work.turns import BY_GRAPH
from .database import BYTES, REACHED, hide_password, import_drivers, redact_cause
from .schema import (
    ENDED,
    FREE,
    HELD,
    STATEMENTS,
    explain_other_version,
    find_bad_encoding,
    read_version,
)

_OLDEST: Final = 140_000
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
_THREADS: Final = f"""
SELECT count(*) AS saved, coalesce(sum({BYTES}), 0)::bigint AS bytes,
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


def inspect_database(url: str) -> Iterator[Finding]:
    """Look at a database, each check for itself: one that fails hides no other."""
    psycopg = import_drivers(url)[0]
    shown = hide_password(url)
    options = {"autocommit": True, "row_factory": psycopg.rows.dict_row, "prepare_threshold": None}
    try:
        connection = psycopg.connect(url, connect_timeout=_PATIENCE, **options)
    except psycopg.Error as error:
        told = f"{shown} is not reached ({redact_cause(url, error)})"
        yield Finding("broken", "reachable", f"{told}: check {REACHED}.")
        return
    with connection:
        yield _check_server(connection, shown)
        for name, check in _CHECKS.items():
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
    pooled = query_rows(connection, "SELECT pg_backend_pid() AS pid")[0]["pid"] != pid
    how = "through a connection pool, where statements are not prepared" if pooled else "directly"
    if server < _OLDEST:
        return Finding("broken", "reachable", f"{named} is too old: 14 or later is needed.")
    if told := find_bad_encoding(connection):
        return Finding("broken", "reachable", f"{named} keeps texts as {told}: UTF8 is needed.")
    return Finding("ok", "reachable", f"{named} is reached {how}.")


def _check_rights(connection: Any) -> Iterator[Told]:
    about = query_rows(
        connection,
        "SELECT current_user AS who, current_schema() AS schema, pg_is_in_recovery() AS copy,"
        " current_setting('default_transaction_read_only') = 'on' AS bars,"
        " coalesce(has_schema_privilege(current_schema(), 'CREATE'), false) AS makes",
    )[0]
    who, schema = about["who"], about["schema"]
    if about["copy"] or about["bars"]:
        yield "broken", "It can only be read: name the primary server, not a copy of it."
        return
    lacking = query_rows(connection, _RIGHTS, [*_list_created_names("TABLE"), *_OTHERS])
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
    row = query_rows(connection, _CONNECTIONS)[0]
    used, most = row["used"], row["most"]
    if 0 <= row["most_here"] < most:
        used, most = row["here"], row["most_here"]
    told = f"{used} of {most} connections are in use"
    if used < most * _FULL:
        yield "ok", f"{told}."
    else:
        advice = "raise max_connections, give workers fewer, or put PgBouncer in front of it"
        yield "warning", f"{told}: {advice}."


def _check_clock(connection: Any) -> Iterator[Told]:
    before = time.time()
    (row,) = query_rows(connection, f"SELECT {_NOW} AS now")
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
    if read_version(connection) != VERSION:
        return
    wanted = {name: sql for sql in STATEMENTS for _, name in _MADE.findall(sql)}
    found = {
        row["name"]: row["valid"]
        for row in query_rows(connection, _THERE, [*wanted], _list_created_names("FUNCTION"))
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
    if read_version(connection) == VERSION:
        (row,) = query_rows(connection, _LEASES)
        held, ended = row["held"], row["ended"]
        if ended:
            age = format_seconds(row["seconds"])
            leases = f"Leases: {held} held, {ended} ended without being let go, {age}"
            yield "warning", f"{leases} ago at most: resume those threads, or start a worker."
        else:
            yield "ok", f"Leases: {held} held, none has run out."
    for row in query_rows(connection, _OPEN, LATE):
        told = f"Process {row['pid']} has a transaction open since {format_seconds(row['seconds'])}"
        yield "warning", f"{told} and does nothing: end it by pg_terminate_backend({row['pid']})."


def _check_turns(connection: Any) -> Iterator[Told]:
    if not query_rows(connection, "SELECT to_regclass('loopwright_turns') IS NOT NULL AS made")[0][
        "made"
    ]:
        return
    rows = query_rows(connection, BY_GRAPH.format(now=_NOW))
    yield from describe_queue(
        (row["graph"], row["waiting"], row["aside"], row["seconds"]) for row in rows
    )


def _check_threads(connection: Any) -> Iterator[Told]:
    if read_version(connection) != VERSION:
        return
    (row,) = query_rows(connection, _THREADS)
    saved = f"{row['saved']} threads, {format_size(row['bytes'])}; {row['asks']} wait for people"
    left = f"{row['unfinished']} are unfinished"
    if row["seconds"] and row["seconds"] > LATE:
        since = f"one of them untouched for {format_seconds(row['seconds'])}"
        advice = "resume them; a worker goes on with turns of its queue, and with runs that died"
        yield "warning", f"{saved}; {left}, {since}: {advice}."
    else:
        yield "ok", f"{saved}; {left}."


_CHECKS: Final[dict[str, Check]] = {
    "rights": _check_rights,
    "connections": _check_connections,
    "clock": _check_clock,
    "schema": _check_schema,
    "parts": _check_parts,
    "leases": _check_leases,
    "turns": _check_turns,
    "threads": _check_threads,
}
_OTHERS: Final = (
    "store",
    "loopwright_journal",
    "checkpoints",
    "checkpoint_blobs",
    "checkpoint_writes",
)
_ANEW: Final = (
    "run DELETE FROM loopwright_schema, then open the database: it makes what is missing."
)


def _list_created_names(kind: str) -> list[str]:
    found = (one for sql in STATEMENTS for one in _MADE.findall(sql))
    return [name for made, name in found if made == kind]


def query_rows(connection: Any, sql: str, *values: object) -> list[dict[str, Any]]:
    """The rows of a query."""
    return list(connection.execute(sql, values or None).fetchall())


def measure_clock_skew(theirs: float, before: float, after: float) -> float:
    """How far our clock is ahead of theirs, at least: what the trip took says nothing."""
    return max(before - theirs, min(after - theirs, 0.0))

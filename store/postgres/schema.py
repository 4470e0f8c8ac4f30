"""Tables and functions in PostgreSQL, created together by the first process.

One row a thread has its holder, its status and its size. A checked lease locks its row until the
end of the transaction, so that nobody takes the thread during a write. Transactions lock rows in
the order of their names.
"""

from collections.abc import Iterator
from typing import Any, Final, Literal

from ...state.errors import DatabaseError
from ...text.canonical import make_storable
from ..journal.port import Fence
from ..journal.tables import VERSION, explain_refusal

LOST: Final = "LW001"
"""The SQLSTATE of what is not written because the lease is another's by now."""

HELD: Final = "until >= clock_timestamp()"
"""Of a thread's row: somebody holds it."""

ENDED: Final = "until < clock_timestamp()"
"""Whoever held it has not let go of it, and does not answer."""

FREE: Final = f"(until IS NULL OR {ENDED})"
"""Whoever comes may take it."""
_T_FREE: Final = FREE.replace("until", "t.until")

UNENDED: Final = "state IN ('unfinished', 'asks')"
"""Its turn has not ended."""

HOLDS: Final = (
    "coalesce((SELECT true FROM loopwright_threads WHERE name = ? AND token = ?"
    " FOR NO KEY UPDATE), loopwright_holds(?, ?))"
)
"""SQL that is true if the token still holds the thread, and raises otherwise. Pass name and token
twice: the look costs half of the function that raises."""


BRIEFLY: Final = "set_config('idle_in_transaction_session_timeout', '5s', true)"
"""Has the server end a transaction that waits for its client for so long: that one is frozen."""


def build_fence_values(fence: Fence) -> list[object]:
    """What HOLDS is given for a lease."""
    return [make_storable(fence.name), fence.token] * 2


_ONE_AT_A_TIME: Final = "SELECT pg_advisory_xact_lock(hashtextextended('loopwright schema', 0))"

STATEMENTS: tuple[str, ...] = (
    """
CREATE TABLE IF NOT EXISTS loopwright_threads (
    name TEXT COLLATE "C" PRIMARY KEY,
    owner TEXT,
    token BIGINT NOT NULL DEFAULT 0,
    until TIMESTAMPTZ,
    graph TEXT NOT NULL DEFAULT '',
    state TEXT NOT NULL DEFAULT '',
    status TEXT,
    updated TIMESTAMPTZ
) WITH (fillfactor = 70)""",
    """
CREATE TABLE IF NOT EXISTS loopwright_waiting (
    ticket BIGSERIAL PRIMARY KEY,
    name TEXT COLLATE "C" NOT NULL,
    owner TEXT NOT NULL,
    until TIMESTAMPTZ NOT NULL
)""",
    "CREATE INDEX IF NOT EXISTS loopwright_waiting_by_name ON loopwright_waiting (name, ticket)",
    # For `PostgresDatabase.find`. None of `until`: it changes with each renewal.
    "CREATE INDEX IF NOT EXISTS loopwright_threads_by_age ON loopwright_threads (updated)",
    "CREATE INDEX IF NOT EXISTS loopwright_threads_left ON loopwright_threads (state, updated)"
    f" WHERE {UNENDED} OR status <> 'complete'",
    # Takes a thread, or tells who holds it; whoever locks its row for long has it still, though his
    # lease may have ended. With a `place` the process waits: it has a ticket, which lasts for five
    # seconds, or a lease if that is shorter, from each time it asks. Nobody goes before those with
    # a lower one, who hold nothing yet.
    f"""
CREATE OR REPLACE FUNCTION loopwright_lease(
    given TEXT, who TEXT, shown BIGINT, seconds DOUBLE PRECISION, place BIGINT,
    OUT holder TEXT, OUT gone TEXT
) LANGUAGE plpgsql SET lock_timeout = '2s' AS $$
DECLARE
    found_row loopwright_threads;
    ends TIMESTAMPTZ := clock_timestamp() + make_interval(secs => least(seconds, 5));
    mine BIGINT;
BEGIN
    IF place IS NOT NULL THEN
        UPDATE loopwright_waiting SET until = ends
        WHERE name = given AND owner = who RETURNING ticket INTO mine;
        IF NOT FOUND THEN
            INSERT INTO loopwright_waiting (name, owner, until)
            VALUES (given, who, ends) RETURNING ticket INTO mine;
        END IF;
    END IF;
    SELECT * INTO found_row FROM loopwright_threads WHERE name = given;
    holder := coalesce(found_row.owner, '');
    IF found_row.until >= clock_timestamp() AND found_row.token <> shown THEN
        RETURN;
    END IF;
    PERFORM 1 FROM loopwright_waiting
    WHERE name = given AND {HELD} AND ticket < coalesce(mine, ticket + 1);
    IF FOUND THEN
        RETURN;
    END IF;
    BEGIN
        INSERT INTO loopwright_threads AS t (name, owner, token, until)
        VALUES (given, who, shown, clock_timestamp() + make_interval(secs => seconds))
        ON CONFLICT (name) DO UPDATE SET owner = who, token = shown,
            until = clock_timestamp() + make_interval(secs => seconds)
        WHERE {_T_FREE} OR t.token = shown;
    EXCEPTION WHEN lock_not_available THEN
        RETURN;
    END;
    IF FOUND THEN
        DELETE FROM loopwright_waiting WHERE name = given AND (ticket = mine OR {ENDED});
        gone := nullif(holder, '');
        holder := NULL;
    END IF;
END $$""",
    # Called in a transaction that writes: it goes on only while this token is the thread's.
    f"""
CREATE OR REPLACE FUNCTION loopwright_holds(given TEXT, shown BIGINT)
RETURNS BOOLEAN LANGUAGE plpgsql AS $$
DECLARE holder TEXT;
BEGIN
    PERFORM 1 FROM loopwright_threads WHERE name = given AND token = shown FOR NO KEY UPDATE;
    IF FOUND THEN
        RETURN TRUE;
    END IF;
    SELECT owner INTO holder FROM loopwright_threads WHERE name = given;
    RAISE EXCEPTION USING ERRCODE = '{LOST}', MESSAGE = given, DETAIL = coalesce(holder, '');
END $$""",
)

_ELSEWHERE: Final = (
    "SELECT relnamespace::regnamespace::text AS place, current_schema()::text AS here FROM pg_class"
    " WHERE oid = to_regclass('loopwright_schema')"
    " AND relnamespace <> to_regnamespace(quote_ident(current_schema()))"
)
_SAME: Final = (
    "SELECT count(*) AS found FROM pg_proc WHERE prosrc = ANY(%s)"
    " AND pronamespace = to_regnamespace(quote_ident(current_schema()))"
)

NO_RIGHT: Final = "42501"
"""The SQLSTATE of what a user may not do."""

# What an earlier version left: tables without a version, or with a lower one.
_EARLIER: Final = (
    "SELECT to_regclass('loopwright_journal') IS NOT NULL"
    " AND to_regclass('loopwright_schema') IS NULL AS used"
)


_COMMITS: Final = """
SELECT current_setting('synchronous_commit') AS mode, count(*) AS copies,
    count(*) FILTER (WHERE sync_state IN ('sync', 'quorum')) AS sync
FROM pg_stat_replication
"""


def find_bad_encoding(connection: Any) -> str:
    """How the database keeps texts, where it does not keep every text there is."""
    told = connection.info.parameter_status("server_encoding") or ""
    return "" if told == "UTF8" else told


def check_commits(connection: Any) -> Iterator[tuple[Literal["ok", "warning"], str]]:
    """Whether a server that fails, or its copy that takes over, may have lost what was saved."""
    row = connection.execute(_COMMITS).fetchone()
    mode, lost = row["mode"], "a claim may be lost, and its write made twice"
    if mode in ("off", "local"):
        yield "warning", f"synchronous_commit is {mode}: {lost}; set it to on."
    elif row["copies"] and not row["sync"]:
        yield "warning", f"No copy is synchronous: if one takes over {lost}; name it to the server."
    else:
        yield "ok", "What is saved stays saved when the server fails."


def check_encoding(connection: Any) -> None:
    """Raise DatabaseError if the database cannot keep every text."""
    if told := find_bad_encoding(connection):
        msg = (
            f"The database keeps texts as {told}, which cannot hold every text: create another one"
            " (CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0), and use that."
        )
        raise DatabaseError(msg)


def prepare(connection: Any) -> None:
    """Create what is missing in one transaction; DatabaseError at another version's tables.

    If nothing is missing, no right to create tables is needed. Functions of another release of this
    version are replaced if the user may; old and new ones work for both.
    """
    if read_version(connection) == VERSION and not _explain_other_place(connection):
        _replace_functions(connection)
        return
    with connection.transaction():
        connection.execute(_ONE_AT_A_TIME)
        if why := explain_other_version(connection):
            raise DatabaseError(why)
        for statement in STATEMENTS:
            connection.execute(statement)
        connection.execute("CREATE TABLE IF NOT EXISTS loopwright_schema (version INT NOT NULL)")
        connection.execute("DELETE FROM loopwright_schema")
        connection.execute("INSERT INTO loopwright_schema (version) VALUES (%s)", [VERSION])


def _replace_functions(connection: Any) -> None:
    functions = [sql for sql in STATEMENTS if "CREATE OR REPLACE" in sql]
    bodies = [sql.split("$$")[1] for sql in functions]
    if connection.execute(_SAME, [bodies]).fetchone()["found"] == len(bodies):
        return
    try:
        with connection.transaction():
            connection.execute(_ONE_AT_A_TIME)
            for sql in functions:
                connection.execute(sql)
    except Exception as error:
        if getattr(error, "sqlstate", None) != NO_RIGHT:
            raise


def _explain_other_place(connection: Any) -> str | None:
    """Why tables that are found must be left alone beside which others would be made."""
    if (found := connection.execute(_ELSEWHERE).fetchone()) is None:
        return None
    return (
        f"The tables of loopwright are in the schema {found['place']}, and new ones would be made"
        f" in {found['here']}: name {found['place']} first in the search_path, or it alone."
    )


def explain_other_version(connection: Any) -> str | None:
    """Why the tables of another version must be left alone; None where they need not."""
    return _explain_other_place(connection) or explain_refusal(
        read_version(connection), used=connection.execute(_EARLIER).fetchone()["used"]
    )


def read_version(connection: Any) -> int:
    """The version of the existing tables; 0 without tables."""
    found = connection.execute("SELECT to_regclass('loopwright_schema') IS NOT NULL AS made")
    if not found.fetchone()["made"]:
        return 0
    (row,) = connection.execute("SELECT max(version) AS version FROM loopwright_schema").fetchall()
    return int(row["version"] or 0)

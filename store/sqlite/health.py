"""Whether a SQLite file can do what runs need of it; it is only read."""

import os
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

from ...state.errors import DatabaseError
from ...text.canonical import format_size
from ..base.findings import Finding, Level, describe_queue
from ..base.langgraph_keys import THREADS_SQL
from ..journal.sql import get_cause
from ..work.turns import BY_GRAPH
from .file import refuse_foreign

_OLDEST: Final = (3, 35, 0)
"""The first SQLite whose statements say what they have written."""
_ROOM: Final = 200 * 1024**2
_LONG_LOG: Final = 256 * 1024**2
_QUICK: Final = 2 * 1024**3
"""Bytes of a file that is read whole in a few seconds."""


def inspect_database(name: str) -> Iterator[Finding]:
    """Look at a file, by its name in the URL; one that is not there yet is not made."""
    if name == ":memory:":
        yield Finding("warning", "file", "It is in memory: its threads end with the process.")
        return
    path = Path(name).expanduser().absolute()
    yield _check_library()
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


def _check_library() -> Finding:
    found = sqlite3.sqlite_version_info
    if found >= _OLDEST:
        return Finding("ok", "version", f"SQLite {sqlite3.sqlite_version}.")
    wanted = ".".join(map(str, _OLDEST))
    text = f"SQLite {sqlite3.sqlite_version} is too old: install a Python with {wanted} or later."
    return Finding("broken", "version", text)


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
    level: Level = "ok" if free > max(_ROOM, size // 4) else "warning"
    advice = "" if level == "ok" else ": make room, or prune threads (loopwright prune)"
    yield Finding(
        level, "room", f"{format_size(free)} are free beside {format_size(size)}{advice}."
    )


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
    if log.exists() and log.stat().st_size > _LONG_LOG:
        long = (
            f"{format_size(log.stat().st_size)} of log are not in the file yet: end a process that"
        )
        yield Finding("warning", "log", f"{long} reads in it for hours.")
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    count = len(connection.execute(THREADS_SQL).fetchall()) if "checkpoints" in tables else 0
    if "loopwright_turns" in tables:
        sql = BY_GRAPH.format(now=repr(time.time()))
        for level, text in describe_queue(connection.execute(sql)):
            yield Finding(level, "turns", text)
    unused = int(str(read_pragma("freelist_count"))) * int(str(read_pragma("page_size")))
    spare = f"; {format_size(unused)} of it are unused: loopwright prune gives them back"
    told = spare if unused > _ROOM else ""
    yield Finding("ok", "threads", f"{count} saved, {format_size(size)}{told}.")

"""The journal and the locks of threads that a saver of LangGraph's saves, which somebody gave us.

They stand in the saver's own database, so that every process that uses it has the same.
"""

import asyncio
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final
from urllib.parse import quote, urlencode
from weakref import WeakKeyDictionary, finalize

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver

from ..state.errors import DatabaseError
from .checkpoints.async_adapters import ThreadedSaver
from .durability import Durability, open_durability
from .journal.sql import MemoryJournal
from .sqlite.file import MAIN_FILE

_CONNECTIONS: Final = 4
"""To Postgres, beside those of the saver."""

_CLOSED: Final = (
    "The connection of checkpointer= is not open: open it before the graph is built, and close it"
    " after the last run."
)
_opened: WeakKeyDictionary[BaseCheckpointSaver[Any], Durability] = WeakKeyDictionary()
_journals: WeakKeyDictionary[BaseCheckpointSaver[Any], MemoryJournal] = WeakKeyDictionary()
_opening = threading.Lock()


def find_database_opener(saver: object) -> Callable[[], Durability] | None:
    """What opens the database of a saver, by the first use; None where that is not known.

    It blocks, and raises DatabaseError where the tables for it can neither be found nor made.
    """
    if not isinstance(saver, BaseCheckpointSaver):
        return None
    if isinstance(saver, ThreadedSaver):
        opened = saver.opened_by
        return None if opened is None else lambda: opened
    if _is_from_module(saver, "langgraph.checkpoint.sqlite.aio"):
        return lambda: _open_once(saver, _find_async_sqlite_url(saver))
    url = _find_url(saver)
    return None if url is None else partial(_open_once, saver, url)


def has_unknown_database(saver: object) -> bool:
    """Whether neither its database is known, nor that it is this process's own."""
    if isinstance(saver, ThreadedSaver | InMemorySaver | SqliteSaver):
        return False
    return isinstance(saver, BaseCheckpointSaver) and find_database_opener(saver) is None


def find_memory_journal(saver: object) -> MemoryJournal | None:
    """The one journal in memory of all graphs that use a saver; None without one."""
    if not isinstance(saver, BaseCheckpointSaver):
        return None
    with _opening:
        return _journals.setdefault(saver, MemoryJournal())


def _open_once(saver: BaseCheckpointSaver[Any], url: str) -> Durability:
    with _opening:
        if (kept := _opened.get(saver)) is None:
            kept = _opened[saver] = open_durability(url, connections=_CONNECTIONS)
            finalize(saver, kept.close)
        return kept


def _find_url(saver: BaseCheckpointSaver[Any]) -> str | None:
    if isinstance(saver, SqliteSaver):
        with saver.lock:
            ((file,),) = saver.conn.execute(MAIN_FILE)
        return f"sqlite:///{file}" if file else None
    if _is_from_module(saver, "langgraph.checkpoint.postgres"):
        return _find_postgres_url(getattr(saver, "conn", None))
    return None


def _is_from_module(saver: object, module: str) -> bool:
    """Whether its class, or one it derives from, stands there; the module may be an extra."""
    return any(base.__module__.startswith(module) for base in type(saver).__mro__)


def _find_async_sqlite_url(saver: Any) -> str:
    """Its connection has a thread of its own, which answers any event loop: a new one, too."""

    async def fetch_file() -> Any:
        async with saver.conn.execute(MAIN_FILE) as cursor:
            return await cursor.fetchone()

    try:
        (file,) = asyncio.run(fetch_file())
    except ValueError as error:
        raise DatabaseError(_CLOSED) from error
    return f"sqlite:///{file or ':memory:'}"


def _find_postgres_url(owner: Any) -> str | None:
    """By which another connection reaches the database of a connection, or of a pool of them."""
    from psycopg.conninfo import conninfo_to_dict  # noqa: PLC0415 - an extra

    found: Mapping[str, Any] = {}
    if getattr(owner, "closed", False) is True:
        raise DatabaseError(_CLOSED)
    if (info := getattr(owner, "info", None)) is not None:
        found = {**info.get_parameters(), "password": info.password or None}
    elif isinstance(named := getattr(owner, "conninfo", None), str):
        given = getattr(owner, "kwargs", None)
        found = {**conninfo_to_dict(named), **(given if isinstance(given, Mapping) else {})}
    reaches = {name: value for name, value in found.items() if isinstance(value, str | int)}
    return f"postgresql:///?{urlencode(reaches, quote_via=quote)}" if reaches else None

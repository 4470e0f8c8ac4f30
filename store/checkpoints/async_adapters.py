"""Sync savers and stores with async methods, which run in worker threads.

So one connection serves every event loop: an async driver would belong to the loop it was opened
on.
"""

import copy
import sqlite3
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from functools import partial, wraps
from typing import Any, Self

from langchain_core.runnables import ConfigurableFieldSpec, RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.runtime import Runtime
from langgraph.store.base import BaseStore, Op, Result
from langgraph.store.sqlite import SqliteStore

from ...state.errors import DatabaseError
from ..base import langgraph_keys as keys
from ..base.worker_threads import run_in_worker
from ..journal.sql import get_cause
from ..locks.thread_locks import Locks

Saver = BaseCheckpointSaver[Any]


def is_sync_only(saver: object) -> bool:
    """Whether a saver lacks async methods; a sync saver may override others, never this one."""
    return (
        isinstance(saver, BaseCheckpointSaver)
        and type(saver).aput_writes is BaseCheckpointSaver.aput_writes
    )


def ensure_async_saver(saver: Any) -> Any:
    """The saver itself, or its threaded twin if it is sync only; None and flags pass."""
    return ThreadedSaver(saver) if is_sync_only(saver) else saver


def ensure_async_store(store: BaseStore | None) -> BaseStore | None:
    """The store itself, or its threaded twin if its `abatch` refuses (SqliteStore)."""
    return ThreadedStore(store) if isinstance(store, SqliteStore) else store


class ThreadedSaver(Saver):
    """Any sync saver with async methods that run in worker threads.

    `forget` drops what else is kept of a deleted thread; `opened_by` is the Durability it is of.
    """

    opened_by: Any = None

    def __init__(
        self, inner: Saver, locks: Locks | None = None, forget: Callable[[str], None] | None = None
    ) -> None:
        """Adapt `inner`, which must be safe to call from several threads."""
        super().__init__(serde=inner.serde)
        self.inner, self.locks, self.forget = inner, locks, forget

    def __getattr__(self, name: str) -> Any:
        """What only the inner saver knows (its connection, `setup`, …)."""
        if name == "inner":  # asked by copy() before the instance has its fields
            raise AttributeError(name)
        return getattr(self.inner, name)

    @property
    def config_specs(self) -> list[ConfigurableFieldSpec]:
        """The configurable fields of the inner saver."""
        return self.inner.config_specs

    def get_next_version(self, current: Any, channel: None) -> Any:
        """The inner saver's version scheme."""
        return self.inner.get_next_version(current, channel)

    def with_allowlist(self, extra_allowlist: Collection[tuple[str, ...]]) -> Self:
        """A twin whose inner saver accepts these types as well."""
        twin = copy.copy(self)
        twin.inner = self.inner.with_allowlist(extra_allowlist)
        twin.serde = twin.inner.serde
        return twin

    def delete_thread(self, thread_id: str) -> None:
        """See the inner saver; whatever else is kept of the thread goes with it."""
        self.inner.delete_thread(thread_id)
        if self.forget is not None:
            self.forget(str(thread_id))

    async def alist(self, config: RunnableConfig | None, **options: Any) -> AsyncIterator[Any]:
        """`list` in a worker thread, read to its end there: its cursor may not change threads."""
        for saved in await run_in_worker(self.inner, lambda: [*self.inner.list(config, **options)]):
            yield saved


# Under the signatures of the base class: LangGraph looks whether a saver takes `task_path`.
def _make_inner_method(name: str) -> Callable[..., Any]:
    @wraps(getattr(BaseCheckpointSaver, name))
    def call(self: ThreadedSaver, *args: Any, **options: Any) -> Any:
        return getattr(self.inner, name)(*args, **options)

    return call


def _make_async_method(name: str) -> Callable[..., Any]:
    @wraps(getattr(BaseCheckpointSaver, f"a{name}"))
    async def call(self: ThreadedSaver, *args: Any, **options: Any) -> Any:
        return await run_in_worker(self.inner, partial(getattr(self, name), *args, **options))

    return call


# Whatever a saver can do in two ways, those that LangGraph adds one day included.
for _name in vars(BaseCheckpointSaver):
    if f"a{_name}" in vars(BaseCheckpointSaver):
        for _method, _made in ((_name, _make_inner_method), (f"a{_name}", _make_async_method)):
            if _method not in vars(ThreadedSaver):
                setattr(ThreadedSaver, _method, _made(_name))


class ThreadedStore(BaseStore):
    """A sync store whose async methods run in worker threads."""

    def __init__(self, inner: BaseStore) -> None:
        """Adapt `inner`, which must be safe to call from several threads."""
        super().__init__()
        self.inner = inner
        self.supports_ttl = inner.supports_ttl
        self.ttl_config = inner.ttl_config

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """See the inner store; what it cannot keep is told in a sentence."""
        try:
            return self.inner.batch(ops)
        except (sqlite3.OperationalError, *getattr(self.inner, "errors", ())) as error:
            first: BaseException = error  # the store fails once more when it cleans up
            while isinstance(first.__context__, sqlite3.Error):
                first = first.__context__
            msg = (
                f"Nothing can be kept in the store or read from it ({get_cause(first)}): make room,"
                " or see that the database may be written, then try again."
            )
            raise DatabaseError(msg) from error

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """`batch` in a worker thread."""
        return await run_in_worker(self.inner, self.batch, list(ops))


def wrap_parent_stores(config: RunnableConfig, configurable: Mapping[str, Any]) -> RunnableConfig:
    """Give async methods to the saver and the store a sync parent graph passes down."""
    lent: dict[str, Any] = {}
    if is_sync_only(saver := configurable.get(keys.SAVER)):
        lent[keys.SAVER] = ensure_async_saver(saver)
    runtime = configurable.get(keys.RUNTIME)
    if isinstance(runtime, Runtime) and ensure_async_store(runtime.store) is not runtime.store:
        lent[keys.RUNTIME] = runtime.override(store=ensure_async_store(runtime.store))
    return (
        {**config, "configurable": {**config.get("configurable", {}), **lent}} if lent else config
    )

"""Async doors for savers and stores that only have sync ones.

Every call goes to a worker thread, so one connection serves every event loop: an async driver
would belong to the loop it was opened on.
"""

import asyncio
import copy
from collections.abc import (
    AsyncIterator,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from typing import Any, Final, Self

from langchain_core.runnables import ConfigurableFieldSpec, RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
)
from langgraph.store.base import BaseStore, Op, Result
from langgraph.store.sqlite import SqliteStore

SAVER_KEY: Final = "__pregel_checkpointer"
"""Where LangGraph puts a run's saver into `configurable`; there is no public accessor."""

Specs = list[ConfigurableFieldSpec]  # inside a saver `list` is a method


def is_sync_only(saver: object) -> bool:
    """Whether a saver lacks the async methods a run needs.

    `aput_writes` decides: a sync saver may override some async methods only to refuse them
    (SqliteSaver does), but none overrides this one without supporting it.
    """
    return (
        isinstance(saver, BaseCheckpointSaver)
        and type(saver).aput_writes is BaseCheckpointSaver.aput_writes
    )


def with_async(saver: Any) -> Any:
    """The saver itself, or its threaded twin if it is sync only; None and flags pass."""
    return ThreadedSaver(saver) if is_sync_only(saver) else saver


def with_async_store(store: BaseStore | None) -> BaseStore | None:
    """The store itself, or its threaded twin if its `abatch` refuses (SqliteStore)."""
    return ThreadedStore(store) if isinstance(store, SqliteStore) else store


class ThreadedSaver(BaseCheckpointSaver[Any]):
    """Any sync saver with async methods that run in worker threads.

    Attributes:
        forget: what else is known of a thread is dropped by this when the thread is deleted.
    """

    def __init__(
        self, inner: BaseCheckpointSaver[Any], forget: Callable[[str], None] | None = None
    ) -> None:
        """Adapt `inner`, which must be safe to call from several threads."""
        super().__init__(serde=inner.serde)
        self.inner, self.forget = inner, forget

    def __getattr__(self, name: str) -> Any:
        """What only the inner saver knows (its connection, `setup`, …)."""
        if name == "inner":  # asked by copy() before the instance has its fields
            raise AttributeError(name)
        return getattr(self.inner, name)

    @property
    def config_specs(self) -> Specs:
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

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """See the inner saver."""
        return self.inner.get_tuple(config)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """See the inner saver."""
        return self.inner.list(config, filter=filter, before=before, limit=limit)

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """See the inner saver."""
        return self.inner.put(config, checkpoint, metadata, new_versions)

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """See the inner saver."""
        self.inner.put_writes(config, writes, task_id, task_path)

    def delete_thread(self, thread_id: str) -> None:
        """See the inner saver; whatever else is kept of the thread goes with it."""
        self.inner.delete_thread(thread_id)
        if self.forget is not None:
            self.forget(thread_id)

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """See the inner saver."""
        self.inner.delete_for_runs(run_ids)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """See the inner saver."""
        self.inner.copy_thread(source_thread_id, target_thread_id)

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """See the inner saver."""
        self.inner.prune(thread_ids, strategy=strategy)

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """See the inner saver: its one query, not the base class's walk."""
        return self.inner.get_delta_channel_history(config=config, channels=channels)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """`get_tuple` in a worker thread."""
        return await asyncio.to_thread(self.inner.get_tuple, config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """`list` in a worker thread, read to its end there: its cursor may not change threads."""
        found = await asyncio.to_thread(
            lambda: [*self.inner.list(config, filter=filter, before=before, limit=limit)]
        )
        for saved in found:
            yield saved

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """`put` in a worker thread."""
        return await asyncio.to_thread(self.inner.put, config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """`put_writes` in a worker thread."""
        await asyncio.to_thread(self.inner.put_writes, config, writes, task_id, task_path)

    async def adelete_thread(self, thread_id: str) -> None:
        """`delete_thread` in a worker thread."""
        await asyncio.to_thread(self.delete_thread, thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """`delete_for_runs` in a worker thread."""
        await asyncio.to_thread(self.inner.delete_for_runs, run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """`copy_thread` in a worker thread."""
        await asyncio.to_thread(self.inner.copy_thread, source_thread_id, target_thread_id)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """`prune` in a worker thread."""
        await asyncio.to_thread(self.inner.prune, thread_ids, strategy=strategy)

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """`get_delta_channel_history` in a worker thread."""
        return await asyncio.to_thread(
            self.inner.get_delta_channel_history, config=config, channels=channels
        )


class ThreadedStore(BaseStore):
    """A sync store whose async methods run in worker threads."""

    def __init__(self, inner: BaseStore) -> None:
        """Adapt `inner`, which must be safe to call from several threads."""
        super().__init__()
        self.inner = inner
        self.supports_ttl = inner.supports_ttl
        self.ttl_config = inner.ttl_config

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """See the inner store."""
        return self.inner.batch(ops)

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """`batch` in a worker thread."""
        return await asyncio.to_thread(self.inner.batch, list(ops))

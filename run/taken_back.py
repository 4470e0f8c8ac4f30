"""A run that a server has taken back while it still saved: what it left is no part of its thread.

LangGraph's server deletes what a run has saved when a message rolls it back, and may do so before
the run has ended. What that run saves afterwards stands at the head of the thread, and shares
values with what was deleted: nobody could go on with it.
"""

from typing import Any, Final

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointMetadata, empty_checkpoint
from langgraph.types import StateUpdate

from ..store.base import langgraph_keys as keys
from ..store.checkpoints.head import Head
from .run import Run, write

_COPY: Final = "__copy__"
"""What LangGraph calls the node of an update that saves an older checkpoint as the newest."""


async def put_back(graph: Any, run: Run, head: Head) -> bool:
    """Put a thread back to where it was before the run that saved its incomplete head.

    Returns:
        False where nothing says that a run was taken back: somebody has deleted checkpoints, and
        what they held is to be brought back from a copy.
    """
    saver, gone = run.saver, head.saved.metadata.get("run_id")
    if saver is None or gone is None:
        return False
    place = RunnableConfig(configurable={"thread_id": run.thread, "checkpoint_ns": ""})
    async for saved in saver.alist(place):
        if saved.metadata.get("run_id") != gone:
            where = {**saved.config["configurable"], keys.SAVER: saver}
            await write(graph, {"configurable": where}, StateUpdate(None, _COPY))
            return True
    if not head.waiting() or head.values.get("turn", 0) > 1:
        return False
    await _begin_anew(saver, place)
    return True


async def _begin_anew(saver: BaseCheckpointSaver[Any], place: RunnableConfig) -> None:
    """Let a thread stand where it stood before its first run."""
    about = CheckpointMetadata(source="fork", step=-2, parents={})
    await saver.aput(place, empty_checkpoint(), about, {})

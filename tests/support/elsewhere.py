"""A saver that is neither LangGraph's nor this package's."""

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver


class ElsewhereSaver(BaseCheckpointSaver[str]):
    """A user's own; where it keeps threads is its own affair."""

    def __init__(self):
        super().__init__()
        self._threads = InMemorySaver()

    async def aget_tuple(self, config):
        return await self._threads.aget_tuple(config)

    async def aput(self, *given):
        return await self._threads.aput(*given)

    async def aput_writes(self, *given):
        await self._threads.aput_writes(*given)

    async def aget_delta_channel_history(self, **asked):
        return await self._threads.aget_delta_channel_history(**asked)

"""A saver that is neither LangGraph's nor this package's."""

import pickle
from pathlib import Path

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver

_PLACE = ("thread_id", "checkpoint_ns", "checkpoint_id")


class ElsewhereSaver(BaseCheckpointSaver[str]):
    """A user's own; where it keeps threads is its own affair: in a file, if it has one."""

    def __init__(self, file=None):
        super().__init__()
        self._threads, self._file, self._read = InMemorySaver(), file, 0

    async def _catch_up(self):
        for what, given in self._list_new():
            await getattr(self._threads, what)(*given)

    def _list_new(self):
        if self._file and Path(self._file).exists():
            with open(self._file, "rb") as file:
                file.seek(self._read)
                while file.peek(1):
                    yield pickle.load(file)
                    self._read = file.tell()

    def _append(self, *done):
        with open(self._file, "ab") as file:
            pickle.dump(done, file)

    async def _do(self, what, config, *given):
        if self._file is None:
            return await getattr(self._threads, what)(config, *given)
        about = config["configurable"]
        place = {"configurable": {name: about[name] for name in _PLACE if name in about}}
        self._append(what, (place, *given))
        await self._catch_up()
        return place

    async def aget_tuple(self, config):
        await self._catch_up()
        return await self._threads.aget_tuple(config)

    async def aput(self, config, checkpoint, *given):
        after = await self._do("aput", config, checkpoint, *given)
        about = {**after["configurable"], "checkpoint_id": checkpoint["id"]}
        return {"configurable": about}

    async def aput_writes(self, *given):
        await self._do("aput_writes", *given)

    async def aget_delta_channel_history(self, **asked):
        await self._catch_up()
        return await self._threads.aget_delta_channel_history(**asked)

"""One run of a graph: as it is asked for, and where its thread stands."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.types import Command, Interrupt

from .checks import Head
from .questions import all_places, open_questions

_TASK: Final = "__pregel_task_id"


@dataclass(frozen=True, slots=True)
class Run:
    """One run as asked for, or as the doors let it through."""

    input: Any
    config: RunnableConfig | None
    options: dict[str, Any]
    configurable: Mapping[str, Any]
    saver: BaseCheckpointSaver[Any] | None

    @property
    def nested(self) -> bool:
        """Whether the graph runs as a node of another one, which answers for the thread."""
        return _TASK in self.configurable

    @property
    def thread(self) -> str:
        """The thread's id as a saver knows it; '' where the caller named none."""
        thread = self.configurable.get("thread_id")
        return "" if thread is None else str(thread)

    @property
    def resumes(self) -> bool:
        """Whether the caller wants to go on with what is saved."""
        command = self.input
        return command is None or (isinstance(command, Command) and command.resume is not None)

    @property
    def addressed(self) -> bool:
        """Whether the run names a checkpoint instead of taking the newest."""
        return not self.nested and bool(self.configurable.get("checkpoint_id"))

    def repeats(self, head: Head) -> bool:
        """Whether a server calls again, after a crash, the run that saved this checkpoint."""
        given = {**self.configurable, **(self.config or {}).get("metadata", {})}.get("run_id")
        return given is not None and str(given) == str(head.saved.metadata.get("run_id"))

    def where(self, inner: str = "") -> RunnableConfig:
        """The config under which the saver finds the checkpoint the run starts from.

        Args:
            inner: the namespace of a graph inside one of its tasks, if that is wanted.
        """
        place: dict[str, Any] = {**self.configurable, "thread_id": self.thread}
        if inner:
            place["checkpoint_ns"] = inner
        elif not self.nested:
            place["checkpoint_ns"] = ""
        return {"configurable": place}

    async def head(self) -> Head | None:
        """The checkpoint the run starts from, if there is one."""
        if self.saver is None or not self.thread:
            return None
        saved = await self.saver.aget_tuple(self.where())
        return None if saved is None else Head(saved)

    async def questions(self, head: Head) -> list[Interrupt]:
        """The questions that are open; at an older checkpoint those that were."""
        if self.saver is None or self.addressed:
            return head.interrupts()
        places = all_places(head)
        inner = {place: await self.saver.aget_tuple(self.where(place)) for place in places}
        return open_questions(head, inner)

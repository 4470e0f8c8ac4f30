"""Where a thread stands, in one word, told by what is saved of it as it is saved.

A resume goes on with a turn that is unfinished; one that asks needs an answer; one that has ended
rests. Only steps of the thread's own graph end a turn or begin one. A question counts when its
node has asked it: until then nobody could answer, and whatever else the step does goes on.
"""

from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import Checkpoint, CheckpointTuple
from langgraph.checkpoint.serde.types import ERROR, INTERRUPT, RESUME

from ..checkpoints.head import Head

State = Literal["unfinished", "asks", "ended", "goes on"]

STATE_SQL: Final = (
    "CASE WHEN %(state)s <> 'goes on' THEN %(state)s WHEN loopwright_threads.state"
    " IN ('', 'asks') THEN 'unfinished' ELSE loopwright_threads.state END"
)
"""What a row says of a thread that has moved."""

STATUS_SQL: Final = "CASE WHEN %(tells)s THEN %(status)s ELSE loopwright_threads.status END"
"""And of its last outcome."""

_OF_A_NODE: Final = 1


class Moved(NamedTuple):
    """What is known of a thread since something was saved of it.

    Attributes:
        state: "goes on": it asks no more, if it did; whether it has ended stays as it was.
        status: Of its last outcome.
        tells: Whether `status` is known.
    """

    state: State
    status: str | None = None
    tells: bool = False

    def then(self, after: "Moved | None") -> "Moved":
        """Both, one after the other."""
        if after is None or (after.state == "goes on" and self.state != "asks"):
            return self
        state: State = "unfinished" if after.state == "goes on" else after.state
        return after._replace(state=state) if after.tells else self._replace(state=state)


class Standings:
    """Follows the threads that one saver saves."""

    def __init__(self) -> None:
        """Nothing is known yet."""
        self._asked: dict[str, tuple[int | None, str]] = {}

    def put(
        self, thread: str, place: str, checkpoint: Checkpoint, token: int | None
    ) -> Moved | None:
        """A checkpoint is saved, under the lease with this token."""
        if place:
            return self._goes_on(thread, token)
        head = Head(CheckpointTuple(RunnableConfig(), checkpoint, {}))
        asker, step = self._asked.get(thread, (None, ""))
        if asker == token and str(checkpoint["id"]) <= step:
            # Checkpoints wait for those before them to be saved, what is written onto them not.
            return Moved("asks", head.status, tells=True)
        self._asked.pop(thread, None)
        return Moved("unfinished" if head.waiting() else "ended", head.status, tells=True)

    def put_writes(
        self, onto: tuple[str, str, str], writes: Sequence[tuple[str, Any]], path: str,
        token: int | None,
    ) -> Moved | None:  # fmt: skip
        """A task's writes are saved; `path` is LangGraph's `task_path`.

        Args:
            onto: Thread, namespace and id of the checkpoint.
            writes: By channel.
            path: Of the task.
            token: Of the lease.
        """
        thread, place, step = onto
        channels = {channel for channel, _ in writes}
        if INTERRUPT in channels and not place and path.count("~") == _OF_A_NODE:
            self._asked[thread] = (token, step)
            return Moved("asks")
        onto_itself = not path and RESUME not in channels
        if onto_itself or ERROR in channels:
            return None
        return self._goes_on(thread, token)

    def _goes_on(self, thread: str, token: int | None) -> Moved | None:
        """What the run that asks had begun beside comes to rest; another run has an answer."""
        rests = thread in self._asked and self._asked[thread][0] == token
        return None if rests else Moved("goes on")

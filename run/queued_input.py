"""What a worker's run begins with: an enqueued turn, which shows when its thread is held."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from langchain_core.messages import HumanMessage, messages_from_dict
from langgraph.types import Command, Interrupt

from ..state.errors import AnswerRejected
from ..state.messages import ROLE, STEERS
from ..store.base.worker_threads import run_in_worker
from ..store.checkpoints.thread_head import ThreadHead
from ..store.threads.thread_list import QUESTION
from ..store.threads.turns import TURN_KEY, Turn, TurnQueue
from ..text.canonical import hash_of
from .compiled import Graph
from .run import Run


class NothingToRun(Exception):
    """There is nothing to run: the turn is over, or its thread asks somebody."""

    def __init__(
        self, *, asks: bool = False, gone: bool = False, outcome: Mapping[str, Any] | None = None
    ) -> None:
        """Say which; `gone`: that is on record already."""
        super().__init__()
        self.asks, self.gone, self.outcome = asks, gone, outcome


@dataclass
class QueuedInput:
    """The input of a run that takes an enqueued turn.

    It is chosen when the thread is held: the turn's message, nothing (to go on), or an answer.
    `ours`: the run is this turn; else it ends what the thread had to end before.
    """

    turn: Turn
    turns: TurnQueue
    ours: bool = False

    async def choose_input(self, graph: Graph, run: Run, head: ThreadHead | None) -> Run:
        """The run with its input; what it saves names the turn.

        Raises NothingToRun, or AnswerRejected if the question is not open any more.
        """
        found = await run_in_worker(self.turns, self.turns.begin, self.turn)
        if found is None:
            raise NothingToRun(gone=True)
        dropped, self.turn = self.turn.was_dropped, found
        if head is None:
            return self._mark_run(run, self._read_message(), found.id)
        mark, pending = dict(head.saved.metadata).get(TURN_KEY), await run.list_questions(head)
        known = await self._find_in_thread(graph, run, mark)
        # Whoever dropped it may have died after the question: what works beside it goes on.
        answers = found.kind == "answer"
        goes_on = known == "last" and not answers and (dropped or found.kind == "resume")
        rests = bool(pending) and not goes_on
        if rests and (answers or not awaits_only_desk(pending)):
            return self._mark_run(run, self._read_answer(pending), mark)
        if head.find_next_nodes() and not rests and not await self._is_given_up(mark):
            self.ours = known == "last"
            return self._mark_run(run, None, mark)
        if known:
            raise NothingToRun(outcome=head.values.get("outcome") if known == "last" else None)
        return self._mark_run(run, self._read_message(), found.id)

    async def _is_given_up(self, mark: object) -> bool:
        """Whether what the thread has not ended is another turn, which nobody is to run."""
        if mark is None or mark == self.turn.id:
            return False
        of = await run_in_worker(self.turns, self.turns.read, self.turn.thread, str(mark))
        return of is not None and of.over and of.state != "ended"

    def _mark_run(self, run: Run, given: Any, mark: object) -> Run:
        told = {**run.config.get("metadata", {}), **({TURN_KEY: mark} if mark else {})}
        return replace(run, input=given, config={**run.config, "metadata": told})

    def _read_message(self) -> Any:
        if self.turn.kind == "resume":
            raise NothingToRun
        if self.turn.kind == "answer":
            raise AnswerRejected(self._describe_closed())
        self.ours = True
        said = messages_from_dict([*self.turn.body["messages"]])
        return {**self.turn.body["values"], "messages": said}

    def _read_answer(self, pending: Sequence[Interrupt]) -> Command[Any]:
        if self.turn.kind != "answer":
            raise NothingToRun(asks=True)
        asked = {one.id: hash_of(one.value) for one in pending}
        body = self.turn.body
        open_still = [key for key, what in body["asked"].items() if asked.get(key) == what]
        if not open_still and self.turn.runs > 1:  # it was given, and there is another question
            raise NothingToRun(asks=True)
        if not open_still:
            raise AnswerRejected(self._describe_closed())
        self.ours = True
        return Command(resume={key: body["answer"][key] for key in open_still})

    def _describe_closed(self) -> str:
        thread = self.turn.thread
        return f"The question on thread {thread!r} is not open any more: see what it asks now."

    async def _find_in_thread(
        self, graph: Graph, run: Run, mark: object
    ) -> Literal["last", "before", ""]:
        """Whether the thread has it, as its last turn or an earlier one.

        Whoever began it before may have been killed at any point.
        """
        if self.turn.kind == "resume" or mark == self.turn.id:
            return "last"
        if self.turn.runs == 1:
            return ""
        if self.turn.kind == "answer":  # its question is not open any more
            return "last"
        said = (await graph.aget_state(run.make_saver_config())).values.get("messages") or ()
        marks = [one.additional_kwargs for one in said if isinstance(one, HumanMessage)]
        turns = [about.get(TURN_KEY) for about in marks if not {STEERS, ROLE} & about.keys()]
        if turns[-1:] == [self.turn.id]:
            return "last"
        return "before" if self.turn.id in turns else ""


def awaits_only_desk(questions: Sequence[Interrupt]) -> bool:
    """Whether only a human who has taken the thread over is asked: the customer goes on writing."""
    kinds = [one.value.get("type") for one in questions if isinstance(one.value, Mapping)]
    return len(kinds) == len(questions) and set(kinds) <= {QUESTION}

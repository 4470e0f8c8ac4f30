"""What a run begins with that takes a turn by its id: it shows when the thread is held."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from langchain_core.messages import HumanMessage, messages_from_dict
from langgraph.types import Command, Interrupt

from ..state.errors import AnswerRejected, ThreadError
from ..state.messages import ROLE, STEERS
from ..store.base.worker_threads import run_in_worker
from ..store.checkpoints.thread_head import ThreadHead
from ..store.threads.thread_list import QUESTION
from ..store.work.turns import TURN_KEY, Turn, TurnRecords, check_same
from ..text.canonical import hash_of
from .checks import address_answer
from .compiled import Graph
from .run import Run, read_whole_state

DEADLY: Final = 20
"""Attempts in a row, each of which ended its process, after which a turn is not begun again."""


class NothingToRun(Exception):
    """There is nothing to run: the turn is over, or its thread asks somebody."""

    def __init__(
        self, asks: Sequence[Interrupt] = (), outcome: Mapping[str, Any] | None = None
    ) -> None:
        """Say what the thread asks, or how the turn ended if that is known."""
        super().__init__()
        self.asks, self.outcome = asks, outcome


@dataclass
class TurnInput:
    """The input of a run that takes a turn.

    It is chosen when the thread is held: the turn's message, nothing (to go on), or an answer.

    Attributes:
        turn: The turn with its input.
        before: Its saved state before the thread was held.
        begun: Its saved state since.
        ours: The run is this turn; else it ends what the thread had to end before.
        mark: The thread's turn when it was held; then the one that is run.
    """

    turn: Turn
    records: TurnRecords
    before: Turn | None
    begun: Turn | None = None
    ours: bool = False
    mark: object = None

    async def choose_input(self, graph: Graph, run: Run, head: ThreadHead | None) -> Run:
        """The run with its input; what it saves names the turn.

        Raises NothingToRun, or AnswerRejected if the question is not open any more.
        """
        pending = [] if head is None else await run.list_questions(head)
        # Whoever dropped it may have died after the question: what works beside it goes on.
        dropped = self.begun is None
        if self.begun is None:
            self.begun = await self._begin(run, pending)
            dropped = self.begun.runs > 1 and (self.before is None or self.before.state == "begun")
        if head is None:
            return self._mark_run(run, self._read_message(), self.turn.id)
        self.mark = mark = dict(head.saved.metadata).get(TURN_KEY)
        known = await self._find_in_thread(graph, run, self.begun)
        kind = self.turn.kind
        goes_on = known == "last" and (kind == "resume" or (dropped and kind == "message"))
        rests = bool(pending) and not goes_on
        if rests and (kind == "answer" or not awaits_only_desk(pending)):
            return self._mark_run(run, self._read_answer(pending), mark)
        if head.find_next_nodes() and not rests and not await self._is_given_up(run):
            self.ours = known == "last"
            return self._mark_run(run, None, mark)
        if known:
            raise NothingToRun(outcome=head.values.get("outcome") if known == "last" else None)
        return self._mark_run(run, self._read_message(), self.turn.id)

    async def _begin(self, run: Run, pending: Sequence[Interrupt]) -> Turn:
        """Record that the thread is held for it, and which question an answer is for."""
        turn, before = self.turn, self.before
        runs = 0 if before is None else before.runs
        if turn.kind == "answer":
            known = before.body if before is not None and runs else turn.body
            answer = known if "asked" in known else address(run, known["resume"], pending)
            turn = self.turn = replace(turn, body=answer)
            if not runs and not self._list_open(pending):
                msg = f"The question on thread {run.thread!r} is closed: see what it asks now."
                raise AnswerRejected(msg)
        begun = await run_in_worker(self.records, self.records.begin, turn)
        if begun is None:
            found = await run_in_worker(self.records, self.records.read, turn.thread, turn.id)
            check_same(found, turn)
            raise NothingToRun(outcome=found.outcome if found else None)
        if turn.kind == "answer":  # as it was addressed when it was first begun
            self.turn = replace(turn, body=begun.body)
        if begun.tries > DEADLY:
            msg = (
                f"The turn {turn.id!r} of the thread {turn.thread!r} was begun {DEADLY} times, and"
                " ended its process each time: it is not begun again. See what its tools do; then"
                " give its message another id."
            )
            await run_in_worker(self.records, self.records.leave, turn, "aside", msg)
            raise ThreadError(msg)
        return begun

    def _list_open(self, pending: Sequence[Interrupt]) -> list[str]:
        """The questions that it answers and that are open still."""
        asked = {one.id: hash_of(one.value) for one in pending}
        return [key for key, what in self.turn.body["asked"].items() if asked.get(key) == what]

    async def _is_given_up(self, run: Run) -> bool:
        """Whether what the thread has not ended is another turn, which nobody is to run."""
        if self.mark is None or self.mark == self.turn.id:
            return False
        of = await run_in_worker(self.records, self.records.read, run.thread, str(self.mark))
        return of is not None and of.state in {"aside", "dequeued"}

    def _mark_run(self, run: Run, given: Any, mark: object) -> Run:
        self.mark = mark
        told = {**run.config.get("metadata", {}), **({TURN_KEY: mark} if mark else {})}
        return replace(run, input=given, config={**run.config, "metadata": told})

    def _read_message(self) -> Any:
        if self.turn.kind != "message":
            raise NothingToRun
        self.ours = True
        said = messages_from_dict([*self.turn.body["messages"]])
        said[-1].additional_kwargs[TURN_KEY] = self.turn.id
        return {**self.turn.body["values"], "messages": said}

    def _read_answer(self, pending: Sequence[Interrupt]) -> Command[Any]:
        if self.turn.kind != "answer":
            raise NothingToRun(pending)
        if not (still := self._list_open(pending)):  # it was given, and there is another question
            raise NothingToRun
        self.ours = True
        return Command(resume={key: self.turn.body["answer"][key] for key in still})

    async def _find_in_thread(
        self, graph: Graph, run: Run, record: Turn
    ) -> Literal["last", "before", ""]:
        """Whether the thread has it, as its last turn or an earlier one.

        Whoever began it before may have been killed at any point.
        """
        if self.turn.kind == "resume" or self.mark == self.turn.id:
            return "last"
        if record.runs == 1:
            return ""
        if self.turn.kind == "answer":  # its question is not open any more
            return "last"
        said = (await read_whole_state(graph, run.make_saver_config())).values.get("messages") or ()
        marks = [one.additional_kwargs for one in said if isinstance(one, HumanMessage)]
        turns = [about.get(TURN_KEY) for about in marks if not {STEERS, ROLE} & about.keys()]
        if turns[-1:] == [self.turn.id]:
            return "last"
        return "before" if self.turn.id in turns else ""


def address(run: Run, resume: Any, pending: Sequence[Interrupt]) -> dict[str, Any]:
    """An answer by the ids of the questions that are open, and what they ask."""
    answer: Any = address_answer(run, Command(resume=resume), pending).resume
    asked = {one.id: hash_of(one.value) for one in pending if one.id in answer}
    return {"answer": answer, "asked": asked}


def awaits_only_desk(questions: Sequence[Interrupt]) -> bool:
    """Whether the only open question is a hand-over to a human: the customer may go on writing."""
    kinds = [one.value.get("type") for one in questions if isinstance(one.value, Mapping)]
    return len(kinds) == len(questions) and set(kinds) <= {QUESTION}

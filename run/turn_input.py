"""What a run begins with that takes a turn by its id: it shows when the thread is held."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from langchain_core.messages import HumanMessage, messages_from_dict
from langgraph.types import Command, Interrupt

from ..state.errors import AnswerRejected, SettingsError, ThreadError
from ..state.messages import ROLE, STEERS
from ..store.base.worker_threads import run_in_worker
from ..store.checkpoints.thread_head import ThreadHead
from ..store.threads.thread_list import QUESTION
from ..store.work.turns import TURN_KEY, Kind, TurnRecord, TurnRecords
from ..text.canonical import hash_of
from .checks import address_answer
from .compiled import Graph
from .run import Run

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


@dataclass(frozen=True)
class Given:
    """What a turn is given, as JSON; `digest` tells it from another one under the same id."""

    id: str
    kind: Kind
    body: Mapping[str, Any]
    digest: str


@dataclass
class TurnInput:
    """The input of a run that takes a turn.

    It is chosen when the thread is held: the turn's message, nothing (to go on), or an answer.

    Attributes:
        given: What the turn is given.
        before: What was known of it before the thread was held.
        record: What is known since.
        ours: The run is this turn; else it ends what the thread had to end before.
        mark: The turn that the thread was in when it was held.
    """

    given: Given
    records: TurnRecords
    before: TurnRecord | None
    record: TurnRecord | None = None
    ours: bool = False
    mark: object = None
    _addressed: Mapping[str, Any] = field(default_factory=dict)

    async def choose_input(self, graph: Graph, run: Run, head: ThreadHead | None) -> Run:
        """The run with its input; what it saves names the turn.

        Raises NothingToRun, or AnswerRejected if the question is not open any more.
        """
        pending = [] if head is None else await run.list_questions(head)
        first = self.record is None
        record = self.record or await self._begin(run, pending)
        if head is None:
            return self._mark_run(run, self._read_message(), self.given.id)
        self.mark = mark = dict(head.saved.metadata).get(TURN_KEY)
        known = await self._find_in_thread(graph, run, record)
        answers = self.given.kind == "answer"
        # Whoever dropped it may have died after the question: what works beside it goes on.
        dropped = first and self._was_dropped(record)
        goes_on = known == "last" and not answers and (dropped or self.given.kind == "resume")
        rests = bool(pending) and not goes_on
        if rests and (answers or not awaits_only_desk(pending)):
            return self._mark_run(run, self._read_answer(pending), mark)
        if head.find_next_nodes() and not rests and not await self._is_given_up(run):
            self.ours = known == "last"
            return self._mark_run(run, None, mark)
        if known:
            raise NothingToRun(outcome=head.values.get("outcome") if known == "last" else None)
        return self._mark_run(run, self._read_message(), self.given.id)

    async def _begin(self, run: Run, pending: Sequence[Interrupt]) -> TurnRecord:
        """Record that the thread is held for it, and which question an answer is for."""
        given, known = self.given, self.before
        if given.kind == "answer":
            self._addressed = self._address_once(run, pending)
            if known is None and not self._list_open(pending):
                msg = f"The question on thread {run.thread!r} is closed: see what it asks now."
                raise AnswerRejected(msg)
        body = json.dumps(self._addressed) if self._addressed else ""
        begun = await run_in_worker(
            self.records, self.records.begin, run.thread, given.id, given.digest, body
        )
        if begun is None:
            found = await run_in_worker(self.records, self.records.read, run.thread, given.id)
            check_digest(found, given, run.thread)
            raise NothingToRun(outcome=found.outcome if found else None)
        self.record = begun
        if begun.tries > DEADLY and known is not None and not known.why:
            msg = (
                f"The turn {given.id!r} of the thread {run.thread!r} was begun {known.tries} times,"
                " and ended its process each time: it is not begun again. See what its tools do;"
                " then give its message another id."
            )
            raise ThreadError(msg)
        return begun

    def _address_once(self, run: Run, pending: Sequence[Interrupt]) -> Mapping[str, Any]:
        if self.before is not None:
            read: Mapping[str, Any] = json.loads(self.before.body)
            return read
        given = self.given.body
        return given if "asked" in given else address(run, given["resume"], pending)

    def _list_open(self, pending: Sequence[Interrupt]) -> list[str]:
        """The questions that it answers and that are open still."""
        asked = {one.id: hash_of(one.value) for one in pending}
        return [key for key, what in self._addressed["asked"].items() if asked.get(key) == what]

    def _was_dropped(self, record: TurnRecord) -> bool:
        """Whether somebody held its thread for it, and let it fall."""
        known = self.before
        if known is None or record.runs != known.runs + 1:
            return record.runs > 1
        return known.state == "begun" and known.runs > 0

    async def _is_given_up(self, run: Run) -> bool:
        """Whether what the thread has not ended is another turn, which nobody is to run."""
        if self.mark is None or self.mark == self.given.id:
            return False
        of = await run_in_worker(self.records, self.records.read, run.thread, str(self.mark))
        return of is not None and of.state in {"aside", "dequeued"}

    def _mark_run(self, run: Run, given: Any, mark: object) -> Run:
        told = {**run.config.get("metadata", {}), **({TURN_KEY: mark} if mark else {})}
        return replace(run, input=given, config={**run.config, "metadata": told})

    def _read_message(self) -> Any:
        if self.given.kind != "message":
            raise NothingToRun
        self.ours = True
        said = messages_from_dict([*self.given.body["messages"]])
        said[-1].additional_kwargs[TURN_KEY] = self.given.id
        return {**self.given.body["values"], "messages": said}

    def _read_answer(self, pending: Sequence[Interrupt]) -> Command[Any]:
        if self.given.kind != "answer":
            raise NothingToRun(pending)
        if not (still := self._list_open(pending)):  # it was given, and there is another question
            raise NothingToRun
        self.ours = True
        return Command(resume={key: self._addressed["answer"][key] for key in still})

    async def _find_in_thread(
        self, graph: Graph, run: Run, record: TurnRecord
    ) -> Literal["last", "before", ""]:
        """Whether the thread has it, as its last turn or an earlier one.

        Whoever began it before may have been killed at any point.
        """
        if self.given.kind == "resume" or self.mark == self.given.id:
            return "last"
        if record.runs == 1:
            return ""
        if self.given.kind == "answer":  # its question is not open any more
            return "last"
        said = (await graph.aget_state(run.make_saver_config())).values.get("messages") or ()
        marks = [one.additional_kwargs for one in said if isinstance(one, HumanMessage)]
        turns = [about.get(TURN_KEY) for about in marks if not {STEERS, ROLE} & about.keys()]
        if turns[-1:] == [self.given.id]:
            return "last"
        return "before" if self.given.id in turns else ""


def address(run: Run, resume: Any, pending: Sequence[Interrupt]) -> dict[str, Any]:
    """An answer by the ids of the questions that are open, and what they ask."""
    answer: Any = address_answer(run, Command(resume=resume), pending).resume
    asked = {one.id: hash_of(one.value) for one in pending if one.id in answer}
    return {"answer": answer, "asked": asked}


def check_digest(found: TurnRecord | None, given: Given, thread: str) -> None:
    """Raise SettingsError where an id is known for something else."""
    if found is not None and found.digest != given.digest:
        msg = (
            f"The thread {thread!r} has another turn with the id {given.id!r}: the same id is for"
            " the same message, sent again; give a new message another id."
        )
        raise SettingsError(msg)


def awaits_only_desk(questions: Sequence[Interrupt]) -> bool:
    """Whether only a human who has taken the thread over is asked: the customer goes on writing."""
    kinds = [one.value.get("type") for one in questions if isinstance(one.value, Mapping)]
    return len(kinds) == len(questions) and set(kinds) <= {QUESTION}

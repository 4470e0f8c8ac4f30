"""`take`: runs a turn once, whatever happened to it before; the door for engines of any kind."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

from langchain_core.messages import AnyMessage, HumanMessage, message_to_dict
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.serde.types import INTERRUPT
from langgraph.errors import GraphDrained
from langgraph.runtime import RunControl
from langgraph.types import Command, Interrupt
from langgraph.typing import ContextT, InputT, OutputT, StateT

from ..state.errors import AnswerRejected, LoopwrightError, SettingsError, ThreadBusy
from ..state.limits import refuse_excess
from ..state.messages import explain_unreadable, read_messages
from ..state.questions import ANSWERED_BY, By, hide_operator_questions
from ..store.base.worker_threads import run_in_worker
from ..store.threads.thread_list import GRAPH_KEY
from ..store.work.turns import State, Turn, TurnRecords, check_same, find_records
from ..text.canonical import hash_of, make_storable
from .background import run_blocking
from .client_access import check_keys
from .compiled import Compiled
from .run import Run
from .turn_input import NothingToRun, TurnInput, awaits_only_desk

_BUSY: Final = 1.0
"""Seconds until a turn is taken again whose thread another run holds."""


@dataclass(frozen=True, slots=True)
class Taken:
    """What came of taking a turn.

    Attributes:
        state: `ended`; `asks`: take it again when its thread has been answered; `busy`: take it
            again after a while.
        outcome: How it ended, where that is known.
        questions: What its thread asks.
        after: Seconds after which to come back.
        why: It is busy, in words.
    """

    state: Literal["ended", "asks", "busy"]
    outcome: Mapping[str, Any] | None = None
    questions: Sequence[Interrupt] = ()
    after: float = 0.0
    why: str = ""


class TakingGraph(Compiled[StateT, ContextT, InputT, OutputT]):
    """A graph whose turns have ids by which they are run once."""

    def take(self, config: RunnableConfig, message: Any, *, id: str, **options: Any) -> Taken:
        """Run a turn once, whatever happened to it before; see `atake`."""
        return run_blocking(self.atake(config, message, id=id, **options))

    async def atake(
        self, config: RunnableConfig, message: Any, *, id: str, context: Any = None,
        answered_by: By = "operator", control: RunControl | None = None,
    ) -> Taken:  # fmt: skip
        """Run a turn once, whatever happened to it before: begun, cut, finished or superseded.

        Deliver it at least once, from any machine: its effects happen once. One turn of a thread
        runs at a time, in the order in which they are first taken; a turn that was cut off ends
        before the next one begins. The id is known for as long as the thread is kept.

        Args:
            config: Names the thread.
            message: Its words, a message, a whole input with `messages`, or the answer to an open
                question as `Command(resume=…)`.
            id: Of the turn: the same id again is the same turn.
            context: The settings of the run.
            answered_by: Whose answer it is; see `astream`.
            control: To have it rest at its next border: it is busy then, with no time to wait.

        Raises:
            SettingsError: It cannot be read, or another turn has its id.
            AnswerRejected: No such question is open, or it is not theirs to answer.
            ThreadError: It can never run: its thread is another graph's, or it ended its process
                again and again.
            LoopwrightError: What the run raises; take it again, and it goes on.
        """
        thread = self._make_run(None, config, {}).thread
        turn = Turn(id=read_id(id), thread=thread, graph=self.name or "", **read_given(message))
        options = {"context": context, "control": control, "answered_by": answered_by}
        return await self.take_turn(config, turn, options)

    async def take_turn(
        self, config: RunnableConfig, turn: Turn, options: Mapping[str, Any]
    ) -> Taken:
        """As `atake`, once the message was read; options are those of `ainvoke`."""
        records = self._open_records(self._make_run(None, config, {}))
        before = await run_in_worker(records, records.read, turn.thread, turn.id)
        check_same(before, turn)
        if before is not None and before.state in {"ended", "dequeued"}:
            return Taken("ended", before.outcome)
        given = TurnInput(turn, records, before)
        told = {GRAPH_KEY: self.name, **config.get("metadata", {})}
        config = RunnableConfig(**{**config, "metadata": told})
        more = {key: value for key, value in options.items() if value is not None}
        try:
            taken = await self._run_until_ours(given, config, more)
        except ThreadBusy as error:
            return Taken("busy", after=_BUSY, why=str(error))
        except Exception as error:
            if given.begun is not None:
                why = str(error) if isinstance(error, LoopwrightError) else repr(error)
                await run_in_worker(records, records.leave, turn, "begun", why)
            raise
        if taken.state == "ended":
            await run_in_worker(records, records.end, turn.thread, turn.id, taken.outcome)
        elif given.begun is not None:
            state: State = "asks" if taken.state == "asks" else "begun"
            await run_in_worker(records, records.leave, turn, state)
        return taken

    async def _run_until_ours(
        self, given: TurnInput, config: RunnableConfig, options: Mapping[str, Any]
    ) -> Taken:
        """Run what the thread had to end before, and then the turn."""
        turn, control = given.turn, options.get("control")
        while True:
            try:
                values = await self.ainvoke(cast("Any", given), config, **options)
            except NothingToRun as over:
                waits = over.asks and turn.kind == "message"
                hides = options.get(ANSWERED_BY) == "customer"
                asks = hide_operator_questions(over.asks) if hides else over.asks
                return Taken("asks", questions=asks) if waits else Taken("ended", over.outcome)
            except GraphDrained:
                return Taken("busy", why="paused")
            if control is not None and control.drain_requested:
                return Taken("busy", why="paused")
            told = values if isinstance(values, Mapping) else {}
            asked, outcome = [*told.get(INTERRUPT, ())], told.get("outcome")
            if asked and not awaits_only_desk(asked) and turn.kind == "message":
                return Taken("asks", questions=asked)
            # What it answered, or had to end before.
            if not asked and isinstance(given.mark, str) and given.mark != turn.id:
                end = given.records.end
                await run_in_worker(given.records, end, turn.thread, given.mark, outcome)
            if given.ours:
                return Taken("ended", None if asked else outcome)

    def _open_records(self, run: Run) -> TurnRecords:
        """What is known of the turns of its threads; raises SettingsError where nothing is kept."""
        check_keys(run.configurable, runs=True)
        inbox = self.own_builder.inbox
        records = find_records(inbox.journal) if inbox else None
        if records is None or not run.is_controllable or run.has_checkpoint_id:
            msg = (
                "No turn can be taken or enqueued by this config: build the graph with"
                " durability=open_durability(url), and name the thread_id of a thread, without a"
                " checkpoint_id."
            )
            raise SettingsError(msg)
        return records


def read_id(name: object) -> str:
    """A turn's id as databases keep it; raises SettingsError."""
    if not isinstance(name, str) or not name:
        msg = (
            f"id={name!r} names no turn: give a text that is this turn's alone, such as str(uuid)."
        )
        raise SettingsError(msg)
    return make_storable(name)


def read_given(message: Any) -> dict[str, Any]:
    """What a turn is given, as fields of it; raises SettingsError, AnswerRejected."""
    if isinstance(message, Command):
        if message.resume is None or message.update or message.goto:
            msg = "A turn answers by Command(resume=…), and nothing beside."
            raise AnswerRejected(msg)
        body: dict[str, Any] = {"resume": message.resume}
    else:
        body = _read_message(message)
    check_json(body)
    kind = "answer" if "resume" in body else "message"
    return {"state": "waiting", "kind": kind, "body": body, "digest": hash_of(body)}


def _read_message(message: Any) -> dict[str, Any]:
    values = dict(message) if isinstance(message, Mapping) and "messages" in message else {}
    given = values.pop("messages") if values else message
    if isinstance(given, str):
        given = [("user", given)]
    given = given if isinstance(given, list) else [given]
    why = explain_unreadable(given)
    said: Sequence[AnyMessage] = () if why else read_messages(given)
    if not why and not (said and isinstance(said[-1], HumanMessage) and said[-1].content):
        why = "the last one is none of the user's, or empty"
    if why:
        msg = f"The message of a turn cannot be read: {why.rstrip('.')}. Give its words."
        raise SettingsError(msg)
    return {"messages": [message_to_dict(one) for one in said], "values": values}


def check_json(body: Mapping[str, Any]) -> None:
    """Raise SettingsError where something cannot be kept for another process."""
    refuse_excess("queue", body)
    try:
        json.dumps(body)
    except (TypeError, ValueError, RecursionError) as error:
        msg = (
            "The turn cannot be kept: what another process is to read must be JSON, and"
            f" {error}. Leave it out of the message, the context and the config."
        )
        raise SettingsError(msg) from error

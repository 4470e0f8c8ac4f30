"""Numbers, streams and keeps the events of a node.

Each node of a graph runs inside one `EventEmitter`. It numbers the events of the node and of the
tasks inside it, sends each to the stream with the components it changes, and adds what is kept to
the node's update. No node returns events itself.
"""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from functools import partial, wraps
from typing import Any, Final

from langchain_core.messages import AnyMessage
from langgraph.config import get_config, get_stream_writer
from langgraph.errors import GraphBubbleUp, GraphInterrupt
from langgraph.types import Command, Interrupt

from ..run.builder import Node
from ..state.channels import OF_CALLS, Component, KeptEvents
from ..state.context import Emit
from ..state.loop import LoopState
from ..store.checkpoints.thread_head import write_node_update
from ..stream.events import OF_PHASES, Event, find_outer_call, shorten_event, subject_of
from ..stream.meters import AGENT, KIND, QUESTIONS, is_metered, measure
from ..stream.turn_messages import (
    add_messages,
    find_phase_id,
    has_open_calls,
    make_question_message,
    separate_calls,
)
from ..stream.views import components_of

log = logging.getLogger(__name__)
log.addHandler(logging.NullHandler())  # without logging a program has the stream alone

# Logged as warnings; everything else at INFO.
_UNUSUAL: Final = frozenset({"warning", "retry", "fallback", "budget"})
_ENDED: Final = frozenset({"success", "error", "cancelled", "completed", "failed", "skipped"})


class EventEmitter:
    """Numbers the events of one run of a node, and collects what the state keeps of them."""

    def __init__(self, write: Callable[[Any], None], state: LoopState) -> None:
        """Continue from the number in the state, with the events it keeps of this turn."""
        before = state.events
        self._write, self._turn, self._upto = write, state.turn_id, before.get("upto", 0)
        self._place = find_phase_id(state)
        of_turn = before.get("turn") == self._turn
        self._folded: dict[str, Event] = {**before.get("kept", {})} if of_turn else {}
        self._kept: dict[str, Any] = {}
        self._drawn: dict[str, Component] = {}
        self._drafts: dict[str, Component] = {}
        self._lock = threading.Lock()  # a Python tool may write from a thread of its own

    def emit(self, event: Event) -> None:
        """Emit one event; the end of a call or task is emitted once."""
        with self._lock:
            subject = subject_of(event)
            known = self._folded.get(subject, {})
            if _is_redundant(event, known):
                return
            self._upto += 1
            goes_on = event["type"] == "question" and event["answered"]
            asked = {"asked": True} if known.get("asked") else {}  # also by a run that was forked
            about = {**(known if goes_on else asked), **shorten_event(event)}
            numbered = {**about, "seq": self._upto, "turn": self._turn}
            if under := self._find_message_id(numbered, known):
                numbered["message_id"] = under
            if subject:
                self._folded[subject] = self._kept[subject] = numbered
            into = self._drawn if subject else self._drafts
            for component in components_of(self._folded, numbered):
                self._drafts.pop(component["id"], None)
                into[component["id"]] = component
                self._write(component)
            _log_and_write(self._write, numbered)

    def _find_message_id(self, event: Event, known: Event) -> str:
        """The message under which an event is shown: calls and tasks stand where the plan does."""
        kind, place = event["type"], ""
        if kind in OF_CALLS or kind == "task":
            call = {} if kind == "task" else known or self._folded.get(find_outer_call(event), {})
            place = (call or self._folded.get("plan", {})).get("message_id", self._place)
        elif kind in OF_PHASES and not event.get("task"):
            place = self._place
        return str(event.get("message_id", place))

    def build_update(self) -> dict[str, Any]:
        """The events and components that the state keeps; unfinished drafts are removed."""
        with self._lock:
            for name in self._drafts:
                if known := self._drawn.get(name):
                    known["metadata"]["seq"] = self._upto  # newer than its draft
                self._write(known or {"type": "remove-ui", "id": name})
            self._drafts = {}
            if not self._kept:
                return {}
            kept = KeptEvents(turn=self._turn, upto=self._upto, kept=self._kept)
            return {"events": kept, **({"ui": [*self._drawn.values()]} if self._drawn else {})}


def _is_redundant(event: Event, known: Event) -> bool:
    """Whether an event was emitted before, or answers a question that was not."""
    if not known:
        return event["type"] == "question" and bool(event["answered"])
    ended_again = event.get("status") in _ENDED and known.get("status") == event["status"]
    return bool(ended_again or event["type"] == "component")


_EMITTER: ContextVar[EventEmitter | None] = ContextVar("loopwright_emitter", default=None)


def emit_answered(how: str) -> None:
    """Emit that this turn's question which was about no call has its answer."""
    if (emitter := _EMITTER.get()) is not None:
        emitter.emit({"type": "question", "answered": how})


async def show_questions(
    state: LoopState, role: str, questions: Sequence[Interrupt], before: Sequence[AnyMessage]
) -> None:
    """Show the questions of tasks, and before them the messages of what ended.

    Calls of sub-agents are shown by their components, under the call that delegates to them.
    """
    asked = [make_question_message(state, role, each.value, each.id) for each in questions]
    inside = has_open_calls(state)
    shown = separate_calls(state, [one for one in asked if not (inside and one.tool_calls)])
    if fresh := add_messages(state, [*before, *shown]):
        await write_node_update(get_config()["configurable"], {"messages": fresh})


def find_emit(write: Callable[[Any], None]) -> Emit:
    """Takes the events of the running node; `write` those of a graph that does not number them."""
    emitter = _EMITTER.get()
    return partial(_log_and_write, write) if emitter is None else emitter.emit


def _log_and_write(write: Callable[[Any], None], event: Event) -> None:
    log.log(logging.WARNING if event["type"] in _UNUSUAL else logging.INFO, "%s", event)
    write(event)


def with_events(graph: str, action: Node) -> Node:
    """A node whose events are numbered and kept.

    If the node asks or is drained, its update is lost, so what is kept is written beside its step.
    """

    @wraps(action)
    async def run_with_events(state: LoopState, *args: Any, **kwargs: Any) -> Any:
        emitter = EventEmitter(get_stream_writer(), state)
        before = _EMITTER.set(emitter)
        try:
            update: Any = await action(state, *args, **kwargs)
        except GraphBubbleUp as left:
            if kept := emitter.build_update():
                await write_node_update(get_config()["configurable"], kept)
            if isinstance(left, GraphInterrupt):
                _count_questions(graph, left)
            raise
        finally:
            _EMITTER.reset(before)
        if not (kept := emitter.build_update()):
            return update
        if isinstance(update, Command):
            return replace(update, update={**(update.update or {}), **kept})
        return {**(update or {}), **kept}

    return run_with_events


_asked: dict[str, None] = {}
"""The newest questions of this process: a node that goes on puts its open ones again."""
_MOST_ASKED: Final = 10_000


def _count_questions(graph: str, left: GraphInterrupt) -> None:
    """Count the questions of a node, each once."""
    for interrupt in left.args[0] if is_metered() and left.args else ():
        if interrupt.id in _asked:
            continue
        _asked[interrupt.id] = None
        kind = interrupt.value.get("type") if isinstance(interrupt.value, Mapping) else None
        measure(QUESTIONS, 1, {AGENT: graph, KIND: str(kind or "question")})
    for oldest in list(_asked)[:-_MOST_ASKED]:
        _asked.pop(oldest, None)

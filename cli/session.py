"""One run of one thread, from its first event to its end, with the questions on the way."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.errors import GraphDrained
from langgraph.runtime import RunControl
from langgraph.types import Command
from rich.console import Console

from ..doors.checks import RETURN
from ..doors.graph import LoopGraph
from ..state.context import Context
from ..state.errors import ThreadNotFound
from .approvals import Asker, accepted
from .codes import Code, code_of
from .output import Output
from .questions import Question, read_answers
from .report import tell_end
from .signals import Stopping
from .view import View

Answers = dict[str, Mapping[str, Any]]


@dataclass(kw_only=True)
class Session:
    """A graph on a thread, and the people around it.

    Attributes:
        graph: Compiled, with a checkpointer.
        thread: The thread's id.
        context: The run's settings.
        resume_command: What the user types to go on with the thread.
        output: Where the end is told.
        console: Where the end is told on a terminal.
        view: Where progress is told.
        asker: Who puts questions to the user; None where nobody can answer.
        yes: Approve every tool call that policy asks about; never one that may have run already.
        metadata: Kept with the thread's checkpoints.
    """

    graph: LoopGraph[Any, Any, Any, Any]
    thread: str
    context: Context
    resume_command: str
    output: Output
    console: Console
    view: View
    asker: Asker | None = None
    yes: bool = False
    metadata: dict[str, Any] = field(default_factory=dict)
    _warned: set[str] = field(default_factory=set)

    @property
    def config(self) -> RunnableConfig:
        """The config of the thread."""
        return {"configurable": {"thread_id": self.thread}, "metadata": self.metadata}

    def run(self, goal: str) -> int:
        """Send a message to the thread and run to the end; the exit code."""
        self._there_is_a_thread()
        self._leg({"messages": [{"role": "user", "content": goal}]})
        return self._settle()

    def resume(self, answer: str | None) -> int:
        """Go on with the thread, with an answer to what it asks; the exit code.

        Raises:
            ThreadNotFound: There is no such thread.
            AnswerRejected: The answer fits no open question.
        """
        state = self.graph.get_state(self.config)
        if state.created_at is None:
            msg = f"No thread {self.thread!r} is saved here; see `loopwright threads`."
            raise ThreadNotFound(msg)
        self._there_is_a_thread()
        if answer is not None:
            self._leg(Command(resume=read_answers(answer, self._pending(), self.thread)))
        elif not state.interrupts and (state.next or _is_open(state.values)):
            self._leg(None)
        return self._settle()

    def _there_is_a_thread(self) -> None:
        """From here on whatever ends the command says how to go on."""
        self.output.thread, self.output.resume = self.thread, self.resume_command

    def _settle(self) -> int:
        """Answer what is asked until nothing is; then tell the end."""
        while pending := self._pending():
            answers, quits = self._answers(pending)
            if not answers:
                return self._tell_waiting(pending)
            self._leg(Command(resume=answers))
            if quits and (pending := self._pending()):
                return self._tell_waiting(pending)
        return self._tell_end()

    def _leg(self, given: Any) -> None:
        """Run until the graph rests.

        Raises:
            KeyboardInterrupt: The user stopped it; what was done is saved.
        """
        control = RunControl()

        def pause() -> None:
            control.request_drain("signal")
            self.view.stopping()

        with Stopping(pause) as stopping:
            self.view.start(self.graph.get_state(self.config).values)
            self.view.tasks(self._done_before())
            try:
                self._stream(given, control)
            except GraphDrained:
                # The one way to say "stopped by the user", whichever signal it was.
                raise KeyboardInterrupt from None
            finally:
                self.view.stop()
        if stopping.asked and self.graph.get_state(self.config).next:
            raise KeyboardInterrupt

    def _stream(self, given: Any, control: RunControl) -> None:
        chunks = self.graph.stream(
            given,
            self.config,
            context=self.context,
            stream_mode=["custom", "updates"],
            control=control,
        )
        for mode, chunk in chunks:
            if mode == "custom":
                self._event(chunk)
            else:
                for update in chunk.values():
                    self._update(update)

    def _done_before(self) -> list[Any]:
        """Tasks that ended in a phase which was cut off: recorded, but not in the state yet."""
        saver = self.graph.checkpointer
        if not isinstance(saver, BaseCheckpointSaver):
            return []
        place: RunnableConfig = {"configurable": {"thread_id": self.thread, "checkpoint_ns": ""}}
        saved = saver.get_tuple(place)
        writes = (saved.pending_writes if saved else None) or []
        ends = [value for _, channel, value in writes if channel == RETURN]
        return [end.get("step", end) for end in ends if isinstance(end, Mapping)]

    def _event(self, event: object) -> None:
        if not isinstance(event, Mapping):
            return
        if event.get("type") == "warning":
            self._warn([event.get("text", "")])
        else:
            self.view.event(event)

    def _update(self, update: object) -> None:
        if isinstance(update, Mapping):
            todos, warnings = update.get("todos"), update.get("warnings")
            self.view.tasks(todos if isinstance(todos, list) else ())
            self._warn(warnings if isinstance(warnings, list) else ())
            self._observed(update.get("messages"))

    def _observed(self, messages: object) -> None:
        """Tell what a model has seen in results; it stands in the messages alone."""
        for message in messages if isinstance(messages, list) else ():
            if getattr(message, "additional_kwargs", {}).get("agent_type") == "observation":
                self.view.event({"type": "observation", "text": message.text})

    def _warn(self, texts: Sequence[object]) -> None:
        """Tell each warning once: nodes keep in state what they may have told before."""
        for text in map(str, texts):
            if text not in self._warned:
                self._warned.add(text)
                self.view.event({"type": "warning", "text": text})

    def _pending(self) -> list[Question]:
        return [Question.of(i) for i in self.graph.get_state(self.config).interrupts]

    def _answers(self, pending: Sequence[Question]) -> tuple[Answers, bool]:
        """Answers by question id, and whether the user left the rest open."""
        answers: Answers = {}
        for place, question in enumerate(pending, 1):
            if self.yes and question.is_call and not question.is_uncertain:
                answers[question.id] = {"type": "approve"}
            elif self.asker is not None:
                of = f"{place} of {len(pending)}" if len(pending) > 1 else ""
                reply = accepted(self.asker.ask(question, of), question)
                if reply is None:
                    return answers, True
                answers[question.id] = reply
        return answers, False

    def _tell_waiting(self, pending: Sequence[Question]) -> int:
        if self.output.json:
            asked = [{"id": question.id, "value": question.value} for question in pending]
            self.output.result(
                {"status": "waiting", "thread": self.output.thread, "interrupts": asked}
            )
            return Code.WAITING
        for question in pending:
            self.output.line(f"Waiting for an answer: {question.text()}")
        self.output.line(f"Answer with: {self.output.resume} ANSWER  ({pending[0].how})")
        return Code.WAITING

    def _tell_end(self) -> int:
        values = self.graph.get_state(self.config).values
        outcome = values.get("outcome")
        if not outcome:
            msg = f"The thread {self.thread!r} rests without an outcome"
            raise RuntimeError(msg)
        tell_end(self.output, self.console, outcome, values.get("evidence") or ())
        return code_of(outcome["status"])


def _is_open(values: Mapping[str, Any]) -> bool:
    """Whether a thread at rest has something left to do."""
    outcome = values.get("outcome")
    return not outcome or outcome.get("status") != "complete"

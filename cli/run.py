"""`run` and `resume`: a graph on a thread, from its first event to its end, with the questions."""

import atexit
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.errors import GraphDrained
from langgraph.runtime import RunControl
from langgraph.types import Command
from rich.console import Console

from ..graphs.build import (
    default_company,
    default_instructions,
    default_mcp,
    default_policy,
)  # fmt: skip
from ..graphs.registry import builder_of
from ..models.choice import OFFLINE, Models
from ..models.scripted import read_script
from ..run.graph import LoopGraph
from ..state.context import Context
from ..state.desk.conversation import said_around
from ..state.errors import (
    AnswerRejected,
    SettingsError,
    ThreadIncompatible,
    ThreadNotFound,
)
from ..state.messages import ROLE
from ..state.records import unpacked
from ..state.roles import roles_of
from ..store.checkpoints.head import Head
from ..store.durability import Durability
from ..store.locks.waiting import wait_of
from ..store.threads.listing import GRAPH_KEY
from ..stream.streamed import stream_event
from .agents import AGENT_KEY, NamedAgent, agent_of, saved_with
from .approvals import Asker, Question, given_answers
from .progress import Event
from .settings import (
    DESK,
    PLANNED,
    Settings,
    new_thread_id,
    read_goal,
    thread_named,
)
from .terminal import Code, Output, code_of, ignore_signals, interrupted, signals_to
from .threads import hint, in_doubt
from .view import LiveView, PlainView

Graph = LoopGraph[Any, Any, Any, Any]


def run_goal(
    settings: Settings,
    output: Output,
    goal: str,
    thread: str | None,
    more: Mapping[str, Any] = MappingProxyType({}),
) -> int:
    """Run a goal on a new or an existing thread, perhaps by a plan of the user's; the exit code."""
    if more:
        settings = replace(settings, graph=settings.graph or PLANNED)
        if settings.graph != PLANNED:
            msg = f"--plan and --set are for {PLANNED}, not {settings.graph}: leave --graph out."
            raise SettingsError(msg)
    builder_of(settings.graph_of_new)
    given = thread_named(thread) if thread is not None else new_thread_id()
    words = read_goal(goal)
    if thread is None:
        hint(settings, output)
    with opened(settings, output, given) as session:
        return session.run(words, more)


def context_of(settings: Settings, *, interactive: bool) -> Context:
    """The settings of a run as the command line gives them.

    Raises:
        SettingsError: There cannot be such a limit.
    """
    if settings.max_cost == 0:
        msg = "--max-cost is 0: give US dollars above 0, or leave it out."
        raise SettingsError(msg)
    given = {"max_parallel_tasks": settings.max_parallel, "max_cost": settings.max_cost}
    more: dict[str, Any] = {name: value for name, value in given.items() if value}
    return Context(interactive=interactive, review_plan=settings.review, **more)


def resume_thread(settings: Settings, output: Output, thread: str, answer: str | None) -> int:
    """Go on with a thread; the exit code."""
    # Whoever answered a question before the run can answer another.
    with opened(settings, output, thread_named(thread), human=answer is not None) as session:
        return session.resume(answer)


@contextmanager
def opened(
    settings: Settings, output: Output, thread: str, *, human: bool = False
) -> Iterator["Session"]:
    """Everything a run needs, on a database that is closed once nothing uses it any more.

    A run that was cut off may leave a write under way in a thread, and SQLite crashes if its
    connection is closed meanwhile: the end of the process does it, which waits for threads first.
    """
    durability = settings.open()
    try:
        kept = saved_with(durability, thread)
        name = settings.graph or kept.get(GRAPH_KEY) or settings.graph_of_new
        agent = agent_of(settings, output, name, thread, kept)
        human = human or settings.yes or output.reads
        context = context_of(settings, interactive=human)
        # Questions go to standard error where standard output is a pipe.
        console = Console(highlight=False, stderr=not output.live)
        graph, offline = built(settings, name, context, durability, agent)
        yield Session(
            graph=graph,
            offline=offline,
            thread=thread,
            context=context,
            resume_command=settings.resume_command(thread, durability.url),
            output=output,
            view=LiveView(output, console) if output.live else PlainView(output),
            console=console,
            database=durability.url,
            asker=Asker(console) if output.reads and not output.json else None,
            yes=settings.yes,
            wait=wait_of(settings.wait, settings.environ, "--wait"),
            metadata={GRAPH_KEY: name} | ({AGENT_KEY: agent.mark} if agent else {}),
        )
    except BaseException:
        if output.resume:
            output.doubts = in_doubt(durability, thread)
        atexit.register(durability.close)
        raise
    durability.close()


def built(
    settings: Settings,
    name: str,
    context: Context,
    durability: Durability | None,
    agent: NamedAgent | None,
) -> tuple[Graph, bool]:
    """A graph, and whether the built-in model stands in for one of its roles."""
    build = builder_of(name)
    if settings.model and settings.script:
        msg = "--model and --script both say which model answers: give one of them."
        raise SettingsError(msg)
    model = read_script(settings.script) if settings.script else settings.model
    # Asked here, so that a wrong model is told before a thread is begun.
    own: dict[str, Any] = {"definition": agent.definition} if agent else {}
    if name == DESK:
        own["company"] = default_company(settings.environ)
    models = Models(model, environ=settings.environ)
    names = {models.choose(role, context).name for role in roles_of(name)}
    graph: Graph = build(
        model=model,
        mcp=settings.mcp or default_mcp(settings.environ),
        policy=settings.policy or default_policy(settings.environ),
        instructions=settings.instructions or default_instructions(settings.environ),
        durability=durability,
        **own,
    )
    return graph, OFFLINE in names


@dataclass(kw_only=True)
class Session:
    """A graph on a thread, and the people around it.

    Attributes:
        asker: Who puts questions to the user; None where nobody can answer.
        yes: Approve every tool call that policy asks about; never one that may have run already.
        console: Where questions are put.
        database: Where its thread is kept.
        offline: A role has no model but the built-in one.
        wait: Seconds it waits for a thread that another run holds.
        turning: Hands signals on while the graph runs; else they pause it.
    """

    graph: Graph
    thread: str
    context: Context
    resume_command: str
    output: Output
    view: PlainView
    asker: Asker | None = None
    yes: bool = False
    metadata: dict[str, Any] = field(default_factory=dict)
    console: Console = field(default_factory=Console)
    database: str = ""
    offline: bool = False
    turning: Callable[[RunControl], AbstractContextManager[None]] | None = None
    wait: float = 0
    _heard: int = 0
    _warned: set[str] = field(default_factory=set)

    @property
    def config(self) -> RunnableConfig:
        """Names the thread."""
        return {"configurable": {"thread_id": self.thread}, "metadata": self.metadata}

    def state(self) -> Any:
        """Where the thread stands."""
        return self.graph.get_state(self.config)

    def _pending(self) -> list[Question]:
        return [Question.of(interrupt) for interrupt in self.state().interrupts]

    def run(self, goal: str, more: Mapping[str, Any] = MappingProxyType({})) -> int:
        """Send a message, and what is handed in with it, and run to the end; the exit code."""
        self._there_is_a_thread()
        self._leg({"messages": [{"role": "user", "content": goal}], **more})
        return self._settle()

    def resume(self, answer: str | None) -> int:
        """Go on with the thread, with an answer to what it asks; the exit code."""
        state = self.state()
        if state.created_at is None:
            msg = f"No thread {self.thread!r} is saved here; see `loopwright threads`."
            raise ThreadNotFound(msg)
        self._there_is_a_thread()
        complete = (state.values.get("outcome") or {}).get("status") == "complete"
        if answer is not None:
            if not (pending := self._pending()):
                msg = f"Thread {self.thread!r} has no question waiting; leave the answer out."
                raise AnswerRejected(msg)
            self._leg(Command(resume=given_answers(answer, pending)))
        elif not state.interrupts and (state.next or not complete):
            self._leg(None)
        return self._settle()

    def _there_is_a_thread(self) -> None:
        """From here on whatever ends the command says how to go on."""
        self.output.thread, self.output.resume = self.thread, self.resume_command

    def _leg(self, given: Any) -> None:
        """Run until the graph rests; KeyboardInterrupt if the user pauses it, all is saved then."""
        control = RunControl()
        with (
            (self.turning or self._pausing)(control),
            self.view.running(unpacked(self.state().values)),
        ):
            self._tell({"type": "tasks", "todos": self._done_before()})
            try:
                self._stream(given, control)
            except GraphDrained:
                # The one way to say "paused by the user", whichever signal it was.
                ignore_signals()
                raise KeyboardInterrupt from None
        if control.drain_requested and self.state().next:
            raise KeyboardInterrupt

    def _pausing(self, control: RunControl) -> AbstractContextManager[None]:
        return signals_to(lambda *_: self.pause(control))

    def pause(self, control: RunControl) -> None:
        """Pause at the first signal, which may only set flags; leave at once at the second."""
        if control.drain_requested:
            interrupted()
        control.request_drain("signal")
        self.view.stopping()

    def _done_before(self) -> list[Any]:
        """Tasks that ended in a phase which was cut off: recorded, but not in the state yet."""
        saver: Any = self.graph.checkpointer
        saved = saver.get_tuple(self.config)
        return Head(saved).ended_parts() if saved else []

    def _stream(self, given: Any, control: RunControl) -> None:
        modes: Any = list(self.view.modes)
        for mode, chunk in self.graph.stream(
            given, self.config, context=self.context, stream_mode=modes, control=control,
            wait=self.wait,
        ):  # fmt: skip
            if mode == "messages":
                self._show(chunk)
                continue
            for event in [chunk] if mode == "custom" else _events_of(chunk):
                self._tell(event)

    def _show(self, chunk: Any) -> None:
        for name, told in stream_event("messages", chunk):
            if name == "content":
                self.view.wrote(told["id"], told["text"], again=told.get("again", False))

    def _tell(self, event: Any) -> None:
        """Tell each warning once: nodes keep in state what they may have told before."""
        if not isinstance(event, Mapping):
            return
        warning = str(event.get("text")) if event.get("type") == "warning" else ""
        if warning not in self._warned:
            self.view.event(event)
        self._warned.update([warning] if warning else [])

    def _settle(self) -> int:
        """Answer what is asked until nothing is; then tell the end."""
        while pending := self._pending():
            answers, quits = self._answers(pending)
            if not answers:
                return self._tell_waiting(pending)
            self._leg(Command(resume=answers))
            if quits and (pending := self._pending()):
                return self._tell_waiting(pending)
        return self.tell_end()

    def _answers(self, pending: Sequence[Question]) -> tuple[dict[str, Any], bool]:
        """Answers by question id, and whether the user left the rest open."""
        answers: dict[str, Any] = {}
        for place, question in enumerate(pending, 1):
            if question.kind == "desk":
                continue  # the customer sits here, the colleague at `loopwright desk`
            if self.yes and question.kind == "call":
                answers[question.id] = {"type": "approve"}
            elif self.asker is not None:
                of = f"{place} of {len(pending)}" if len(pending) > 1 else ""
                reply = self.asker.ask(question, of)
                if reply is None:
                    return answers, True
                answers[question.id] = reply
        return answers, False

    def _tell_waiting(self, pending: Sequence[Question]) -> int:
        if self.output.json:
            asked = [{"id": question.id, "value": question.value} for question in pending]
            thread = self.output.thread
            self.output.result({"status": "waiting", "thread": thread, "interrupts": asked})
            return Code.WAITING
        if all(question.kind == "desk" for question in pending):
            self._tell_colleague(self.state().values)
            self.output.line("A colleague has this conversation now: see `loopwright desk`.")
            return Code.WAITING
        for question in pending:
            self.output.line(f"Waiting for an answer: {question.text()}")
        self.output.line(f"Answer with: {self.output.resume} ANSWER  ({pending[0].how})")
        return Code.WAITING

    def _tell_colleague(self, values: Mapping[str, Any]) -> None:
        """Tell what was said around a hand-over since it was told last."""
        said = said_around(values.get("messages") or ())
        for text in said[self._heard :]:
            self.output.line(text)
        self._heard = len(said)

    def tell_end(self) -> int:
        """Tell how the thread's last turn ended; the exit code."""
        values = self.state().values
        if not (outcome := values.get("outcome")):
            msg = (
                f"The thread {self.thread!r} rests without an outcome, as another graph has left "
                "it: there is nothing to resume; give it a new message."
            )
            raise ThreadIncompatible(msg)
        self._tell_colleague(values)
        self.view.end(outcome, values.get("evidence") or ())
        return code_of(outcome["status"])


def _events_of(updates: Mapping[str, Any]) -> Iterator[Event]:
    """What nodes have put into the state, as far as no event of theirs tells it."""
    for update in updates.values():
        if not isinstance(update, Mapping):
            continue
        yield {"type": "tasks", "todos": _list(update.get("todos"))}
        for text in _list(unpacked(update).get("warnings")):
            yield {"type": "warning", "text": text}
        for message in _list(update.get("messages")):
            if getattr(message, "additional_kwargs", {}).get(ROLE) == "observation":
                yield {"type": "observation", "text": message.text}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []

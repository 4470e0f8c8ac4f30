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

from ..graphs.build import default_instructions, default_mcp
from ..graphs.registry import find_builder
from ..graphs.tapes import use_tape
from ..models.choice import OFFLINE, Models
from ..models.scripted import read_script
from ..state.channels import unpack_fields
from ..state.context import Context
from ..state.desk import collect_handoff_texts
from ..state.errors import (
    AnswerRejected,
    SettingsError,
    ThreadIncompatible,
    ThreadNotFound,
    read_variable,
)
from ..state.messages import ROLE
from ..state.outcome import Spend
from ..state.roles import roles_of
from ..store.checkpoints.thread_head import ThreadHead
from ..store.durability import Durability
from ..store.locks.thread_locks import parse_wait
from ..store.threads.thread_list import GRAPH_KEY
from ..stream.replay import stream_event
from .agents import AGENT_KEY, Graph, NamedAgent, load_origin, select_agent
from .approvals import Asker, Question, parse_answers
from .progress import Event
from .prompt import Keyboard
from .settings import DESK, PLANNED, Settings, check_thread_id, make_thread_id, read_goal
from .terminal import Code, Output, choose_exit_code, ignore_signals, interrupt_run, send_signals_to
from .threads import list_doubtful_writes, print_resume_hint
from .view import LiveView, PlainView, make_console


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
    find_builder(settings.new_thread_graph)
    thread_id = check_thread_id(thread) if thread is not None else make_thread_id()
    words = read_goal(goal)
    if thread is None:
        print_resume_hint(settings, output)
    with open_session(settings, output, thread_id) as session:
        return session.run(words, more)


def build_context(settings: Settings, *, interactive: bool) -> Context:
    """The settings of a run as the command line gives them."""
    if settings.max_cost == 0:
        msg = "--max-cost is 0: give US dollars above 0, or leave it out."
        raise SettingsError(msg)
    limits = {"max_parallel_tasks": settings.max_parallel, "max_cost": settings.max_cost}
    more: dict[str, Any] = {name: value for name, value in limits.items() if value}
    return Context(interactive=interactive, review_plan=settings.review, **more)


def resume_thread(settings: Settings, output: Output, thread: str, answer: str | None) -> int:
    """Go on with a thread; the exit code."""
    # Whoever answered a question before the run can answer another.
    with open_session(
        settings, output, check_thread_id(thread), human=answer is not None
    ) as session:
        return session.resume(answer)


@contextmanager
def open_session(
    settings: Settings, output: Output, thread: str, *, human: bool = False
) -> Iterator["Session"]:
    """Everything a run needs, with an open database.

    A run that was cut off may still write in another thread, and SQLite crashes if its connection
    is closed meanwhile. Then the database is closed at exit, after the threads.
    """
    durability = settings.open()
    try:
        kept = load_origin(durability, thread)
        name = settings.graph or kept.get(GRAPH_KEY) or settings.new_thread_graph
        agent = select_agent(settings, output, name, thread, kept)
        human = human or settings.yes or output.is_interactive
        context = build_context(settings, interactive=human)
        # Questions go to standard error where standard output is a pipe.
        console = make_console(stderr=not output.is_live)
        graph, offline = build_named_graph(settings, name, context, durability, agent)
        keyboard = Keyboard() if output.is_interactive else None
        yield Session(
            graph=graph,
            durability=durability,
            offline=offline,
            thread=thread,
            context=context,
            resume_command=settings.build_resume_command(thread, durability.url),
            output=output,
            view=LiveView(output, console, keyboard) if output.is_live else PlainView(output),
            console=console,
            database=durability.url,
            asker=Asker(console) if output.is_interactive and not output.json else None,
            yes=settings.yes,
            wait=parse_wait(settings.wait, settings.environ, "--wait"),
            metadata={GRAPH_KEY: name} | ({AGENT_KEY: agent.mark} if agent else {}),
        )
    except BaseException:
        if output.resume:
            output.doubts = list_doubtful_writes(durability, thread)
        atexit.register(durability.close)
        raise
    durability.close()


def build_named_graph(
    settings: Settings,
    name: str,
    context: Context,
    durability: Durability | None,
    agent: NamedAgent | None,
) -> tuple[Graph, bool]:
    """A graph, and whether one of its roles has only the built-in model."""
    build = find_builder(name)
    if settings.model and settings.script:
        msg = "--model and --script both say which model answers: give one of them."
        raise SettingsError(msg)
    model = read_script(settings.script) if settings.script else settings.model
    # Asked here, so that a wrong model is told before a thread is begun.
    own: dict[str, Any] = {"definition": agent.definition} if agent else {}
    if name == DESK:
        own["company"] = read_variable(settings.environ, "LOOPWRIGHT_COMPANY")
    with use_tape(folder=settings.record):
        models = Models(model, environ=settings.environ)
        names = {models.choose(role, context).name for role in roles_of(name)}
        graph: Graph = build(
            model=model,
            mcp=settings.mcp or default_mcp(settings.environ),
            policy=settings.policy or read_variable(settings.environ, "LOOPWRIGHT_POLICY"),
            foreign=settings.foreign or read_variable(settings.environ, "LOOPWRIGHT_FOREIGN"),
            instructions=settings.instructions or default_instructions(settings.environ),
            hooks=settings.hooks or read_variable(settings.environ, "LOOPWRIGHT_HOOKS") or (),
            durability=durability,
            **own,
        )
    return graph, OFFLINE in names


@dataclass(kw_only=True)
class Session:
    """A graph on a thread, and the user at the terminal.

    Attributes:
        asker: Who puts questions to the user; None where nobody can answer.
        yes: Approve every tool call that policy asks about; never one that may have run already.
        console: Where questions are put.
        database: Where its thread is kept.
        offline: A role has no model but the built-in one.
        wait: Seconds it waits for a thread that another run holds.
        durability: The database that is open.
        spends: What each turn that ended here has used.
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
    durability: Durability | None = None
    spends: list[Spend] = field(default_factory=list)
    _has_ended: bool = False
    _heard: int = 0
    _warned: set[str] = field(default_factory=set)
    _approved: set[str] = field(default_factory=set)

    @property
    def config(self) -> RunnableConfig:
        """Names the thread."""
        return {"configurable": {"thread_id": self.thread}, "metadata": self.metadata}

    def state(self) -> Any:
        """Where the thread stands."""
        return self.graph.get_state(self.config)

    def _list_questions(self) -> list[Question]:
        return [Question.from_interrupt(interrupt) for interrupt in self.state().interrupts]

    def run(self, goal: str, more: Mapping[str, Any] = MappingProxyType({})) -> int:
        """Send a message, and what is handed in with it, and run to the end; the exit code."""
        self._set_resume_hint()
        self._run_until_rest({"messages": [{"role": "user", "content": goal}], **more})
        return self._answer_until_end()

    def resume(self, answer: str | None) -> int:
        """Go on with the thread, with an answer to what it asks; the exit code."""
        state = self.state()
        if state.created_at is None:
            msg = f"No thread {self.thread!r} is saved here; see `loopwright threads`."
            raise ThreadNotFound(msg)
        self._set_resume_hint()
        complete = (state.values.get("outcome") or {}).get("status") == "complete"
        if answer is not None:
            if not (pending := self._list_questions()):
                msg = f"Thread {self.thread!r} has no question waiting; leave the answer out."
                raise AnswerRejected(msg)
            self._run_until_rest(Command(resume=parse_answers(answer, pending)))
        elif not state.interrupts and (state.next or not complete):
            self._run_until_rest(None)
        return self._answer_until_end()

    def _set_resume_hint(self) -> None:
        """From here on, every end of the command says how to resume."""
        self.output.thread, self.output.resume = self.thread, self.resume_command

    def _run_until_rest(self, run_input: Any) -> None:
        """Run until the graph rests; KeyboardInterrupt if the user pauses it (all is saved)."""
        control = RunControl()
        with (
            (self.turning or self._pause_on_signal)(control),
            self.view.show_run(unpack_fields(self.state().values)),
        ):
            self._show_event({"type": "tasks", "todos": self._load_ended_tasks()})
            try:
                self._stream(run_input, control)
            except GraphDrained:
                # The one way to say "paused by the user", whichever signal it was.
                ignore_signals()
                raise KeyboardInterrupt from None
        if control.drain_requested and self.state().next:
            raise KeyboardInterrupt

    def _pause_on_signal(self, control: RunControl) -> AbstractContextManager[None]:
        return send_signals_to(lambda *_: self.pause(control))

    def pause(self, control: RunControl) -> None:
        """Pause at the first signal; leave at once at the second."""
        if control.drain_requested:
            interrupt_run()
        control.request_drain("signal")
        self.view.show_stopping()

    def _load_ended_tasks(self) -> list[Any]:
        """Tasks that ended in a phase which was cut off: recorded, but not in the state yet."""
        saver: Any = self.graph.checkpointer
        saved = saver.get_tuple(self.config)
        return ThreadHead(saved).list_ended_parts() if saved else []

    def _stream(self, run_input: Any, control: RunControl) -> None:
        modes: Any = list(self.view.modes)
        for mode, chunk in self.graph.stream(
            run_input,
            self.config,
            context=self.context,
            stream_mode=modes,
            control=control,
            wait=self.wait,
        ):
            if mode == "messages":
                self._show_chunk(chunk)
                continue
            for event in [chunk] if mode == "custom" else _list_events(chunk):
                self._show_event(event)

    def _show_chunk(self, chunk: Any) -> None:
        for name, piece in stream_event("messages", chunk):
            if name == "content":
                self.view.show_text(piece["id"], piece["text"], again=piece.get("again", False))

    def _show_event(self, event: Any) -> None:
        """Show an event; a warning that was shown before is skipped."""
        if not isinstance(event, Mapping):
            return
        self._has_ended = self._has_ended or event.get("type") == "outcome"
        warning = str(event.get("text")) if event.get("type") == "warning" else ""
        if warning not in self._warned:
            self.view.show_event(event)
        self._warned.update([warning] if warning else [])

    def _answer_until_end(self) -> int:
        """Collect answers until no question is open; then show the end."""
        while pending := self._list_questions():
            answers, quits = self._collect_answers(pending)
            if not answers:
                return self._print_waiting(pending)
            self._run_until_rest(Command(resume=answers))
            if quits and (pending := self._list_questions()):
                return self._print_waiting(pending)
        return self.tell_end()

    def _collect_answers(self, pending: Sequence[Question]) -> tuple[dict[str, Any], bool]:
        """Answers by question id, and whether the user left the others open."""
        answers: dict[str, Any] = {}
        for place, question in enumerate(pending, 1):
            if question.kind == "desk":
                continue  # the customer sits here, the colleague at `loopwright desk`
            # Asked about again, it was not taken: to say yes anew would go on for ever.
            called = question.kind == "call" and question.value.get("id", question.id)
            if self.yes and called and called not in self._approved:
                self._approved.add(called)
                answers[question.id] = {"type": "approve"}
            elif self.asker is not None:
                of = f"{place} of {len(pending)}" if len(pending) > 1 else ""
                reply = self.asker.ask(question, of)
                if reply is None:
                    return answers, True
                answers[question.id] = reply
        return answers, False

    def _print_waiting(self, pending: Sequence[Question]) -> int:
        if self.output.json:
            questions = [{"id": question.id, "value": question.value} for question in pending]
            told = {"status": "waiting", "thread": self.output.thread, "interrupts": questions}
            self.output.write_result(told)
            return Code.WAITING
        if all(question.kind == "desk" for question in pending):
            self._print_hand_over(self.state().values)
            self.output.write_line("A colleague has this conversation now: see `loopwright desk`.")
            return Code.WAITING
        for question in pending:
            self.output.write_line(f"Waiting for an answer: {question.render_text()}")
        self.output.write_line(f"Answer with: {self.output.resume} ANSWER")
        self.output.write_line(f"  ANSWER is {pending[0].answer_hint}")
        return Code.WAITING

    def _print_hand_over(self, values: Mapping[str, Any]) -> None:
        """Show the messages around a hand-over that were not shown yet."""
        texts = collect_handoff_texts(values.get("messages") or ())
        for text in texts[self._heard :]:
            self.output.write_line(text)
        self._heard = len(texts)

    def tell_end(self) -> int:
        """Show how the thread's last turn ended; the exit code."""
        values = self.state().values
        if not (outcome := values.get("outcome")):
            msg = (
                f"The thread {self.thread!r} rests without an outcome, as another graph has left "
                "it: there is nothing to resume; give it a new message."
            )
            raise ThreadIncompatible(msg)
        self._print_hand_over(values)
        if self._has_ended:  # not only told again
            self.spends.append(outcome["spend"])
            self._has_ended = False
        self.view.show_end(outcome, values.get("evidence") or ())
        return choose_exit_code(outcome["status"])


def _list_events(updates: Mapping[str, Any]) -> Iterator[Event]:
    """Events for state updates that the nodes announce by no event."""
    for update in updates.values():
        if not isinstance(update, Mapping):
            continue
        yield {"type": "tasks", "todos": _as_list(update.get("todos"))}
        for text in _as_list(unpack_fields(update).get("warnings")):
            yield {"type": "warning", "text": text}
        for message in _as_list(update.get("messages")):
            if getattr(message, "additional_kwargs", {}).get(ROLE) == "observation":
                yield {"type": "observation", "text": message.text}


def _as_list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []

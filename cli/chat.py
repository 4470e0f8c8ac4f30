"""`chat`: a conversation with a graph, turn by turn, on a terminal or through a pipe."""

import re
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Final

from langgraph.runtime import RunControl
from rich.text import Text

from ..graphs.registry import find_builder
from ..state.errors import LoopwrightError
from ..store.durability import Durability
from ..store.threads.thread_list import EXPIRY
from ..text.canonical import plural
from .approvals import Asker
from .ctrl_c import CtrlC, PromptLeft
from .keyboard import Keyboard
from .run import Session, open_session
from .settings import NO_MODEL, Settings, check_thread_id, make_thread_id
from .terminal import (
    Code,
    Output,
    clean,
    interrupt_run,
    read_typed_line,
    run_attempt,
    send_signals_to,
)
from .threads import describe_thread, list_resumable
from .view import LiveView, PlainView

_COMMAND: Final = ("chat", "--thread")
_HELP: Final = """\
Type what you want; while a turn runs, what you type is handed to it.
  /resume  go on with a turn that was stopped, waits, or did not reach its goal
  /new     begin a new conversation; this one stays saved
  /stop    end the turn that is running, as Ctrl-C does
  /quit    leave, as Ctrl-D does; the conversation stays saved"""
_COMMANDS: Final = frozenset({"/help", "/resume", "/new", "/stop", "/quit"})
_CHOICES: Final = (
    "A number goes on with that one, d and a number deletes it; else say what you want."
)
_CHOICE: Final = re.compile(r"([dD]?)\s*(\d{1,9})")
_MOST: Final = 9
_AGAIN: Final = 0.1
_ENDS: Final = frozenset({Code.USAGE, Code.FAILED, Code.WAITING})
"""After these a pipe's next message would make no sense."""

if sys.platform != "win32":
    import readline


def run_chat(settings: Settings, output: Output, thread: str | None) -> int:
    """Talk until the user leaves or the input ends; the exit code."""
    find_builder(settings.new_thread_graph)
    named = None if thread is None else check_thread_id(thread)
    asks = named is None and output.is_live and output.is_interactive
    chosen, first = _offer_threads(settings, output) if asks else (named, "")
    with open_session(settings, output, chosen or make_thread_id()) as session:
        return Conversation(settings, session, first).run_turns(resumes=chosen != named)


def _offer_threads(settings: Settings, output: Output) -> tuple[str | None, str]:
    """The unfinished thread that the user wants to go on with, or else their first message."""
    with settings.open() as durability:
        while found := list_resumable(durability.unfinished(settings.read_expiry(EXPIRY)))[:_MOST]:
            output.write_line(f"{plural(len(found), 'unfinished thread')}:")
            for place, thread in enumerate(found, 1):
                output.write_line(f"  {place}  {describe_thread(thread)}")
            output.write_line(_CHOICES)
            choice = _CHOICE.fullmatch(typed := read_typed_line(at_end="/quit"))
            place = int(choice[2]) if choice else 0
            chosen = found[place - 1].thread_id if 1 <= place <= len(found) else None
            if not (choice and choice[1]):
                return chosen, "" if chosen else typed
            if chosen:
                _dismiss(durability, output, chosen)
    return None, ""


def _dismiss(durability: Durability, output: Output, thread: str) -> None:
    try:
        durability.dismiss(thread)
    except LoopwrightError as error:
        output.write_error(str(error))
    else:
        output.write_line(f"{thread} is deleted.")


class Conversation:
    """A session that is given one message after another."""

    def __init__(self, settings: Settings, session: Session, first: str = "") -> None:
        """Take over a session, where `first` is typed: where it shows, whom it asks, and so on."""
        self._settings, self._session, self._output = settings, session, session.output
        self._next = deque(filter(None, [first]))
        self._ctrl_c = CtrlC()
        self._stopper: threading.Thread | None = None
        self._over = threading.Event()
        self._keyboard: Keyboard | None = None
        if self._output.is_live and self._output.is_interactive:
            self._keyboard = Keyboard(self._handle_typed)
        if session.asker is not None:
            session.asker = Asker(session.console, self._read_answer)

    def run_turns(self, *, resumes: bool) -> int:
        """Turn after turn; the exit code of the last one where nobody sits at a terminal."""
        if not self._output.is_interactive:  # a signal ends it, as it ends a run
            return self._run_turns(resumes=resumes)
        self._session.turning = self._route_signals
        with send_signals_to(self._ctrl_c):
            return self._run_turns(resumes=resumes)

    def _run_turns(self, *, resumes: bool) -> int:
        if self._greet(resumes=resumes):
            self._next.append("/resume")
        code: int = Code.COMPLETE
        for line in self._read_lines():
            if line == "/quit":
                break
            done = self._handle_line(line)
            code = code if done is None else done
            if not self._output.is_interactive and code in _ENDS:
                break
        if self._output.resume and code != Code.WAITING:
            named = (self._session.thread, self._session.database)
            self._output.write_line(
                f"Go on with: {self._settings.build_resume_command(*named, *_COMMAND)}"
            )
        return Code.COMPLETE if self._output.is_interactive else code

    def _greet(self, *, resumes: bool) -> bool:
        """Say where the conversation stands; whether its turn is to go on at once."""
        session = self._session
        self._output.write_line(f"{session.graph.name} · thread {session.thread} · /help")
        if session.offline:
            self._output.write_line(NO_MODEL)
        state = session.state()
        told = [text for one in state.values.get("messages", ())[-1:] if (text := one.text.strip())]
        for text in told:
            self._output.write_line(f"\n{clean(text)}\n")
        resumes = resumes or bool(self._output.is_interactive and state.interrupts)
        if state.next and not (state.interrupts or resumes):
            self._output.write_line("Its turn was cut off: /resume goes on with it.")
        return resumes

    def _read_lines(self) -> Iterator[str]:
        """Messages, and commands, until the input ends."""
        while True:
            if self._next:
                yield self._next.popleft()
            elif not self._output.is_interactive:
                if not (line := sys.stdin.buffer.readline()):
                    return
                if text := line.decode("utf-8", "replace").strip():
                    self._output.write_line(f"> {text}")
                    yield text
            elif (typed := self._read_message()) is None:
                return
            else:
                yield typed

    def _read_message(self) -> str | None:
        """A message typed at the prompt; None where the user leaves."""
        left = False
        if self._keyboard is not None:
            readline.set_pre_input_hook(
                partial(self._ctrl_c.run_for_readline, self._prefill_prompt)
            )
        while True:
            try:
                return self._ctrl_c.read_input(lambda: input("> ")).strip()
            except EOFError:
                return None
            except PromptLeft:
                self._output.write_line("")
                if left:
                    return None
                left = True
                self._output.write_line("Ctrl-C again, Ctrl-D or /quit leaves.")

    def _handle_line(self, line: str) -> int | None:
        """Do what a line says; the exit code of a turn."""
        session = self._session
        match line:
            case "":
                return None
            case "/help":
                self._output.write_line(_HELP)
            case "/new":
                self._begin_thread()
            case "/stop":
                return self._run_turn(self._stop_saved_turn)
            case "/resume":
                return self._run_turn(lambda: session.resume(None))
            case _ if line.startswith("/") and line[1:].isalpha():
                self._output.write_line(f"There is no {line}; /help names what there is.")
            case _:
                return self._run_turn(lambda: session.run(line))
        return None

    def _begin_thread(self) -> None:
        session, output = self._session, self._output
        session.thread = make_thread_id()
        url, new = session.database, session.thread
        session.resume_command = self._settings.build_resume_command(new, url)
        output.thread = output.resume = ""
        output.write_line(f"A new conversation: thread {new}.")

    def _run_turn(self, act: Callable[[], int]) -> int | None:
        """One turn, whose errors do not end the conversation; None where the user came back."""
        output, session = self._output, self._session
        session.view = PlainView(output, brief=True)
        if output.is_live:
            session.view = LiveView(output, session.console, self._keyboard, brief=True)
        try:
            return run_attempt(output, act)
        except PromptLeft:
            asks = session.state().interrupts
            stays = "The question stays open: /resume comes back to it."
            output.write_line(f"\n{stays if asks else 'Nothing was begun.'}")
            return None

    def _stop_saved_turn(self) -> int:
        self._session.graph.stop(self._session.config)
        return self._session.tell_end()

    @contextmanager
    def _route_signals(self, control: RunControl) -> Iterator[None]:
        self._stopper, self._over = None, threading.Event()
        try:
            with self._ctrl_c.forward_signals(partial(self._handle_signal, control)):
                yield
        finally:
            self._over.set()
        if self._stopper is not None:  # it stops no later turn
            self._stopper.join()

    def _handle_signal(self, control: RunControl, number: int) -> None:
        """End the turn at the first Ctrl-C, and leave at the second; another signal pauses."""
        if number != signal.SIGINT:
            self._session.pause(control)
        elif self._stopper is not None:
            interrupt_run()
        else:
            self._stop()

    def _stop(self) -> None:
        """Have the turn ended: by another thread, as a signal's handler must not wait."""
        self._stopper = threading.Thread(target=self._stop_turn, args=(self._over,), daemon=True)
        self._stopper.start()

    def _stop_turn(self, over: threading.Event) -> None:
        """Until the run has it, and say so: one that just begins may not hold its thread yet."""
        while not over.is_set():
            with suppress(LoopwrightError):
                if self._session.graph.stop(self._session.config) is None:
                    self._session.view.show_stopping()
                    return
            over.wait(_AGAIN)

    def _handle_typed(self, line: str) -> None:
        """Hand what was typed during a turn to it, or keep it for the prompt."""
        steered = False
        if line in {"/stop", "/quit"}:
            self._stop()
        elif line not in _COMMANDS:
            with suppress(LoopwrightError):
                steered = self._session.graph.steer(self._session.config, line)
        if not steered and line != "/stop":
            self._next.append(line)
        self._session.console.print(Text(clean(f"> {line}")))

    def _read_answer(self) -> str:
        return self._ctrl_c.read_input(self._read_typed_answer)

    def _read_typed_answer(self) -> str:
        """A line typed at a question, not what was being typed when it came."""
        if self._keyboard is not None:
            self._keyboard.settle()
        return read_typed_line()

    def _prefill_prompt(self) -> None:
        """Put what was being typed when the turn ended at the prompt."""
        if self._keyboard is not None:
            readline.insert_text(self._keyboard.drain_text())
            readline.redisplay()

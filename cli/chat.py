"""`chat`: a conversation with a graph, turn by turn, on a terminal or through a pipe."""

import re
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final

from langgraph.runtime import RunControl
from rich.text import Text

from ..graphs.registry import find_builder
from ..run.turn_input import awaits_only_desk
from ..state.errors import LoopwrightError
from ..store.durability import Durability
from ..store.threads.thread_list import EXPIRY
from ..text.canonical import plural
from .approvals import Asker
from .prompt import Keyboard, Prompt, PromptLeft, read_typed_line
from .run import Session, open_session
from .settings import NO_MODEL, Settings, check_thread_id, make_thread_id
from .terminal import (
    Code,
    Output,
    clean,
    interrupt_run,
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


def run_chat(settings: Settings, output: Output, thread: str | None) -> int:
    """Talk until the user leaves or the input ends; the exit code."""
    find_builder(settings.new_thread_graph)
    named = None if thread is None else check_thread_id(thread)
    asks = named is None and output.is_live and output.is_interactive
    chosen, first = _offer_threads(settings, output) if asks else (named, "")
    with open_session(settings, output, chosen or make_thread_id()) as session:
        return Conversation(settings, session, first).run_turns(resumes=chosen != named)


def _offer_threads(settings: Settings, output: Output) -> tuple[str | None, str]:
    """The unfinished thread that the user chose, or else their first message."""
    with settings.open() as durability:
        within = settings.read_expiry(EXPIRY)
        while threads := list_resumable(durability.unfinished(within))[:_MOST]:
            output.write_line(f"{plural(len(threads), 'unfinished thread')}:")
            for place, thread in enumerate(threads, 1):
                output.write_line(f"  {place}  {describe_thread(thread)}")
            output.write_line(_CHOICES)
            choice = _CHOICE.fullmatch(typed := read_typed_line(at_end="/quit"))
            place = int(choice[2]) if choice else 0
            chosen = threads[place - 1].thread_id if 1 <= place <= len(threads) else None
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
    """A session that gets one message after another."""

    def __init__(self, settings: Settings, session: Session, first: str = "") -> None:
        """Talk in a session; `first` is the first message, if it is typed already."""
        self._settings, self._session, self._output = settings, session, session.output
        self._next = deque(filter(None, [first]))
        self._prompt = Prompt(self._take_kept_signal)
        self._control: RunControl | None = None
        self._has_kept_signal = False
        self._stopper: threading.Thread | None = None
        self._over = threading.Event()
        self._keyboard: Keyboard | None = None
        if self._output.is_live and self._output.is_interactive:
            self._keyboard = Keyboard(self._handle_typed)
        if session.asker is not None:
            session.asker = Asker(session.console, self._read_answer)

    def run_turns(self, *, resumes: bool) -> int:
        """Turn after turn; through a pipe, the exit code of the last one."""
        if not self._output.is_interactive:  # a signal ends it, as it ends a run
            return self._run_turns(resumes=resumes)
        self._session.turning = self._route_signals
        with send_signals_to(self._take_signal):
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
            if not self._output.is_interactive and code in _ENDS and not self._is_colleagues():
                break
        if self._output.resume and code != Code.WAITING:
            named = (self._session.thread, self._session.database)
            self._output.write_line(
                f"Go on with: {self._settings.build_resume_command(*named, *_COMMAND)}"
            )
        return Code.COMPLETE if self._output.is_interactive else code

    def _is_colleagues(self) -> bool:
        """Whether a colleague has the conversation: what the customer writes goes to them."""
        asked = self._session.state().interrupts
        return bool(asked) and awaits_only_desk(asked)

    def _greet(self, *, resumes: bool) -> bool:
        """Show the state of the conversation; say whether its turn is resumed at once."""
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
        while True:
            try:
                return self._prompt.read_line(self._keyboard.drain_text() if self._keyboard else "")
            except EOFError:
                return None
            except PromptLeft:
                if left:
                    return None
                left = True
                self._output.write_line("Ctrl-C again, Ctrl-D or /quit leaves.")

    def _handle_line(self, line: str) -> int | None:
        """Run a command or a message; the exit code of a turn."""
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
        """Run one turn; its errors do not end the conversation. None if the user left it."""
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
        self._stopper, self._over, self._control = None, threading.Event(), control
        try:
            if self._take_kept_signal():
                raise PromptLeft
            yield
        finally:
            self._control = None
            self._over.set()
        if self._stopper is not None:  # it stops no later turn
            self._stopper.join()

    def _take_signal(self, number: int, _: FrameType | None) -> None:
        """Ctrl-C ends a turn, a second one leaves; between turns the next prompt hears it."""
        if self._control is None and number == signal.SIGINT:
            self._has_kept_signal = True
        elif self._control is not None and number != signal.SIGINT:
            self._session.pause(self._control)
        elif self._control is None or self._stopper is not None:
            interrupt_run()
        else:
            self._stop()

    def _take_kept_signal(self) -> bool:
        kept, self._has_kept_signal = self._has_kept_signal, False
        return kept

    def _stop(self) -> None:
        """End the turn from another thread: a signal handler must not wait."""
        self._stopper = threading.Thread(target=self._stop_turn, args=(self._over,), daemon=True)
        self._stopper.start()

    def _stop_turn(self, over: threading.Event) -> None:
        """Try until the run has taken it: a run that just began may not hold its thread yet."""
        while not over.is_set():
            with suppress(LoopwrightError):
                if self._session.graph.stop(self._session.config) is None:
                    self._session.view.show_stopping()
                    return
            over.wait(_AGAIN)

    def _handle_typed(self, line: str) -> None:
        """Give words that were typed during a turn to it, or keep them for the next one."""
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
        """A line typed at a question; words that were half typed before are dropped."""
        if self._keyboard is not None:
            self._keyboard.settle()
        try:
            return self._prompt.read_line()
        except EOFError:
            return "q"

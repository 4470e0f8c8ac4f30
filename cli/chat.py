"""`chat`: a conversation with a graph, turn by turn, on a terminal or through a pipe."""

import re
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from types import FrameType
from typing import Final

from langgraph.runtime import RunControl
from rich.text import Text

from ..graphs.registry import find_builder
from ..run.turn_input import awaits_only_desk
from ..state.errors import LoopwrightError, ThreadNotFound
from ..state.outcome import Spend
from ..store.threads.thread_list import EXPIRY
from ..text.canonical import plural
from .approvals import Asker
from .chat_commands import NAMES, SUGGESTED, Switch, drop_file_marks, run_command, suggest
from .prompt import Keyboard, Prompt, PromptLeft, read_typed_line
from .run import Session, open_session
from .settings import NO_MODEL, Settings, check_thread_id, make_thread_id
from .terminal import Code, Output, clean, interrupt_run, run_attempt, send_signals_to
from .threads import describe_thread, dismiss_thread, list_resumable
from .view import LiveView, PlainView

_COMMAND: Final = ("chat", "--thread")
_WITH_WORDS: Final = frozenset({"/resume", "/model"})
_CHOICES: Final = "Type a message to start, a number to continue, d2 to delete thread 2."
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
    new = chosen or make_thread_id()
    return _talk(output, Switch(settings, new, resumes=chosen != named), first)


def continue_chat(settings: Settings, output: Output) -> int:
    """Talk on in the newest thread, and go on with its turn if it was cut off; the exit code."""
    with settings.open() as durability:
        newest = list_resumable(durability.threads(limit=SUGGESTED))
        if not newest:
            msg = f"No thread is saved in {durability.url} yet: begin one with `loopwright chat`."
            raise ThreadNotFound(msg)
    cut_off = bool(newest[0].next) and not newest[0].waiting
    return _talk(output, Switch(settings, newest[0].thread_id, resumes=cut_off))


def _talk(output: Output, begun: Switch, first: str = "") -> int:
    """Talk in one session after another."""
    typed, spends = deque(filter(None, [first])), list[Spend]()
    while True:
        output.thread = output.resume = ""
        with open_session(begun.settings, output, begun.thread) as session:
            session.spends = spends
            talk = Conversation(begun.settings, session, typed)
            code = talk.run_turns(begun)
        if talk.then is None:
            return code
        begun = talk.then


def _offer_threads(settings: Settings, output: Output) -> tuple[str | None, str]:
    """The unfinished thread that the user chose, or else their first message."""
    with settings.open() as durability:
        within = settings.read_expiry(EXPIRY)
        while threads := list_resumable(durability.unfinished(within))[:_MOST]:
            output.write_line(f"{plural(len(threads), 'unfinished thread')}:")
            for place, thread in enumerate(threads, 1):
                output.write_line(f"  {place}  {describe_thread(thread)}")
            output.write_line(_CHOICES)
            typed = "/quit"
            with suppress(EOFError):
                typed = read_typed_line(partial(suggest, durability))
            choice = _CHOICE.fullmatch(typed)
            place = int(choice[2]) if choice else 0
            if choice is None or not 1 <= place <= len(threads):  # then it is the first message
                return None, drop_file_marks(typed)
            if not choice[1]:
                return threads[place - 1].thread_id, ""
            gone = threads[place - 1].thread_id
            run_attempt(output, partial(dismiss_thread, durability, output, gone))
    return None, ""


class Conversation:
    """A session that gets one message after another.

    Attributes:
        then: The session that goes on, once this one is left.
    """

    def __init__(self, settings: Settings, session: Session, typed: deque[str]) -> None:
        """Talk in a session; `typed` is what was typed already, line by line."""
        self._settings, self._session, self._output = settings, session, session.output
        self.then: Switch | None = None
        self._next = typed
        self._prompt = Prompt(self._take_kept_signal, partial(suggest, session.durability))
        self._answers = Prompt(self._take_kept_signal)
        self._control: RunControl | None = None
        self._has_kept_signal = False
        self._stopper: threading.Thread | None = None
        self._over = threading.Event()
        self._keyboard: Keyboard | None = None
        if self._output.is_live and self._output.is_interactive:
            self._keyboard = Keyboard(self._handle_typed)
        if session.asker is not None:
            session.asker = Asker(session.console, self._read_answer)

    def run_turns(self, begun: Switch) -> int:
        """Turn after turn; through a pipe, the exit code of the last one."""
        if not self._output.is_interactive:  # a signal ends it, as it ends a run
            return self._run_turns(begun)
        self._session.turning = self._route_signals
        with send_signals_to(self._take_signal):
            return self._run_turns(begun)

    def _run_turns(self, begun: Switch) -> int:
        if begun.is_new and self._greet(resumes=begun.resumes):
            self._next.appendleft("/resume")
        code: int = Code.COMPLETE
        for line in self._read_lines():
            if line == "/quit":
                break
            done = self._handle_line(line)
            code = code if done is None else done
            if self.then is not None:
                return code
            if not self._output.is_interactive and code in _ENDS and not self._is_colleagues():
                break
        if self._output.resume and code != Code.WAITING:
            named = (self._session.thread, self._session.database)
            command = self._settings.build_resume_command(*named, *_COMMAND)
            self._output.write_line(f"Go on with: {command}", whole=True)
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
                yield drop_file_marks(typed)

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
        """Run a command or a message; the exit code of a turn, or of a command that failed."""
        session, (command, _, words) = self._session, line.partition(" ")
        match line:
            case "":
                return None
            case "/new":
                self._begin_thread()
            case "/stop":
                return self._run_turn(self._stop_saved_turn)
            case "/resume":
                return self._run_turn(lambda: session.resume(None))
            case _ if line in NAMES or command in _WITH_WORDS:
                return run_attempt(self._output, lambda: self._run_command(command, words))
            case _ if line.startswith("/") and line[1:].isalpha():
                self._output.write_line(f"There is no {line}; /help names what there is.")
            case _:
                return self._run_turn(lambda: session.run(line))
        return None

    def _run_command(self, command: str, words: str) -> int:
        self.then = run_command(self._settings, self._session, command, words.strip())
        return Code.COMPLETE

    def _begin_thread(self) -> None:
        session, output = self._session, self._output
        session.thread = new = make_thread_id()
        session.resume_command = self._settings.build_resume_command(new, session.database)
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
        elif line.partition(" ")[0] not in NAMES:
            with suppress(LoopwrightError):
                steered = self._session.graph.steer(self._session.config, line)
        if not steered and line != "/stop":
            self._next.append(line)
        self._session.console.print(Text(clean(f"> {line}")))

    def _read_answer(self) -> str:
        """A line typed at a question; words that were half typed before are dropped."""
        if self._keyboard is not None:
            self._keyboard.settle()
        return self._answers.read_line()

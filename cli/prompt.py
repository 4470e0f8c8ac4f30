"""What is typed: lines at a prompt, and keys while a view is drawn. prompt_toolkit reads both."""

import os
import re
import select
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from ..store.sqlite.file import make_folder
from .terminal import LOG_FILE, interrupt_run, open_without_link

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.history import History
    from prompt_toolkit.input import Input
    from prompt_toolkit.key_binding.key_processor import KeyPress

_LOOKS: Final = 0.1
_QUIET: Final = 1.0
"""Seconds without a key after which whoever typed has seen the question."""
_SIGNALS: Final = {"c-c": "SIGINT", "c-z": "SIGTSTP", "c-\\": "SIGQUIT"}
"""A terminal whose keys are read one by one sends no signals itself."""


_MENU_ROWS: Final = 6
_ENTERS: Final = ("c-m", "c-j")


class PromptLeft(KeyboardInterrupt):
    """Ctrl-C at a prompt or a question."""


Suggestion = tuple[str, int, str]
"""What could stand in place of that many characters before the cursor, and what it is."""
Complete = Callable[[str], Iterable[Suggestion]]
"""From the text before the cursor to what could end it."""


class Prompt:
    """Reads lines; the arrow keys bring earlier ones back."""

    def __init__(
        self, is_interrupted: Callable[[], bool] = lambda: False, complete: Complete | None = None
    ) -> None:
        """`is_interrupted` says whether Ctrl-C came before the prompt could hear it.

        With `complete` it reads messages: of several lines, remembered in this folder's history.
        """
        self._is_interrupted, self._complete = is_interrupted, complete
        self._session: PromptSession[str] | None = None

    def read_line(self, default: str = "") -> str:
        """A line, which begins with `default`.

        Raises:
            PromptLeft: Ctrl-C.
            EOFError: Ctrl-D, or the terminal is gone.
        """
        session = self._session = self._session or _open_session(self._complete)

        def check() -> None:
            if self._is_interrupted():
                session.app.exit(exception=PromptLeft())

        return session.prompt("> ", default=default, pre_run=check).strip()


def _open_session(complete: Complete | None) -> "PromptSession[str]":
    from prompt_toolkit import PromptSession  # noqa: PLC0415 - pipes do without it
    from prompt_toolkit.output import create_output  # noqa: PLC0415 - see above
    from prompt_toolkit.output.vt100 import Vt100_Output  # noqa: PLC0415 - see above

    output = create_output(always_prefer_tty=True)
    if isinstance(output, Vt100_Output):
        output.enable_cpr = False  # a late reply of the terminal would look like typed keys
    return PromptSession(
        output=output,
        interrupt_exception=PromptLeft,
        enable_suspend=True,
        **(_build_message_options(complete) if complete else {"reserve_space_for_menu": 0}),
    )


def _build_message_options(complete: Complete) -> dict[str, Any]:
    """What a prompt for messages has more than one for answers."""
    from prompt_toolkit.completion import Completer, Completion  # noqa: PLC0415 - see above
    from prompt_toolkit.key_binding import KeyBindings  # noqa: PLC0415 - see above

    class Suggestions(Completer):
        def get_completions(self, document: Any, _: Any) -> Iterator[Completion]:
            for text, length, about in complete(document.text_before_cursor):
                yield Completion(text, -length, display_meta=about)

    keys = KeyBindings()

    @keys.add("escape", "enter")
    @keys.add("enter")
    def handle_enter(event: Any) -> Any:
        buffer = event.current_buffer
        if buffer.document.text_before_cursor.endswith("\\"):
            buffer.delete_before_cursor()
        elif len(event.key_sequence) == 1:
            return buffer.validate_and_handle()
        return buffer.newline()

    return {
        "completer": Suggestions(),
        "history": _open_history(),
        "key_bindings": keys,
        "multiline": True,
        "prompt_continuation": "  ",
        "reserve_space_for_menu": _MENU_ROWS,
    }


def _open_history() -> "History":
    """The messages that were typed in this folder; in memory where nothing can be kept."""
    from prompt_toolkit.history import FileHistory, InMemoryHistory  # noqa: PLC0415 - see above

    path = LOG_FILE.with_name("history")
    try:
        make_folder(path.parent)
        os.close(open_without_link(str(path), os.O_CREAT | os.O_RDWR))
    except OSError:
        return InMemoryHistory()
    return FileHistory(path)


def read_typed_line(complete: Complete | None = None) -> str:
    """A line of the user; EOFError at the end of the input. Ctrl-C ends the run."""
    try:
        return Prompt(complete=complete).read_line()
    except PromptLeft:
        interrupt_run()


class Keyboard:
    """The keys of a terminal while a view is drawn, where an echo would shift the view.

    Attributes:
        text: What is typed and not sent yet; it outlives the turn.
    """

    def __init__(self, send: Callable[[str], None] | None = None) -> None:
        """Hand each message to `send`, in a thread of its own; without it words are dropped."""
        self.text, self._send = "", send
        self._last = -_QUIET

    @property
    def takes_messages(self) -> bool:
        """Whether words that are typed reach somebody."""
        return self._send is not None

    @contextmanager
    def listen(self) -> Iterator[None]:
        """Read keys for the length of a block."""
        from prompt_toolkit.input import create_input  # noqa: PLC0415 - pipes do without it
        from prompt_toolkit.input.typeahead import get_typeahead  # noqa: PLC0415 - see above

        source, is_over = create_input(), threading.Event()
        self.handle_keys(get_typeahead(source))
        reader = threading.Thread(target=self._read_keys, args=(source, is_over), daemon=True)
        with source.raw_mode():
            reader.start()
            try:
                yield
            finally:
                is_over.set()
                reader.join()

    def settle(self) -> None:
        """Wait where somebody is just typing, and drop it: it was not meant for the question."""
        if time.monotonic() - self._last < _QUIET:
            listener = Keyboard()
            with listener.listen():
                time.sleep(_QUIET)

    def drain_text(self) -> str:
        """What is typed and not sent yet; it is not kept."""
        text, self.text = self.text, ""
        return text

    def _read_keys(self, source: "Input", is_over: threading.Event) -> None:
        is_last = False
        while not (is_last or source.closed):
            is_last = is_over.is_set()  # what came until then is read, too
            if select.select([source.fileno()], [], [], 0 if is_last else _LOOKS)[0]:
                keys = source.read_keys()
                self._last = time.monotonic()
                for press in keys:
                    if name := _SIGNALS.get(press.key):
                        with source.cooked_mode():
                            os.kill(os.getpid(), signal.Signals[name])
                self.handle_keys(keys)

    def handle_keys(self, keys: Sequence["KeyPress"]) -> None:
        """Take keys that came together: an Enter among them is a pasted line's, the last sends."""
        if self._send is None:
            return
        for press in keys:
            self.text = _type_key(self.text, press.key)
        if keys and keys[-1].key in _ENTERS and (message := self.drain_text().strip()):
            self._send(message)


def _type_key(text: str, key: str) -> str:
    """The text after a key; one that edits nothing changes nothing."""
    if key == "c-h":
        return text[:-1]
    if key == "c-w":
        return re.sub(r"\S*\s*$", "", text)
    if key == "c-u":
        return ""
    if key in _ENTERS:
        return text + "\n"
    return text + key if len(key) == 1 and key.isprintable() else text

"""What is typed while a turn runs: a row of its own under the view, and a message at Enter."""

import codecs
import os
import re
import select
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from .terminal import disable_echo

if sys.platform != "win32":
    import termios

_LOOKS: Final = 0.1
_QUIET: Final = 1.0
"""Seconds without a key after which whoever typed has seen the question."""
_ESCAPES: Final = re.compile(r"\x1b(?:[\[O][0-9;?]*[ -/]*[@-~]|.)?")
_BACK, _WORD, _LINE = "\x7f\b", "\x17", "\x15"


class Keyboard:
    """The keys of a terminal, read while the view is drawn.

    Attributes:
        text: What is typed and not sent yet; it outlives the turn.
    """

    def __init__(self, heard: Callable[[str], None]) -> None:
        """Hand each message to `heard`, which is called in a thread of its own."""
        self.text, self._heard = "", heard
        self._last = -_QUIET

    @contextmanager
    def listen(self) -> Iterator[None]:
        """Read keys for the length of a block."""
        over = threading.Event()
        reader = threading.Thread(target=self._read_keys, args=(over,), daemon=True)
        with disable_echo(by_key=True):
            reader.start()
            try:
                yield
            finally:
                over.set()
                reader.join()

    def settle(self) -> None:
        """Wait where somebody is just typing, and drop it: it was not meant for the question."""
        if time.monotonic() - self._last < _QUIET:
            time.sleep(_QUIET)
            termios.tcflush(sys.stdin, termios.TCIFLUSH)

    def drain_text(self) -> str:
        """What is typed and not sent yet; it is not kept."""
        text, self.text = self.text, ""
        return text

    def _read_keys(self, over: threading.Event) -> None:
        decoder, source = codecs.getincrementaldecoder("utf-8")("replace"), sys.stdin.fileno()
        while not over.is_set():
            if not select.select([source], [], [], _LOOKS)[0]:
                continue
            try:
                data = os.read(source, 4096)
            except OSError:
                return
            if not data:  # the terminal is gone
                return
            self._last = time.monotonic()
            self.handle_keys(decoder.decode(data))

    def handle_keys(self, keys: str) -> None:
        """Take keys that came together: an Enter among them is a pasted line's, the last sends."""
        keys = _ESCAPES.sub("", keys).replace("\r", "\n")
        for key in keys.removesuffix("\n"):
            if key in _BACK:
                self.text = self.text[:-1]
            elif key == _WORD:
                self.text = re.sub(r"\S*\s*$", "", self.text)
            elif key == _LINE:
                self.text = ""
            elif key == "\n" or key.isprintable():
                self.text += key
        if keys.endswith("\n") and (message := self.drain_text().strip()):
            self._heard(message)

"""A command on a pseudo-terminal: what is typed, and what the screen was sent."""

import errno
import os
import pty
import select
import time

from support.forked import Command, server
from support.patience import PATIENCE


class Terminal:
    """A process on a pseudo-terminal of 100 columns and 30 rows."""

    def __init__(self, *args, **env):
        self.fd, self.other = pty.openpty()
        size = {"TERM": "xterm-256color", "COLUMNS": "100", "LINES": "30"}
        self.process = self.start(args, os.environ | size | env, os.ttyname(self.other))
        self.seen = ""

    def start(self, args, env, path):
        return Command(server(), args, env=env, terminal=path)

    def read(self, seconds):
        """Read what has come within the time; False once the process has closed its end."""
        if not select.select([self.fd], [], [], seconds)[0]:
            if self.process.poll() is not None:
                self.let_go()
            return True
        try:
            data = os.read(self.fd, 65536)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            return False
        self.let_go()
        self.seen += data.decode("utf-8", "replace")
        return bool(data)

    def let_go(self):
        """Close the process's end here, which is open so that it is open at all until it starts."""
        if self.other is not None:
            os.close(self.other)
            self.other = None

    def wait_for(self, text, seconds=PATIENCE):
        deadline = time.monotonic() + seconds
        while text not in self.seen:
            assert time.monotonic() < deadline, self.seen
            assert self.read(0.2) or text in self.seen, self.seen

    def wait_for_prompt(self):
        """Wait until a prompt reads keys: it turns bracketed paste on, and off when it ends."""
        while self.seen.rfind("\x1b[?2004h") <= self.seen.rfind("\x1b[?2004l"):
            assert self.read(0.2), self.seen

    def type(self, line):
        self.press(f"{line}\n")

    def press(self, keys):
        """Type keys as they are."""
        self.seen = ""
        os.write(self.fd, keys.encode())

    def end(self, seconds=PATIENCE):
        """Read to the end; the exit code."""
        deadline = time.monotonic() + seconds
        while self.read(0.2):
            assert time.monotonic() < deadline, self.seen
        os.close(self.fd)
        code = self.process.wait(timeout=seconds)
        self.process.close()
        return code

"""Ends the processes that this one has started when it dies, even by SIGKILL.

A killed process cannot end its MCP servers and hooks, and many go on when their input is closed. So
a shell runs beside it, started with the first of them. It holds a pipe that closes when the process
dies, and then ends the remaining groups.
"""

import os
import signal
import subprocess
import threading
from contextlib import suppress
from typing import Final

KILL: Final = getattr(signal, "SIGKILL", signal.SIGTERM)

_SCRIPT: Final = """
trap '' HUP INT TERM
exec 3<&0
(
groups=' '
while read -r sign group; do
  case $sign in
    +) groups="$groups$group " ;;
    -) groups="${groups%% $group *} ${groups#* $group }" ;;
  esac
done
[ -n "${groups# }" ] || exit 0
sleep 2
for group in $groups; do kill -s TERM -- "-$group"; done
sleep 1
for group in $groups; do kill -s KILL -- "-$group"; done
) <&3 >/dev/null 2>&1 &
"""
"""Reads `+ group` and `- group` line by line; they get the time that `tools/mcp/stdio.py` gives."""


class _Watch:
    """The pipe to the shell; safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pipe: int | None = None

    def tell(self, line: str) -> None:
        """Write a line; where the shell is gone, another one is started for it."""
        with self._lock:
            for _ in range(2):
                try:
                    if self._pipe is None:
                        self._pipe = _start_shell()
                    os.write(self._pipe, line.encode())
                except OSError:
                    self.forget()
                else:
                    return

    def forget(self) -> None:
        """Close our end; a forked child must not keep its parent's shell waiting."""
        if self._pipe is not None:
            with suppress(OSError):
                os.close(self._pipe)
        self._pipe = None

    def after_fork(self) -> None:
        """In a forked child: the lock may be held by nobody."""
        self._lock = threading.Lock()
        self.forget()


def _start_shell() -> int:
    """Start the shell, detached from us; returns the end to write to."""
    ours, theirs = (os.pipe())[::-1]
    try:
        subprocess.run(
            ["/bin/sh", "-c", _SCRIPT],
            stdin=theirs, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True, check=False,
        )  # fmt: skip
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(theirs)
    return ours


_watch: Final = _Watch()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_watch.after_fork)


def adopt(group: int) -> None:
    """Let a server's process group end with this process. May block for a moment."""
    if os.name == "posix":
        _watch.tell(f"+ {group}\n")


def release(group: int) -> None:
    """Forget an ended group: its number may be used again. May block for a moment."""
    if os.name == "posix":
        _watch.tell(f"- {group}\n")


def signal_group(group: int, number: int) -> bool:
    """Signal a process group; says whether it still has members."""
    if not hasattr(os, "killpg"):  # where there are no groups, closing the transport ends the one
        return False
    try:
        os.killpg(group, number)
    except OSError:
        return False
    return True

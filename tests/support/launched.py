"""Servers and programs in processes forked from one that did the imports; see `support.forked`.

Who starts one starts a launcher in the place of the interpreter. It hands its streams,
arguments, environment and folder over a socket, passes signals on, and ends with the server's exit
code as soon as that has ended. Once the launcher is gone the server is killed.
"""

import atexit
import gc
import os
import runpy
import signal
import socket
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import NoReturn

SERVERS = ("loopwright.servers.workspace",)
# Of the standard library only what is built in: to start this costs a fiftieth of a server's start.
# With arguments that name no server and no program it is the interpreter.
_LAUNCHER = """
import os, sys
from _signal import SIGINT, SIGTERM, signal
from _socket import AF_UNIX, SCM_RIGHTS, SOCK_STREAM, SOL_SOCKET, socket
args = sys.argv[1:]
if args[:1] == ["-P"]:
    args = args[1:]
named = args[:1] == ["-c"] or args[:1] == ["-m"] and args[1] in SERVERS
if not (named or args and args[0].endswith(".py")):
    os.execv(PYTHON, [PYTHON, *sys.argv[1:]])
end = socket(AF_UNIX, SOCK_STREAM)
end.connect(SOCKET)
told = [os.getcwd(), str(len(args)), *args, *(f"{k}={v}" for k, v in os.environ.items())]
data = b"\\0".join(map(os.fsencode, told))
rights = b"".join(n.to_bytes(4, sys.byteorder) for n in (0, 1, 2))
end.sendmsg([len(data).to_bytes(4, "big")], [(SOL_SOCKET, SCM_RIGHTS, rights)])
end.sendall(data)
served = int.from_bytes(end.recv(4), "big")
for number in (SIGINT, SIGTERM):
    signal(number, lambda number, _: os.kill(served, number))
nothing = os.open(os.devnull, os.O_RDWR)
for number in (0, 1, 2):
    os.dup2(nothing, number)
code = b""
while more := end.recv(1):
    code = more
sys.exit(code[0] if code else 1)
"""


def listening(launcher: str) -> socket.socket:
    """Write the launcher; the socket on which it asks."""
    path = f"{launcher}.socket"
    asked = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    asked.bind(path)
    asked.listen(64)
    known = f"PYTHON, SOCKET, SERVERS = {sys.executable!r}, {path!r}, {SERVERS!r}"
    Path(launcher).write_text(f"#!{sys.executable} -IS\n{known}{_LAUNCHER}", encoding="utf-8")
    Path(launcher).chmod(0o700)
    return asked


def run_and_end(run: Callable[[], object]) -> NoReturn:
    """Do it, and end as an interpreter ends that then exits, but without taking modules apart.

    They are its parent's: to copy and drop them took ten times as long as all else of a fork.
    """
    code: int | None = None
    try:
        run()
    except SystemExit as left:
        if not isinstance(left.code, int | None):
            raise
        code = left.code
    threading._shutdown()  # type: ignore[attr-defined]  # as the interpreter calls it
    atexit._run_exitfuncs()
    gc.collect()  # what was left unfinished says so
    for stream in (sys.stdout, sys.stderr):
        if not stream.closed:
            stream.flush()
    os._exit((code or 0) & 0xFF)


def host(end: socket.socket) -> NoReturn:
    """Run a server in this process, as the launcher at the other end asks."""
    run_and_end(partial(_host, end))


def _host(end: socket.socket) -> None:
    os.setsid()
    args = _taken_over(end)
    end.sendall(os.getpid().to_bytes(4, "big"))
    threading.Thread(target=_die_with, args=(end,), daemon=True).start()
    code = 1
    try:
        _run(args)
        code = 0
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else int(bool(left.code))
        raise
    finally:
        end.send(bytes([code]))


def _die_with(launcher: socket.socket) -> None:
    launcher.recv(1)
    os.kill(os.getpid(), signal.SIGKILL)


def _taken_over(end: socket.socket) -> list[str]:
    """Take the launcher's streams, folder and environment; the arguments."""
    head, streams, _, _ = socket.recv_fds(end, 4, 3)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    with end.makefile("rb") as handed:
        told = handed.read(int.from_bytes(head, "big")).split(b"\0")
    folder, count, *rest = map(os.fsdecode, told)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - until the process ends
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", 1, encoding="utf-8", closefd=False)  # noqa: SIM115
    os.environ.clear()
    os.environ.update(dict(name.split("=", 1) for name in rest[int(count) :]))
    os.chdir(folder)
    return rest[: int(count)]


def _run(args: list[str]) -> None:
    if args[0] == "-m":
        sys.argv = args[1:]
        del sys.modules[args[1]]
        runpy.run_module(args[1], run_name="__main__", alter_sys=True)
    elif args[0] == "-c":
        sys.argv = ["-c", *args[2:]]
        sys.path.insert(0, "")
        sys.modules["__main__"] = main = ModuleType("__main__")
        exec(compile(args[1], "<string>", "exec"), vars(main))
    else:
        sys.argv = args
        sys.path.insert(0, str(Path(args[0]).parent))
        runpy.run_path(args[0], run_name="__main__")

"""The `loopwright` command, and programs, in real processes forked from one that did the imports.

Each process has its own streams or terminal, environment, folder, signals and exit code, and ends
as an interpreter ends. It only does not read and import the same hundreds of modules once more, nor
take them apart.

So do MCP servers over stdio that are started with `ForkServer.python`, an interpreter which hands
its streams, environment and folder to a process that is forked; see `support.launched`.
"""

import atexit
import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import warnings
import weakref
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import IO, Any, NoReturn, Self, TextIO

from support import launched

# As in `support.patience`, which this program would import for the tests alone.
PATIENCE = 300.0
_PATHS = (str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")]))
COMMAND = (sys.executable, "-c", "from loopwright.cli import app; app(prog_name='loopwright')")
# What stands below the graphs; these look around as they are imported: `graphs.build`, for one,
# keeps the folder that it was started in.
PRELOADED = (
    "anyio._backends._asyncio", "langchain_openai", "mcp.client.stdio", "rich.live",
    "rich.markdown",
    "loopwright.store.durability", "loopwright.run.graph", "loopwright.models.choice",
    "loopwright.calls.path", "loopwright.calls.toolbox", "loopwright.tools.mcp.session",
    "loopwright.models.offline.model", "loopwright.models.sampling", "loopwright.prompts.company",
    "loopwright.store.foreign_savers", "loopwright.stream.replay", "loopwright.graphs.options",
    "loopwright.graphs.registry", "loopwright.graphs.tapes", "loopwright.cli.app",
    "loopwright.cli.approvals", "loopwright.cli.progress", "loopwright.cli.threads",
    "loopwright.cli.view",
)  # fmt: skip
ROOM = "loopwright.nodes"


class ForkServer:
    """The process that has imported everything; one thread of the tests speaks to it."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self.python = str(Path(self._folder.name, "python"))
        """An interpreter in whose place MCP servers are forked."""
        with launched.listening(self.python) as asked:
            self.process = subprocess.Popen(
                [sys.executable, str(Path(__file__)), self.python, str(asked.fileno())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(_PATHS)},
                pass_fds=[asked.fileno()],
            )
        # Until its imports are done: who starts a server has a deadline for it.
        _pipe(self.process.stdout).readline()

    def ask(self, **request: Any) -> Any:
        """Send a request; what the process answers."""
        asks, answers = _pipe(self.process.stdin), _pipe(self.process.stdout)
        asks.write(json.dumps(request).encode() + b"\n")
        asks.flush()
        return json.loads(answers.readline())

    def close(self) -> None:
        """End the process."""
        _pipe(self.process.stdin).close()
        self.process.wait()
        _pipe(self.process.stdout).close()
        self._folder.cleanup()


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None
    return stream


@dataclass
class Done:
    """How a command has ended."""

    returncode: int
    stdout: str
    stderr: str


class Command:
    """A running command.

    Args:
        server: Whom it is forked from.
        args: Its arguments.
        stdin: What it reads.
        env: Its whole environment.
        terminal: A terminal for all of its streams, instead of files.
        script: A program to run instead of the command; a warning ends it.
        reads: A pipe that it reads instead of `stdin`.
        writes: A pipe that it writes instead of a file.
    """

    def __init__(
        self,
        server: ForkServer,
        args: tuple[str, ...],
        *,
        stdin: str = "",
        env: Mapping[str, str],
        terminal: str = "",
        script: Path | None = None,
        reads: Path | None = None,
        writes: Path | None = None,
    ) -> None:
        self._server = server
        folder = tempfile.mkdtemp()
        # Dropped without a warning, which would fail the test after one that left it open.
        self._drop = weakref.finalize(self, shutil.rmtree, folder)
        self._streams = [Path(folder, name) for name in ("in", "out", "err")]
        self._streams[0].write_text(stdin, encoding="utf-8")
        read, wrote, wrong = self._streams
        streams = [str(path) for path in (reads or read, writes or wrote, wrong)]
        self.returncode: int | None = None
        self.pid: int = server.ask(
            args=args,
            env=dict(env),
            cwd=str(Path.cwd()),
            streams=[terminal] * 3 if terminal else streams,
            terminal=bool(terminal),
            script=str(script or ""),
        )

    def poll(self) -> int | None:
        """Its exit code, once it has ended; negative for a signal."""
        if self.returncode is None:
            self.returncode = self._server.ask(ended=self.pid)
        return self.returncode

    def wait(self, timeout: float = PATIENCE) -> int:
        """Its exit code, after its end."""
        deadline = time.monotonic() + timeout
        while (code := self.poll()) is None:
            assert time.monotonic() < deadline, f"still running after {timeout} s: {self.said()}"
            time.sleep(0.01)
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def communicate(self, timeout: float) -> tuple[str, str]:
        """What it has written to its two streams, after its end."""
        self.wait(timeout)
        return self.said()

    def said(self) -> tuple[str, str]:
        """What it has written to its two streams until now."""
        _, out, err = (path.read_text() if path.exists() else "" for path in self._streams)
        return out, err

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def kill(self) -> None:
        """Kill it, if it still runs."""
        self.send_signal(9)
        self.wait(PATIENCE)

    def close(self) -> None:
        """Kill it, if it still runs, and drop what it wrote."""
        self.kill()
        self._drop()


class Program(Command):
    """A running program with pipes for its input and its output, as `subprocess.Popen` has them."""

    def __init__(self, code: str, *args: str) -> None:
        self._folder = tempfile.TemporaryDirectory()
        names = ("program.py", "in", "out")
        script, reads, writes = (Path(self._folder.name, name) for name in names)
        script.write_text(code, encoding="utf-8")
        os.mkfifo(reads)
        os.mkfifo(writes)
        about: Any = {"script": script, "reads": reads, "writes": writes}
        super().__init__(server(), args, env=os.environ, **about)
        self.stdin, self.stdout = reads.open("w"), writes.open()

    def close(self) -> None:
        """Kill it, if it still runs, and close its pipes."""
        super().close()
        self.stdout.close()
        with suppress(BrokenPipeError):
            self.stdin.close()
        self._folder.cleanup()


@cache
def server() -> ForkServer:
    """The one of this test process; it lives as long as the tests do."""
    started = ForkServer()
    atexit.register(started.close)
    return started


def _serve(python: str, listening: str) -> None:
    """Fork for each request, until nobody can send another."""
    asked, hosts = socket.socket(fileno=int(listening)), list[int]()
    _answer("imported")
    while ready := select.select([sys.stdin.buffer, asked], [], [])[0]:
        if asked in ready:
            hosts = [pid for pid in hosts if not os.waitpid(pid, os.WNOHANG)[0]]
            hosts.append(_hosted(asked))
        if sys.stdin.buffer in ready:
            if not (line := sys.stdin.buffer.readline()):
                return
            request = json.loads(line)
            if "ended" in request:
                _answer(_exit_code(request["ended"]))
            elif pid := os.fork():
                _answer(pid)
            else:
                asked.close()
                sys.executable = python
                launched.run_and_end(partial(_become, request))


def _hosted(asked: socket.socket) -> int:
    """The process that serves whoever asks next."""
    end, _ = asked.accept()
    with end:
        if not (pid := os.fork()):
            asked.close()
            launched.host(end)
    return pid


def _exit_code(pid: int) -> int | None:
    found, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if found else None


def _answer(value: Any) -> None:
    sys.stdout.buffer.write(json.dumps(value).encode() + b"\n")
    sys.stdout.buffer.flush()


def _become(request: dict[str, Any]) -> None:
    """Run the command in this process, and leave it by the command's own end."""
    os.setsid()
    flags = (os.O_RDWR,) * 3 if request["terminal"] else (os.O_RDONLY, *_NEW)
    for number, (path, flag) in enumerate(zip(request["streams"], flags, strict=True)):
        opened = os.open(path, flag, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - until the process ends
    sys.stdout = _line_by_line(1, "strict")
    sys.stderr = _line_by_line(2, "backslashreplace")
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    _run(request["script"], list(request["args"]))


def _run(script: str, args: list[str]) -> NoReturn:
    if not script:
        from loopwright.cli import app  # noqa: PLC0415 - the tests import this file without it

        sys.exit(app(args, prog_name="loopwright"))
    warnings.simplefilter("error")
    sys.argv = [script, *args]
    sys.path.insert(0, str(Path(script).parent))
    runpy.run_path(script, run_name="__main__")
    sys.exit()


def _line_by_line(number: int, errors: str) -> TextIO:
    return open(number, "w", 1, "utf-8", errors, closefd=False)


_NEW = (os.O_WRONLY | os.O_CREAT | os.O_TRUNC,) * 2


if __name__ == "__main__":
    sys.path.pop(0)
    nodes = pkgutil.walk_packages(importlib.import_module(ROOM).__path__, f"{ROOM}.")
    for name in (*PRELOADED, *launched.SERVERS, *(module.name for module in nodes)):
        importlib.import_module(name)
    # A collection in a child would touch, and so copy, all the memory it shares.
    gc.collect()
    gc.freeze()
    launched.run_and_end(partial(_serve, *sys.argv[1:]))

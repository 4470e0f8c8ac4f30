"""Hooks that are commands: JSON on stdin; JSON, text and an exit code back. See docs/hooks.md."""

import asyncio
import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Unpack

from ..state.errors import SettingsError
from ..state.limits import LIMITS, explain_excess
from ..store.base.process_groups import KILL, adopt, release, signal_group
from ..text.secrets import Secrets, find_argument_secrets, find_secrets
from ..text.sentences import say
from .contract import Hook, HookEvent, HookInput, HookOptions, HookOutput, UnreadableOutput

_TAIL: Final = 4_000
"""Bytes of the end of stderr that are read."""
_LAST_OUTPUT: Final = 0.2
"""Seconds: what a command has left behind may hold its output open for ever."""
_BLOCKS: Final = 2
"""The exit code."""
_PLAIN_PROGRAM: Final = re.compile(r"[\w./+-]+")


@dataclass(frozen=True)
class Command:
    """Runs a command for each input: a text in the shell, a list without one."""

    command: str | tuple[str, ...]
    env: Mapping[str, str]

    async def __call__(self, given: HookInput) -> HookOutput | str | None:
        """Give it the input and read what it says.

        Raises:
            UnreadableOutput: It failed, or said what cannot be read; a note has its last words.
        """
        data = json.dumps(given, default=str)
        if why := explain_excess("hook", data):
            raise UnreadableOutput(say("hook_input_refused", why=why))
        process = await self._run(data.encode(), given["cwd"])
        words = self.mask(process.stderr.decode(errors="replace").strip())
        if process.code == _BLOCKS:
            return {"decision": "deny", "reason": words}
        if process.code:
            failure = UnreadableOutput(say("hook_exit_code", code=process.code))
            if words:
                failure.add_note(words[-300:])
            raise failure
        return _read_text(bytes(process.stdout))

    def mask(self, text: str) -> str:
        """Words without the secrets of its command line, of its variables and of ours."""
        words = self.command.split() if isinstance(self.command, str) else self.command
        secrets = Secrets([*find_argument_secrets(words), *find_secrets(self.env.items())])
        return secrets.mask_words(text)

    async def _run(self, data: bytes, folder: str) -> "_Process":
        """Run it in a process group of its own, of which nothing is left at the end."""
        loop = asyncio.get_running_loop()
        start: Any = (
            partial(loop.subprocess_shell, _Process, self.command)
            if isinstance(self.command, str)
            else partial(loop.subprocess_exec, _Process, *self.command)
        )
        kept = {n: v for n, v in os.environ.items() if not any(find_secrets([(n, v)]))}
        folders = dict.fromkeys(("CLAUDE_PROJECT_DIR", "GEMINI_PROJECT_DIR"), folder)
        work = start(
            env=kept | folders | dict(self.env), cwd=folder or None, start_new_session=True
        )
        starting = asyncio.ensure_future(work)
        try:
            await asyncio.wait(
                [starting]
            )  # never cancelled: asyncio would end it without its group
            transport, process = starting.result()
            pipe = transport.get_pipe_transport(0)
            if not pipe.is_closing():  # it has not ended yet
                pipe.write(data)
                pipe.close()
            await asyncio.to_thread(adopt, transport.get_pid())
            await process.ended.wait()
            process.code = transport.get_returncode()
            return process  # type: ignore[no-any-return]  # of the one that `start` made
        finally:
            await asyncio.wait([starting])
            if not starting.exception():
                await _end(*starting.result())


async def _end(transport: Any, process: "_Process") -> None:
    """Leave nothing of the process, its group and its pipes."""
    group, pipe = transport.get_pid(), transport.get_pipe_transport(0)
    signal_group(group, KILL)
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(_LAST_OUTPUT):
                await process.exited.wait()
    finally:
        if pipe.get_write_buffer_size():  # nobody reads the rest
            pipe.abort()
        transport.close()
        with suppress(RuntimeError):  # the interpreter ends, and its threads take no more work
            asyncio.get_running_loop().run_in_executor(None, release, group)


class _Process(asyncio.SubprocessProtocol):
    """Collects what a process writes, up to its end or to the limit."""

    def __init__(self) -> None:
        self.stdout, self.stderr = bytearray(), bytearray()
        self.exited, self.ended = asyncio.Event(), asyncio.Event()
        self.code: int | None = None

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 1:
            self.stdout += data
            if len(self.stdout) > LIMITS["hook"].bytes:
                self.ended.set()
        else:
            self.stderr += data
            del self.stderr[:-_TAIL]

    def process_exited(self) -> None:
        self.exited.set()
        asyncio.get_running_loop().call_later(_LAST_OUTPUT, self.ended.set)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        self.ended.set()


def _read_text(output: bytes) -> HookOutput | str | None:
    """What was written: an object is an output, other text a message."""
    why = explain_excess("hook", output)
    try:
        text = "" if why else output.decode("utf-8-sig").strip()
        said: HookOutput | str = json.loads(text) if text.startswith("{") else text
    except (ValueError, RecursionError):  # also bytes that are no UTF-8
        raise UnreadableOutput(say("hook_output_no_json")) from None
    if why := why or explain_excess("hook", said):
        raise UnreadableOutput(say("hook_output_refused", why=why))
    return said


def command_hook(
    event: HookEvent,
    command: str | Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    **options: Unpack[HookOptions],
) -> Hook:
    """Make a hook of a command: input on stdin, output on stdout; exit code 2 denies.

    Args:
        event: As in `Hook`.
        command: A text for the shell, or a list of the program and its arguments.
        env: Variables for it besides ours, of which it gets those without secrets.
        options: As in `Hook`.

    Raises:
        SettingsError: There is no such program, or an option is wrong.
    """
    run = Command(command if isinstance(command, str) else tuple(command), dict(env or {}))
    words = run.command if isinstance(run.command, str) else shlex.join(run.command)
    if problem := _find_problem(run.command):
        msg = f"The command of the {event} hook {problem}."
        raise SettingsError(msg)
    options["name"] = options.get("name") or run.mask(words)[:80]
    return Hook(event=event, run=run, **options)


def _find_problem(command: str | tuple[str, ...]) -> str:
    """Why it can never run; "" where only running it can tell."""
    words = command.split() if isinstance(command, str) else command
    if not words or not words[0]:
        return "is empty"
    program = words[0]
    if shutil.which(program):
        return ""
    if isinstance(command, str):
        if os.name != "posix" or not _PLAIN_PROGRAM.fullmatch(program):
            return ""  # what the shell makes of it is not known
        known = ["/bin/sh", "-c", 'command -v -- "$1"', "sh", program]
        if "/" not in program and not subprocess.run(known, capture_output=True).returncode:
            return ""
    return f"names a program that is not there or may not be run: {program!r}"

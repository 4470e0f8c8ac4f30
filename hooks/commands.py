"""Hooks that are commands: JSON on stdin; JSON, text and an exit code back. See docs/hooks.md.

Files of them have the format of Claude Code and gemini-cli.
"""

import json
import os
import shlex
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Final, Literal, Unpack

from pydantic import BaseModel, Field, ValidationError

from ..state.errors import SettingsError
from ..state.limits import LIMITS, explain_excess, read_file
from ..store.base.process_groups import KILL, adopt, release, signal_group
from ..text.secrets import Secrets, find_argument_secrets
from ..text.sentences import say
from .contract import Hook, HookEvent, HookInput, HookOptions, HookOutput, UnreadableOutput
from .threads import call_in_thread

_BLOCKS: Final = 2
"""The exit code."""
_BETWEEN_LOOKS: Final = 0.02
"""Seconds."""

_NAMES_OF_CLAUDE: Final[dict[str, Any]] = {
    "PreToolUse": "BeforeTool",
    "PostToolUse": "AfterTool",
    "UserPromptSubmit": "BeforeAgent",
    "Stop": "AfterAgent",
    "PreCompact": "PreCompress",
}


@dataclass(frozen=True)
class Command:
    """Runs a command for each input: a text in the shell, a list without one."""

    command: str | tuple[str, ...]

    async def __call__(self, given: HookInput) -> HookOutput | str | None:
        """Give it the input and read what it says.

        Raises:
            UnreadableOutput: It said what cannot be read.
            SubprocessError: It failed; with its last words.
        """
        is_over, data = threading.Event(), json.dumps(given, default=str).encode()
        try:
            code, output, tail = await call_in_thread(self._run, data, given["cwd"], is_over)
        finally:
            is_over.set()
        words = self.mask(tail.decode(errors="replace").strip())
        if code == _BLOCKS:
            return {"decision": "deny", "reason": words}
        said = _read_text(output)
        if code:
            msg = f"exit code {code}; {words[-300:]}"
            raise subprocess.SubprocessError(msg)
        return said

    def mask(self, text: str) -> str:
        """Words without the secrets of its command line and of our variables."""
        words = self.command.split() if isinstance(self.command, str) else self.command
        return Secrets(find_argument_secrets(words)).mask_words(text)

    def _run(self, data: bytes, folder: str, is_over: threading.Event) -> tuple[int, bytes, bytes]:
        """Its exit code, stdout and the end of stderr; of its process group nothing is left.

        They are files, for what it leaves behind may hold pipes open for ever.
        """
        most = LIMITS["hook"].bytes
        with TemporaryFile() as given, TemporaryFile() as output, TemporaryFile() as words:
            given.write(data)
            given.seek(0)
            process = subprocess.Popen(
                self.command, shell=isinstance(self.command, str), cwd=folder or None,
                env=os.environ | {"CLAUDE_PROJECT_DIR": folder},
                stdin=given, stdout=output, stderr=words, start_new_session=True,
            )  # fmt: skip
            try:
                adopt(process.pid)
                while process.poll() is None and not is_over.wait(_BETWEEN_LOOKS):
                    if any(os.fstat(one.fileno()).st_size > most for one in (output, words)):
                        break
            finally:
                signal_group(process.pid, KILL)
                process.kill()
                code = process.wait()
                release(process.pid)
            output.seek(0)
            words.seek(max(0, os.fstat(words.fileno()).st_size - 4_000))
            return code, output.read(most + 1), words.read(4_000)


def _read_text(output: bytes) -> HookOutput | str:
    """What was written: an object is an output, other text a message."""
    if why := explain_excess("hook", output):
        raise UnreadableOutput(say("hook_output_refused", why=why))
    try:
        text = output.decode("utf-8-sig").strip()
        return json.loads(text) if text.startswith("{") else text
    except (ValueError, RecursionError):  # also bytes that are no UTF-8
        raise UnreadableOutput(say("hook_output_no_json")) from None


def command_hook(
    event: HookEvent, command: str | Sequence[str], **options: Unpack[HookOptions]
) -> Hook:
    """Make a hook of a command: input on stdin, output on stdout; exit code 2 denies.

    A text runs in the shell, a list of a program and its arguments without one. The options are
    those of `Hook`; a wrong one is a SettingsError.
    """
    run = Command(command if isinstance(command, str) else tuple(command))
    words = run.command if isinstance(run.command, str) else shlex.join(run.command)
    options["name"] = options.get("name") or run.mask(words)[:80]
    return Hook(event=event, run=run, **options)


class _Entry(BaseModel, extra="forbid"):
    """One command; `onError` is ours."""

    type: Literal["command"]
    command: str
    name: str = ""
    description: str = ""
    timeout: float = Field(60.0, lt=1_000)  # seconds, not milliseconds
    on_error: Literal["open", "closed"] = Field("open", alias="onError")


class _Group(BaseModel, extra="forbid"):
    """Commands that run for the same tools."""

    matcher: str = ""
    sequential: bool = False
    hooks: list[_Entry]


class _File(BaseModel):
    """All but the hooks is for other programs."""

    hooks: dict[str, list[_Group]]


def read_hook_file(path: str | Path) -> list[Hook]:
    """The hooks of a file, in its order.

    Raises:
        SettingsError: It cannot be read, or holds what no hook has.
    """
    try:
        given = _File.model_validate_json(read_file(Path(path), "settings"))
        return [
            command_hook(
                _NAMES_OF_CLAUDE.get(event, event),
                match=group.matcher,
                sequential=group.sequential,
                **entry.model_dump(exclude={"type", "description"}),
            )
            for event, groups in given.hooks.items()
            for group in groups
            for entry in group.hooks
        ]
    except ValidationError as error:  # of its values nothing is told: they may be secret
        first = error.errors(include_url=False, include_input=False)[0]
        why = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    except (OSError, UnicodeError, SettingsError) as error:
        why = str(error)
    msg = f"The hooks file {str(path)!r} cannot be used: {why}"
    raise SettingsError(msg)

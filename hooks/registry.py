"""All hooks of a graph: run by event, each with a deadline, and merged into one verdict."""

import asyncio
import copy
import inspect
import logging
import os
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

from langchain_core.runnables.config import var_child_runnable_config
from langgraph.errors import GraphBubbleUp

from ..state.context import Emit, OpenSession, Session
from ..state.errors import SettingsError
from ..store.base.recordings import TAPE
from ..text.secrets import read_own_secrets
from ..text.sentences import say
from .commands import read_hook_file
from .contract import (
    MATCHED,
    NOTHING,
    Hook,
    HookCallable,
    HookEvent,
    Output,
    UnreadableOutput,
    Verdict,
    merge_outputs,
    read_output,
    update_fields,
)
from .threads import call_in_thread

log = logging.getLogger(__name__)


def current_folder() -> str:
    """The working directory; call it at import, since file access would block an event loop."""
    try:
        return os.getcwd()
    except OSError:  # deleted under the process
        return ""


_STARTED_IN: Final = current_folder()


class Hooks:
    """The hooks of a graph; `events` are those that some hook listens to."""

    def __init__(self, hooks: str | Path | Iterable[Hook] = ()) -> None:
        """Keep the hooks in their order, also those of a file; one given twice runs once."""
        self._hooks: list[Hook] = []  # a callable need not be hashable, so no set
        for hook in read_hook_file(hooks) if isinstance(hooks, str | Path) else hooks:
            if not isinstance(hook, Hook):
                msg = (
                    f"hooks takes Hook objects, not a {type(hook).__name__}: write"
                    " Hook(event=..., run=...), or put @hook(event) above the function."
                )
                raise SettingsError(msg)
            if hook not in self._hooks:
                self._hooks.append(hook)
        self._tape = TAPE.get()
        self.events = frozenset(hook.event for hook in self._hooks)

    def exclude(self, *events: HookEvent) -> "Hooks":
        """These hooks without those of some events."""
        fewer = Hooks(hook for hook in self._hooks if hook.event not in events)
        fewer._tape = self._tape
        return fewer

    async def fire(
        self, event: HookEvent, *, emit: Emit | None = None, thread: str = "", **fields: Any
    ) -> Verdict:
        """Run the event's hooks and merge their outputs; a pause of the graph passes through.

        `emit` gets a `hook` event for each hook, and a `warning` for each that failed. `fields`
        are the event's own input keys.
        """
        value = str(fields.get(MATCHED.get(event, ""), ""))
        hooks = [hook for hook in self._hooks if hook.event == event and hook.matches(value)]
        if not hooks:
            return NOTHING
        given = _build_common_fields(event, thread) | fields
        run_all = _run_in_sequence if any(hook.sequential for hook in hooks) else _run_parallel

        async def run_hooks() -> Verdict:
            runs = await run_all(hooks, given)
            for run in runs:
                run.emit_result(emit)
            warnings = [run.warning for run in runs if run.failed]
            return merge_outputs(event, given, [run.output for run in runs], warnings)

        if self._tape is None:
            return await run_hooks()
        about = [event, value, fields.get("tool_input")]
        verdict: Verdict = await self._tape.hear_hooks(given["session_id"], about, run_hooks)
        return verdict


def make_session_opener(hooks: Hooks) -> OpenSession | None:
    """What surrounds every run of a graph; None if no hook listens to sessions."""
    return partial(_open_session, hooks) if hooks.events & {"SessionStart", "SessionEnd"} else None


@asynccontextmanager
async def _open_session(hooks: Hooks, thread: str, source: str) -> AsyncIterator[Session]:
    """Run the hooks of the session's start and end; the reason is `other` after an error."""
    started = await hooks.fire("SessionStart", thread=thread, source=source)
    reason = "other"
    try:
        yield Session(started.context, started.warnings)
        reason = "exit"
    finally:
        await hooks.fire("SessionEnd", thread=thread, reason=reason)


def _build_common_fields(event: str, thread: str) -> dict[str, Any]:
    """The input keys of every event. Runs write no transcript file, so its path is empty."""
    config = var_child_runnable_config.get() or {}
    return {
        "session_id": thread or str(config.get("configurable", {}).get("thread_id") or ""),
        "transcript_path": "",
        "cwd": _STARTED_IN,
        "hook_event_name": event,
        "timestamp": datetime.now(UTC).isoformat(timespec="milliseconds"),
    }


@dataclass(frozen=True)
class _HookRun:
    """One hook's run: its output, seconds, and what went wrong.

    `failed` may be saved, so it names an error's type alone; `error` has its words too.
    """

    hook: Hook
    output: Output
    seconds: float
    failed: str = ""
    error: str = ""

    @property
    def warning(self) -> str:
        effect = "it was passed over" if self.hook.on_error == "open" else "it blocks when it fails"
        name = f"The {self.hook.event} hook {self.hook.label!r}"
        return f"{name} failed ({self.failed}): {effect}."

    @property
    def status(self) -> str:
        if self.failed:
            return "failed"
        if not self.output.go_on:
            return "stopped"
        names = {"deny": "blocked", "block": "blocked", "ask": "ask"}
        return names.get(str(self.output.decision), "ok")

    def emit_result(self, emit: Emit | None) -> None:
        output = self.output
        texts = {"message": output.system_message, "reason": output.reason, "error": self.error}
        event = {
            "type": "hook",
            "event": self.hook.event,
            "name": self.hook.label,
            "status": self.status,
            "seconds": self.seconds,
            **({} if output.suppress_output else {k: v for k, v in texts.items() if v}),
        }
        if emit is None:  # a session has no stream
            log.log(logging.WARNING if self.failed else logging.INFO, "%s", event)
            return
        emit(event)
        if self.failed:
            emit({"type": "warning", "text": self.warning})


async def _run_in_sequence(hooks: Sequence[Hook], given: Mapping[str, Any]) -> list[_HookRun]:
    runs = []
    for hook in hooks:
        runs.append(await _run_hook(hook, given))
        given = update_fields(given, runs[-1].output)
    return runs


async def _run_parallel(hooks: Sequence[Hook], given: Mapping[str, Any]) -> list[_HookRun]:
    """All at once; if one pauses the graph or the run is cancelled, none is left behind."""
    tasks = [asyncio.ensure_future(_run_hook(hook, given)) for hook in hooks]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _run_hook(hook: Hook, given: Mapping[str, Any]) -> _HookRun:
    """Run a hook on a copy of the input; a failure is data, a pause of the graph is none."""
    began = time.monotonic()
    output, failed, error = Output(), "", ""
    try:
        called = _call_hook(hook.run, copy.deepcopy(dict(given)))
        said = await _run_with_deadline(hook.timeout, called)
        output = read_output(read_own_secrets().mask_json(said))  # it has our environment
    except GraphBubbleUp:
        raise
    except UnreadableOutput as refused:
        failed = error = str(refused)
    except Exception as crash:  # noqa: BLE001 - whatever a foreign callable raises, it is data
        failed, error = type(crash).__name__, f"{type(crash).__name__}: {crash}"
    if failed and hook.on_error == "closed":
        why = say("hook_failed", hook=repr(hook.label), why=failed)
        output = Output(decision="deny", reason=why)
    return _HookRun(hook, output, round(time.monotonic() - began, 3), failed, error)


async def _run_with_deadline(seconds: float, work: Any) -> Any:
    """Wait at most so long, then cancel the work and leave it behind."""
    task = asyncio.ensure_future(work)
    # Nobody else looks at the exception of a task that is left behind.
    task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
    try:
        done, _ = await asyncio.wait({task}, timeout=seconds)
    finally:
        task.cancel()
    if not done:
        raise UnreadableOutput(say("hook_too_slow", seconds=f"{seconds:g}"))
    if task.cancelled():
        msg = "it was cancelled from within"
        raise UnreadableOutput(msg)
    return task.result()


async def _call_hook(run: HookCallable, given: dict[str, Any]) -> Any:
    called = getattr(run, "__call__", None)  # noqa: B004 - the method is wanted, not the answer
    if inspect.iscoroutinefunction(run) or inspect.iscoroutinefunction(called):
        answer: Any = run(given)
    else:
        answer = await call_in_thread(run, given)
    return await answer if inspect.isawaitable(answer) else answer

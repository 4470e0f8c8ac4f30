"""All hooks of a graph: fired by event, side by side or in sequence, merged into one verdict."""

import asyncio
import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from langchain_core.runnables.config import var_child_runnable_config

from ..state.errors import SettingsError
from ..state.session import Emit
from .contract import EVENTS, MATCHED, NOTHING, Hook, HookEvent, Verdict
from .merging import carried_on, merge
from .running import Ran, run_hook

log = logging.getLogger(__name__)


def _current_folder() -> str:
    try:
        return os.getcwd()
    except OSError:  # deleted under the process
        return ""


# Read once, at import: nobody may look at the file system on an event loop.
_STARTED_IN: Final = _current_folder()


class Hooks:
    """The hooks of a graph. Where none is registered for an event, firing it does nothing."""

    def __init__(self, hooks: "Iterable[Hook] | Hooks" = ()) -> None:
        """Sort the hooks by event and order; one given twice runs once.

        Raises:
            SettingsError: Something among them is no hook.
        """
        given: tuple[Hook, ...] = hooks.all if isinstance(hooks, Hooks) else tuple(hooks)
        for one in given:
            if not isinstance(one, Hook):
                msg = (
                    f"hooks takes Hook objects, not a {type(one).__name__}: write"
                    " Hook(event=..., run=...), or put @hook(event) above the function."
                )
                raise SettingsError(msg)
        self.all: tuple[Hook, ...] = tuple(_once(given))
        self._by_event: dict[str, list[Hook]] = {
            event: sorted((h for h in self.all if h.event == event), key=lambda h: h.order)
            for event in EVENTS
        }

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self.all)

    def listens(self, event: HookEvent) -> bool:
        """Whether firing this event would run anything; costs no await."""
        return bool(self._by_event[event])

    async def fire(
        self, event: HookEvent, *, emit: Emit | None = None, thread: str = "", **fields: Any
    ) -> Verdict:
        """Run the event's hooks and merge what they say.

        Args:
            event: The event.
            emit: Takes one `hook` event a hook, and a `warning` for one that failed.
            thread: The thread; by default that of the surrounding run.
            fields: The event's own input keys; JSON values.

        Raises:
            GraphBubbleUp: A hook paused or drained the graph.
        """
        hooks = self._chosen(event, fields)
        if not hooks:
            return NOTHING
        given = _common(event, thread) | fields
        if any(one.sequential for one in hooks):
            ran = await _in_sequence(event, hooks, given)
        else:
            ran = await _side_by_side(hooks, given)
        for one in ran:
            _tell(event, one, emit)
        warnings = [_warning(event, one) for one in ran if one.failed]
        return merge(event, given, [one.output for one in ran], warnings)

    def _chosen(self, event: HookEvent, fields: Mapping[str, Any]) -> list[Hook]:
        value = str(fields.get(MATCHED.get(event, ""), ""))
        return [one for one in self._by_event[event] if one.matches(value)]


def _once(hooks: Sequence[Hook]) -> Iterable[Hook]:
    seen: list[tuple[Any, ...]] = []
    for one in hooks:
        key = (one.event, one.run, one.name, one.match)
        if key not in seen:  # a callable need not be hashable
            seen.append(key)
            yield one


def _common(event: str, thread: str) -> dict[str, Any]:
    """What every hook is told. Runs write no transcript file, so its path is empty."""
    config = var_child_runnable_config.get() or {}
    return {
        "session_id": thread or str(config.get("configurable", {}).get("thread_id") or ""),
        "transcript_path": "",
        "cwd": _STARTED_IN,
        "hook_event_name": event,
        "timestamp": datetime.now(UTC).isoformat(timespec="milliseconds"),
    }


async def _in_sequence(event: str, hooks: Sequence[Hook], given: dict[str, Any]) -> list[Ran]:
    ran = []
    for one in hooks:
        ran.append(await run_hook(one, given))
        given = carried_on(event, given, ran[-1].output)
    return ran


async def _side_by_side(hooks: Sequence[Hook], given: Mapping[str, Any]) -> list[Ran]:
    """All at once; if one pauses the graph or the run is cancelled, none is left behind."""
    if len(hooks) == 1:
        return [await run_hook(hooks[0], given)]
    tasks = [asyncio.ensure_future(run_hook(one, given)) for one in hooks]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _warning(event: str, ran: Ran) -> str:
    effect = "it was passed over" if ran.hook.on_error == "open" else "it blocks when it fails"
    return f"The {event} hook {ran.hook.label!r} failed ({ran.failed}): {effect}."


def _tell(event: str, ran: Ran, emit: Emit | None) -> None:
    output = ran.output
    texts = {"message": output.system_message, "reason": output.reason, "error": ran.error}
    shown = {} if output.suppress_output else {k: v for k, v in texts.items() if v}
    told: dict[str, Any] = {
        "type": "hook", "event": event, "name": ran.hook.label, "status": _status(ran),
        "seconds": ran.seconds, **shown,
    }  # fmt: skip
    if emit is None:  # a session has no stream to be told on
        log.log(logging.WARNING if ran.failed else logging.INFO, "%s", told)
        return
    emit(told)
    if ran.failed:
        emit({"type": "warning", "text": _warning(event, ran)})


def _status(ran: Ran) -> str:
    if ran.failed:
        return "failed"
    if not ran.output.go_on:
        return "stopped"
    return "blocked" if ran.output.denies else "ask" if ran.output.decision == "ask" else "ok"

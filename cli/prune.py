"""`loopwright prune`: what is asked for, and what became of it."""

import time
from collections import Counter
from datetime import timedelta
from typing import Any, Final, NamedTuple

from ..state.errors import DatabaseError, SettingsError, require_nonempty
from ..store.threads.pruning import Pruned
from ..text.canonical import format_size, plural
from .settings import Settings, check_thread_id, parse_age
from .terminal import Code, Output, clean

_NAMED: Final = 20
"""Threads that are named, each with why it was left; of more than that only the reasons are."""


class PruneRequest(NamedTuple):
    """What is to be kept of a thread, as it was typed: one of them."""

    keep: str | None
    turns: int | None
    older_than: str | None

    def build_arguments(self) -> dict[str, Any]:
        """The arguments of `Durability.prune`."""
        age = None if self.older_than is None else parse_age(self.older_than, "--older-than")
        wanted = {
            "keep": require_nonempty(self.keep, "--keep"),
            "turns": self.turns,
            "older_than": age,
        }
        if sum(given is not None for given in wanted.values()) != 1:
            msg = "Say what is kept by one of --keep latest, --turns N and --older-than 30d."
            raise SettingsError(msg)
        return wanted


def prune_threads(
    settings: Settings, output: Output, thread: str | None, asked: PruneRequest, every: str | None
) -> int:
    """Prune one thread or all, and say what was left as it is, and why; once, or again and again.

    A database that does not answer ends the first round; later ones wait for the next.
    """
    name = None if thread is None else check_thread_id(thread)
    wanted, pause = asked.build_arguments(), None if every is None else parse_age(every, "--every")
    if pause == timedelta():
        msg = f"--every {every!r} leaves no pause: give one such as 30m, 12h or 1d."
        raise SettingsError(msg)
    pruned = _prune_thread(settings, output, name, wanted)
    while pause is not None:
        time.sleep(pause.total_seconds())
        try:
            _prune_thread(settings, output, name, wanted)
        except DatabaseError as error:
            output.write_error(str(error))
    return Code.USAGE if name in pruned.left else Code.COMPLETE


def _prune_thread(
    settings: Settings, output: Output, name: str | None, wanted: dict[str, Any]
) -> Pruned:
    with settings.open() as durability:
        pruned = durability.prune(name, **wanted)
    _print_pruned(output, pruned)
    return pruned


def _print_pruned(output: Output, pruned: Pruned) -> None:
    size = {"before": pruned.before, "after": pruned.after}
    if output.json:
        output.write_result({"threads": pruned.threads, "left": pruned.left, "bytes": size})
        return
    if len(pruned.left) > _NAMED:
        for why, number in Counter(pruned.left.values()).most_common():
            output.write_line(f"{plural(number, 'thread')} left as they were: {why}")
    else:
        for thread, why in pruned.left.items():
            output.write_line(f"{clean(thread)} was left as it is: {why}")
    count = plural(len(pruned.threads), "thread")
    before, after = format_size(pruned.before), format_size(pruned.after)
    output.write_line(f"{count} pruned: {before} before, {after} now")
    if not pruned.shrunk:
        output.write_line(
            "The file keeps its size while others use it: what comes next fills the room."
        )

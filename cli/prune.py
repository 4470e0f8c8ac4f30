"""`loopwright prune`: what is asked for, and what became of it."""

import time
from collections import Counter
from datetime import timedelta
from typing import Any, Final, NamedTuple

from ..state.environment import stated
from ..state.errors import DatabaseError, SettingsError
from ..store.threads.pruning import Pruned
from ..text.units import plural, size_text
from .settings import Settings, age_of, thread_named
from .terminal import Code, Output, clean

_NAMED: Final = 20
"""Threads that are named, each with why it was left; of more than that only the reasons are."""


class Asked(NamedTuple):
    """What is to be kept of a thread, as it was typed: one of them."""

    keep: str | None
    turns: int | None
    older_than: str | None

    def wanted(self) -> dict[str, Any]:
        """The arguments of `Durability.prune`."""
        age = None if self.older_than is None else age_of(self.older_than, "--older-than")
        wanted = {"keep": stated(self.keep, "--keep"), "turns": self.turns, "older_than": age}
        if sum(given is not None for given in wanted.values()) != 1:
            msg = "Say what is kept by one of --keep latest, --turns N and --older-than 30d."
            raise SettingsError(msg)
        return wanted


def prune_threads(
    settings: Settings, output: Output, thread: str | None, asked: Asked, every: str | None
) -> int:
    """Prune one thread or all, and say what was left as it is, and why; once, or again and again.

    A database that does not answer ends the first round; later ones wait for the next.
    """
    name = None if thread is None else thread_named(thread)
    wanted, pause = asked.wanted(), None if every is None else age_of(every, "--every")
    if pause == timedelta():
        msg = f"--every {every!r} leaves no pause: give one such as 30m, 12h or 1d."
        raise SettingsError(msg)
    pruned = _prune(settings, output, name, wanted)
    while pause is not None:
        time.sleep(pause.total_seconds())
        try:
            _prune(settings, output, name, wanted)
        except DatabaseError as error:
            output.error(str(error))
    return Code.USAGE if name in pruned.left else Code.COMPLETE


def _prune(settings: Settings, output: Output, name: str | None, wanted: dict[str, Any]) -> Pruned:
    with settings.open() as durability:
        pruned = durability.prune(name, **wanted)
    _tell(output, pruned)
    return pruned


def _tell(output: Output, pruned: Pruned) -> None:
    size = {"before": pruned.before, "after": pruned.after}
    if output.json:
        output.result({"threads": pruned.threads, "left": pruned.left, "bytes": size})
        return
    if len(pruned.left) > _NAMED:
        for why, number in Counter(pruned.left.values()).most_common():
            output.line(f"{plural(number, 'thread')} left as they were: {why}")
    else:
        for thread, why in pruned.left.items():
            output.line(f"{clean(thread)} was left as it is: {why}")
    count = plural(len(pruned.threads), "thread")
    before, after = size_text(pruned.before), size_text(pruned.after)
    output.line(f"{count} pruned: {before} before, {after} now")
    if not pruned.shrunk:
        output.line("The file keeps its size while others use it: what comes next fills the room.")

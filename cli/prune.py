"""`loopwright threads prune`: what is asked for, and what became of it."""

from typing import Any, Final

from ..doors.durability import DEFAULT_URL, open_durability
from ..doors.pruning import Pruned
from ..state.environment import stated
from ..state.errors import SettingsError
from .settings import Settings, age_of, thread_named
from .terminal import Code, Output, clean, plural

_KILO: Final = 1000


def prune_threads(
    settings: Settings,
    output: Output,
    thread: str | None,
    *,
    keep: str | None,
    turns: int | None,
    older_than: str | None,
) -> int:
    """Prune one thread or all, and say what was left as it is, and why."""
    name = None if thread is None else thread_named(thread)
    age = None if older_than is None else age_of(older_than, "--older-than")
    wanted: dict[str, Any] = {"keep": stated(keep, "--keep"), "turns": turns, "older_than": age}
    if sum(given is not None for given in wanted.values()) != 1:
        msg = "Say what is kept by one of --keep latest, --turns N and --older-than 30d."
        raise SettingsError(msg)
    with open_durability(settings.database_url(DEFAULT_URL)) as durability:
        pruned = durability.prune(name, **wanted)
    _tell(output, pruned)
    return Code.USAGE if name in pruned.left else Code.COMPLETE


def _tell(output: Output, pruned: Pruned) -> None:
    size = {"before": pruned.before, "after": pruned.after}
    if output.json:
        output.result({"threads": pruned.threads, "left": pruned.left, "bytes": size})
        return
    for thread, why in pruned.left.items():
        output.line(f"{clean(thread)} was left as it is: {why}")
    count = plural(len(pruned.threads), "thread")
    output.line(f"{count} pruned: {_size(pruned.before)} before, {_size(pruned.after)} now")
    if not pruned.shrunk:
        output.line("The file keeps its size while others use it: what comes next fills the room.")


def _size(count: int) -> str:
    amount, unit = float(count), "B"
    for larger in ("kB", "MB", "GB"):
        if amount < _KILO:
            break
        amount, unit = amount / _KILO, larger
    return f"{amount:.3g} {unit}" if amount < _KILO else f"{amount:,.0f} {unit}"

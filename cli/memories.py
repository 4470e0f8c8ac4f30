"""What is remembered of a user: listed, and deleted."""

from typing import Final

from ..state.errors import SettingsError
from ..store.memories import delete_memories, list_memories
from .settings import Settings
from .terminal import Code, Output, clean
from .threads import print_table

_TITLES: Final = ("id", "when", "origin", "thread", "text")


def show_memories(settings: Settings, output: Output, user: str) -> int:
    """Print one line an entry, newest first; tab-separated where nobody watches."""
    with settings.open() as durability:
        found = list_memories(durability.store, user)
    if output.json:
        output.write_result({"memories": found})
    elif not found:
        output.write_error(f"nothing is remembered of {clean(user)} in {durability.url}.")
    else:
        rows = []
        for one in found:
            origin, words = "foreign" if one["foreign"] else "own", " ".join(one["text"].split())
            rows.append((one["id"], one["when"][:19], origin, clean(one["thread"]), clean(words)))
        print_table(output, _TITLES, rows)
    return Code.COMPLETE


def forget_memories(settings: Settings, output: Output, user: str, id: str | None) -> int:
    """Delete all that is remembered of a user, or one entry, which must be there."""
    with settings.open() as durability:
        gone = delete_memories(durability.store, user, id)
    if id is not None and not gone:
        msg = f"Nothing of {user!r} has the id {id!r}: `memory list` shows what there is."
        raise SettingsError(msg)
    return output.report({"deleted": gone}, f"{gone} deleted.")

"""`--record`: where the runs of a command are put on record, and with what its graphs are built."""

from typing import Final

from ..graphs.tapes import RecordingTape, find_tape
from ..state.errors import SettingsError, read_variable
from ..store.base.recordings import Recordings, Tape
from .agents import NamedAgent
from .settings import Settings

BUILT: Final = "settings"
_OPTIONS: Final = ("mcp", "policy", "foreign", "instructions", "model", "review")
_VARIABLES: Final = tuple(
    f"LOOPWRIGHT_{name}"
    for name in ("MCP", "POLICY", "FOREIGN", "INSTRUCTIONS", "COMPANY", "AGENTS", "MODEL")
)


def open_tape(settings: Settings, graph: str, agent: NamedAgent | None) -> Tape | None:
    """The tape of a graph that the command builds; a new one is told what it is built with."""
    tape = find_tape(settings.environ, settings.record)
    if isinstance(tape, RecordingTape):
        options = {name: value for name in _OPTIONS if (value := getattr(settings, name))}
        options |= {"agent": agent.named} if agent else {}
        environ = {name: settings.environ[name] for name in _VARIABLES if name in settings.environ}
        built = {"graph": graph, "options": options, "environ": environ}
        open_folder(settings).save(BUILT, built)
    return tape


def open_folder(settings: Settings) -> Recordings:
    """The folder of recordings that the command names; a SettingsError without one."""
    folder = settings.record or read_variable(settings.environ, "LOOPWRIGHT_RECORD")
    if folder is None:
        msg = "Name the folder of recordings with --record, or set LOOPWRIGHT_RECORD."
        raise SettingsError(msg)
    return Recordings(folder)

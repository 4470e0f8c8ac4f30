"""What an OpenTelemetry meter is told, where the program has configured one: numbers, no words.

Names and units are those of OpenTelemetry's conventions where it has some. Whoever has configured
a meter has imported the API, so nothing is imported here, and without one nothing is made.
"""

import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple

AGENT: Final = "gen_ai.agent.name"
"""The graph."""
STATUS: Final = "loopwright.status"
"""How a turn ended; `error` where it did not."""
KIND: Final = "loopwright.kind"
"""The type of a question, or why a call is in doubt."""
TOOL: Final = "gen_ai.tool.name"
SERVER: Final = "loopwright.server"
WIRE: Final = "network.transport"
ERROR: Final = "error.type"


class _Instrument(NamedTuple):
    kind: Literal["counter", "up_down_counter", "histogram"]
    unit: str
    text: str


RUNS: Final = "loopwright.runs"
QUESTIONS: Final = "loopwright.questions"
TAKEOVERS: Final = "loopwright.takeovers"
REFUSED: Final = "loopwright.claims.refused"
LOST: Final = "loopwright.leases.lost"
UNWRITTEN: Final = "loopwright.writes.refused"
DOUBTS: Final = "loopwright.journal.doubts"
ENQUEUED: Final = "loopwright.turns.enqueued"
TAKEN: Final = "loopwright.turns.taken"
PROCESSES: Final = "loopwright.mcp.processes"
SESSION: Final = "mcp.client.session.duration"
TOKENS: Final = "gen_ai.client.token.usage"
OPERATION: Final = "gen_ai.client.operation.duration"

INSTRUMENTS: Final[dict[str, _Instrument]] = {
    RUNS: _Instrument("counter", "{run}", "Turns that ended, and runs that an error ended."),
    QUESTIONS: _Instrument("counter", "{question}", "Questions put to humans."),
    TAKEOVERS: _Instrument("counter", "{thread}", "Threads taken from a holder that was gone."),
    REFUSED: _Instrument("counter", "{claim}", "Claims of a thread that another run held."),
    LOST: _Instrument("counter", "{lease}", "Leases that were lost while a run held them."),
    UNWRITTEN: _Instrument("counter", "{write}", "Writes of runs that had lost their thread."),
    DOUBTS: _Instrument("counter", "{call}", "Writes of which nobody knows whether they ran."),
    ENQUEUED: _Instrument("counter", "{turn}", "Turns put into the queue."),
    TAKEN: _Instrument("counter", "{turn}", "Turns a worker took out of the queue."),
    PROCESSES: _Instrument("up_down_counter", "{process}", "Processes of MCP servers."),
    SESSION: _Instrument("histogram", "s", "How long sessions with MCP servers lasted."),
    TOKENS: _Instrument("histogram", "{token}", "Tokens of a model call."),
    OPERATION: _Instrument("histogram", "s", "How long a model call took."),
}

_made: dict[str, Any] = {}
_of: list[Any] = [None]
"""The provider whose instruments they are: a program may set another one."""


def is_metered() -> bool:
    """Whether the program has configured a meter."""
    return _find_provider() is not None


def measure(name: str, value: float = 1, about: Mapping[str, str] = MappingProxyType({})) -> bool:
    """Tell the meter a number, if there is one; says whether it was told."""
    provider = _find_provider()
    if provider is None:
        return False
    if _of[0] is not provider:
        _made.clear()
        _of[0] = provider
    if (instrument := _made.get(name)) is None:
        kind, unit, text = INSTRUMENTS[name]
        make = getattr(provider.get_meter("loopwright"), f"create_{kind}")
        instrument = _made.setdefault(name, make(name, unit=unit, description=text))
    tell = instrument.record if INSTRUMENTS[name].kind == "histogram" else instrument.add
    tell(value, {key: word for key, word in about.items() if word})
    return True


def _find_provider() -> Any:
    """The program's meter provider; the one that stands in until it is set has no `shutdown`."""
    metrics = sys.modules.get("opentelemetry.metrics")
    if metrics is None:
        return None
    provider = metrics.get_meter_provider()
    return provider if hasattr(provider, "shutdown") else None

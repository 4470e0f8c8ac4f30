"""What a policy's file says: proven, and tried on calls that nobody makes."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from ..policy.table import PolicyTable
from ..policy.trials import TriedCall, try_call
from ..state.errors import SettingsError
from ..state.limits import read_file
from ..text.canonical import plural
from .settings import Settings
from .terminal import Output

_SHAPE: Final = (
    'write one such as {"tool": "request_refund", "args": {"order_id": "A-1"}, "customer": "C-1",'
    ' "facts": {"order": {"order_id": "A-1"}}}'
)


def check_policy(_: Settings, output: Output, file: str, on: str | None) -> int:
    """Prove a policy, and say of each call in a file of JSON lines what would be decided."""
    table = PolicyTable.read(file)
    rows = sum(len(section.rows) for section in table.sections.values())
    trials = [*_try_calls(table, Path(on))] if on else []
    calls = [{"line": line, **trial} for line, trial in trials]
    counts = f"{plural(len(table.tools), 'tool')}, {plural(rows, 'row')}"
    return output.report(
        {"policy": file, "tools": len(table.tools), "rows": rows, "calls": calls},
        f"{file}: {counts}; each case has exactly one row.",
        *(part for line, trial in trials for part in _describe_trial(line, trial)),
    )


def _try_calls(table: PolicyTable, path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        lines = read_file(path, "settings").splitlines()
    except (OSError, ValueError) as error:
        msg = f"The calls {path} of --on cannot be read ({error}); check the path."
        raise SettingsError(msg) from error
    for number, line in enumerate(lines, 1):
        if line.strip():
            yield number, try_call(table, _read_line(table, line, f"Line {number} of {path}"))


def _read_line(table: PolicyTable, line: str, where: str) -> TriedCall:
    try:
        tried = TriedCall.model_validate_json(line)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        msg = f"{where} is no call ({f'{place}: ' if place else ''}{first['msg']}): {_SHAPE}."
        raise SettingsError(msg) from error
    if strange := sorted(tried.facts.keys() - table.facts.keys()):
        known = ", ".join(table.facts) or "none"
        msg = f"{where} has a fact {strange[0]!r} that the policy does not read; it reads: {known}."
        raise SettingsError(msg)
    return tried


def _describe_trial(line: int, trial: Mapping[str, Any]) -> Iterator[str]:
    by = f" by {trial['row']}" if trial["row"] else ""
    consent = ", after a yes" if trial["consent"] else ""
    yield f"line {line}: {trial['verdict']}{by}{consent}: {trial['call']}"
    yield f"  {trial['why']}"
    if trial["values"]:
        yield "  " + ", ".join(f"{name}: {value}" for name, value in trial["values"].items())

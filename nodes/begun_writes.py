"""Writes that were begun in this turn before it was cut off: they go on as they were sent.

What a step is made from may be another by then: a read whose end was not saved yet is made again,
and may fail or say something else. A write of which the journal has a line is no new call for it.
"""

from typing import Any

from ..doors.journal import CallRow, Journal
from ..state.canonical import canonical
from ..state.flow import FlowState, FlowStep, was_made
from ..state.references import references_in
from ..tools.call_journal import paused
from ..tools.catalog import Catalog, CatalogTool
from ..tools.spelling import as_sent
from .run_facts import has_saver, place, thread_id


async def begun_writes(
    state: FlowState, journal: Journal, catalog: Catalog
) -> dict[str, dict[str, Any]]:
    """What writes were sent with whose end is not in the state, by step id.

    Those that surely failed, or may simply be sent again, are not among them.
    """
    open_ = [s for s in state.todos if s["changes"] and s["status"] != "completed"]
    open_ = [step for step in open_ if not was_made(step)]
    if not (open_ and has_saver()):
        return {}
    rows = await journal.rows(thread_id(), turn=state.turn_id)
    newest = {row.key.call: row for row in rows if row.key.place == place()}
    begun: dict[str, dict[str, Any]] = {}
    for step in open_:
        row = newest.get(f"{step['id']}.{step['rounds'] + 1}.0")
        tool = catalog.find(step["tool"])
        if row and tool and _is_under_way(row, tool) and _is_call_of(row, step, tool):
            begun[step["id"]] = row.arguments
    return begun


def _is_under_way(row: CallRow, tool: CatalogTool) -> bool:
    return row.state != "failed" and not paused(row) and not tool.resendable


def _is_call_of(row: CallRow, step: FlowStep, tool: CatalogTool) -> bool:
    """Whether a step makes this call: in a fork of the thread its id may be another step's."""
    if (row.tool, row.server) != (tool.original, tool.server):
        return False
    planned = _filled_like(step["arguments"], row.arguments)
    return canonical(as_sent(planned, tool)) == canonical(as_sent(row.arguments, tool))


def _filled_like(planned: Any, sent: Any) -> Any:
    """Arguments as planned, with what was sent in the place of every reference."""
    if isinstance(planned, str):
        return sent if references_in(planned) else planned
    if isinstance(planned, dict) and isinstance(sent, dict):
        return {key: _filled_like(planned[key], sent.get(key)) for key in planned}
    if isinstance(planned, list) and isinstance(sent, list) and len(planned) == len(sent):
        return [_filled_like(*pair) for pair in zip(planned, sent, strict=True)]
    return planned

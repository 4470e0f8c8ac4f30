"""Where a turn resumes that was cut off: writes that were begun go on as they were sent.

What a step is made from may be another by then: a read whose end was not saved yet is made again,
and may fail or say something else. A write of which the journal has a line is no new call for it.
(Where a new message follows instead, see `cut_off_writes`; where a new plan does, `spare_writes`.)
"""

from typing import Any

from ...calls.call_journal import is_same_call, paused
from ...calls.dedupe import asked_again
from ...doors.journal import CallRow
from ...flow.references import references_in
from ...state.flow import FlowState, FlowStep, was_made
from ...tools.catalog import Catalog, CatalogTool
from ...turn.scope import RunScope


async def resumed_writes(
    scope: RunScope, state: FlowState, catalog: Catalog
) -> dict[str, dict[str, Any]]:
    """The steps that are open though the journal has a line of the call they would make.

    Args:
        scope: The run; its journal is where writes are noted before they are sent.
        state: Before the pass.
        catalog: What can be called now.

    Returns:
        By step id: the arguments its write was sent with.
    """
    open_ = [step for step in state.todos if step["changes"] and _is_open(step)]
    if not (open_ and scope.saved):
        return {}
    rows = await scope.journal.rows(scope.thread, turn=scope.turn)
    newest = {row.key.call: row for row in rows if row.key.place == scope.place}
    begun: dict[str, dict[str, Any]] = {}
    for step in open_:
        row = newest.get(f"{step['id']}.{step['rounds'] + 1}.0")
        tool = catalog.find(step["tool"])
        if row and tool and _stands(row, tool) and _is_call_of(row, step, tool):
            begun[step["id"]] = row.arguments
    return begun


def _is_open(step: FlowStep) -> bool:
    return step["status"] != "completed" and not was_made(step)


def _stands(row: CallRow, tool: CatalogTool) -> bool:
    """Whether the call is not simply made anew: it has ended well, or nobody knows."""
    return row.state != "failed" and not paused(row) and not tool.resendable


def _is_call_of(row: CallRow, step: FlowStep, tool: CatalogTool) -> bool:
    """Whether a step makes this call: in a fork of the thread its id may be another step's."""
    planned, _ = asked_again(tool.schema, step["arguments"])
    return is_same_call(row, _filled_like(planned, row.arguments), tool)


def _filled_like(planned: Any, sent: Any) -> Any:
    """Arguments as planned, with what was sent in the place of every reference."""
    if isinstance(planned, str):
        return sent if references_in(planned) else planned
    if isinstance(planned, dict) and isinstance(sent, dict):
        return {key: _filled_like(planned[key], sent.get(key)) for key in planned}
    if isinstance(planned, list) and isinstance(sent, list) and len(planned) == len(sent):
        return [_filled_like(*pair) for pair in zip(planned, sent, strict=True)]
    return planned

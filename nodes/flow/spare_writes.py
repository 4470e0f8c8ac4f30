"""Writes of an earlier plan that this one does not list, for a step that would make one again.

Where a new plan spells a call otherwise, only its filled-in arguments show that it was made.
"""

from collections import defaultdict
from typing import Any

from ...calls.spelling import as_sent
from ...state.canonical import canonical
from ...state.flow import FlowState, FlowStep
from ...tools.catalog import Catalog
from .adoption import sent_before


class SpareWrites:
    """The spare writes of a pass; each is taken once."""

    def __init__(self, state: FlowState, catalog: Catalog) -> None:
        """Find them by what was sent."""
        self._catalog = catalog
        self._left: dict[str, list[FlowStep]] = defaultdict(list)
        spare = [step for step in state.todos if step.get("spare")]
        sent = sent_before(state) if spare else {}
        for step in spare:
            if step["id"] in sent:
                self._left[self._key(step["tool"], sent[step["id"]])].append(step)

    def take(self, step: FlowStep, arguments: dict[str, Any]) -> FlowStep | None:
        """The write that was made with these arguments; None where the step's call is a new one."""
        if not self._left:
            return None
        found = self._left.get(self._key(step["tool"], arguments))
        return found.pop(0) if found else None

    def taken(self, step_id: str) -> None:
        """Take note that a step has one, perhaps since before a crash."""
        for steps in self._left.values():
            steps[:] = [step for step in steps if step["id"] != step_id]

    def _key(self, tool: str, arguments: Any) -> str:
        return canonical([tool, as_sent(arguments, self._catalog.find(tool))])

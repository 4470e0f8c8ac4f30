"""The live objects a graph's builder binds into its nodes; none of them is ever in state."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ..calls.toolbox import Toolbox
from ..models.ask_value import ResultSchema, add_typed_result
from ..models.choice import Models
from ..state.loop import LoopState
from ..turn.begin import MissingTools, note_request
from ..turn.end import Typed
from ..turn.scope import GraphParts, RunScope


@dataclass(frozen=True, kw_only=True)
class Parts(GraphParts):
    """Models, tools, prompts, hooks and journal of one graph; `name` is the agent policy knows."""

    models: Models = field(default_factory=Models)
    toolbox: Toolbox = field(default_factory=Toolbox)
    result: ResultSchema | None = None
    """What the result of a turn must be, beside its answer in words; None where nobody asks."""

    async def find_missing(self, user_id: str | None = None) -> MissingTools:
        """What is to be said of tools and instructions before a turn begins."""
        found, known = await self.toolbox.find_missing(user_id), self.instructions
        if not known.folders:
            return found
        changed = await asyncio.to_thread(known.list_changed)
        return found._replace(warnings=[*found.warnings, *known.problems, *changed])

    async def find_likely_tools(
        self, scope: RunScope, state: LoopState, begun: Mapping[str, Any]
    ) -> list[str]:
        """Which of many tools the request of a turn is likely to need that has begun so."""
        if begun.get("halt"):
            return []
        catalog = await self.toolbox.catalog(scope.user)
        return catalog.deferred_tools.find_likely(note_request(state).request)

    def bind_typed_result(self, scope: RunScope, role: str, request: str) -> Typed | None:
        """What makes the result of a turn, asked of the role that writes its answer."""
        if self.result is None:
            return None
        return partial(add_typed_result, scope, self.models, self.result, role, request)

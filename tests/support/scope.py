"""What surrounds a node, for tests that call what a node calls."""

from typing import Any

from loopwright.state.context import Context
from loopwright.turn.budget import Budget
from loopwright.turn.scope import RunScope


def scope_with(context: Context | None = None, **more: Any) -> RunScope:
    """A scope outside of any graph; `more` are its other fields."""
    context = context or Context()
    fields: dict[str, Any] = {"context": context, "budget": Budget(context)}
    return RunScope(**fields | more).noting()

"""What surrounds a node, for tests that call what a node calls."""

from typing import Any

from loopwright.calls.call_records import Call, PassResult
from loopwright.state.context import Context
from loopwright.turn.budget import Budget
from loopwright.turn.scope import GraphParts, RunFacts, RunScope, Surroundings


def scope_with(context: Context | None = None, **more: Any) -> RunScope:
    """A scope outside of any graph; `more` are its other fields."""
    context = context or Context()
    fields: dict[str, Any] = {"context": context, "budget": Budget(context)} | more
    for group, kind in (("parts", GraphParts), ("run", RunFacts), ("around", Surroundings)):
        names = fields.keys() & kind.__dataclass_fields__.keys()
        fields.setdefault(group, kind(**{name: fields.pop(name) for name in names}))
    return RunScope(**fields).with_own_notes()


def call_of(id_: str, **pending: Any) -> Call:
    """A call with this evidence id, on its way; `pending` is what else is known of it."""
    planned: Any = {"id": id_, "args": {}, **pending}
    return Call.from_pending(planned, lambda _: None)


def records_of(done: PassResult) -> list[Any]:
    """The answered calls of a pass: the evidence of each, its message, and what it costs."""
    return [
        {**call.evidence, "message": call.message, "ran": call.ran, "counts": call.counts}
        for call in done.answered
    ]

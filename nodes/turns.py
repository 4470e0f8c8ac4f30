"""intake begins a turn and finish ends it; the part of each graph stands in its `turn.py`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from langgraph.runtime import Runtime
from langgraph.types import Overwrite

from ..calls.gate import Gate
from ..hooks.contract import Verdict
from ..state.context import Context
from ..state.history import make_earlier_records
from ..state.loop import LoopState
from ..turn.begin import Adopt, begin_turn
from ..turn.end import Facts, end_turn
from ..turn.scope import make_scope
from .parts import Parts


async def intake(
    state: LoopState,
    runtime: Runtime[Context],
    *,
    parts: Parts,
    adopt: Adopt[Any],
    extend: Callable[[Any, dict[str, Any]], Mapping[str, Any]] | None = None,
    finds_tools: bool = True,
) -> Any:
    """Begin the turn; `adopt` carries unfinished work over, `extend` adds to the update."""
    scope = await make_scope(state, runtime, parts)
    update: dict[str, Any] = await begin_turn(scope, state, adopt, parts.find_missing)
    if not state.read_foreign and scope.around.chain.list_records():
        gate = await Gate.for_run(parts.toolbox, scope)
        update |= {"read_foreign": True} if gate.origins.is_tainted else {}
    if extend is not None:
        update |= extend(state, update)
    if finds_tools:
        update["found"] = await parts.find_likely_tools(scope, state, update)
    return update


def remember_calls(state: Any, update: Mapping[str, Any]) -> dict[str, Any]:
    """The calls and answers of the turn before, where they do not go on."""
    kept = update.get("evidence")
    going_on = kept.value if isinstance(kept, Overwrite) else state.evidence
    ids = {record["id"] for record in going_on}
    ended = [record for record in state.evidence if record["id"] not in ids]
    answers = getattr(state, "answers", ())
    past = () if update.get("answers", answers) else answers
    return {"earlier": make_earlier_records(state.turn, ended, past)}


@dataclass(frozen=True)
class TurnEnd:
    """How a graph ends its turns.

    `role` makes the typed result. `retry` is the update to make another answer if a hook rejects
    one. `extend` adds to the update, its last argument.
    """

    role: str
    facts_of: Callable[[Any], Facts]
    retry: Callable[[Any, Verdict], Mapping[str, Any]]
    extend: Callable[[Any, Facts, Any], Mapping[str, Any]] | None = None


async def finish(state: LoopState, runtime: Runtime[Context], *, parts: Parts, end: TurnEnd) -> Any:
    """End the turn with its outcome, or go on if a hook rejects the answer."""
    scope, facts = await make_scope(state, runtime, parts), end.facts_of(state)
    typed = parts.bind_typed_result(scope, end.role, state.request)
    update: dict[str, Any] = await end_turn(scope, state, facts, partial(end.retry, state), typed)
    return {**update, **(end.extend(state, facts, update) if end.extend else {})}

"""Run the calls of an iteration, and end the turn where they say that it cannot go on."""

from typing import cast

from langgraph.runtime import Runtime

from ...calls.tool_hooks import stopped_after
from ...state.context import Context
from ...state.evidence import left_in_doubt
from ...state.loop import changes
from ...state.react import ReactState, ReactUpdate
from ...state.repetition import LAST_STRIKE, loop_told
from ...turn.scope import scope_of
from ..call_tools import CallsUpdate, call_tools
from ..parts import Parts


async def call_react_tools(
    state: ReactState, runtime: Runtime[Context], *, parts: Parts
) -> ReactUpdate:
    """Run what may run now; a loop, a doubt with nobody to ask, or a hook ends the turn."""
    changed = await call_tools(state, runtime, parts=parts)
    ended = _ended(changed)
    if ended.get("halt") == "LOOP_DETECTED":
        what = ended["unmet"][-1]
        scope = await scope_of(state, runtime, parts)
        scope.emit({"type": "loop", "task": state.path, "strike": LAST_STRIKE, "what": what})
    return changes(state, cast("ReactUpdate", changed) | ended)


def _ended(changed: CallsUpdate) -> ReactUpdate:
    if changed.get("strikes", 0) >= LAST_STRIKE:
        return ReactUpdate(halt="LOOP_DETECTED", unmet=[loop_told(changed["evidence"])])
    if any(map(left_in_doubt, changed["evidence"])):
        return ReactUpdate(halt="NOT_INTERACTIVE")
    if stopped := stopped_after(changed["messages"]):
        return ReactUpdate(halt="DENIED", unmet=[stopped])
    return ReactUpdate()

"""judge: the request is done, or a stronger graph takes it over; no model is asked."""

from langgraph.runtime import Runtime

from ...state.context import Context
from ...state.route import RouterState, RouterUpdate, Tried, stronger_than
from ...state.told import say
from ...turn.scope import scope_of
from ..parts import Parts


async def judge(state: RouterState, runtime: Runtime[Context], *, parts: Parts) -> RouterUpdate:
    """Note how the graph ended; what could not do it gives way to what may."""
    scope, ended, way = await scope_of(state, runtime, parts), state.inner, state.way
    if ended is None or way == "":
        return RouterUpdate(halt="ERROR")
    one = Tried(graph=way, why=state.why, status=ended["status"], reason=ended["reason"])
    update = RouterUpdate(tried=[*state.tried, one])
    stronger = None if scope.budget.exhausted else stronger_than(way, ended)
    if stronger is None:
        return update | RouterUpdate(task_completed=ended["status"] == "complete")
    why = say("route_moves_up", graph=way, reason=ended["reason"])
    scope.emit({"type": "route", "graph": stronger, "why": why})
    return update | RouterUpdate(way=stronger, why=why, inner=None)

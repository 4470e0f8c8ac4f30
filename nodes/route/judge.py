"""judge: the request is done, or a stronger graph takes it over; no model is asked."""

from langchain_core.messages import RemoveMessage
from langgraph.runtime import Runtime

from ...state.context import Context
from ...state.messages import is_words
from ...state.outcome import Outcome, Tried
from ...state.route import RouterState, RouterUpdate, choose_stronger
from ...text.sentences import say
from ...turn.scope import make_scope
from ..parts import Parts


async def judge(state: RouterState, runtime: Runtime[Context], *, parts: Parts) -> RouterUpdate:
    """Note how the graph ended; what could not do it gives way to what may.

    What it has written is then there for whoever makes the same call again, and its last words,
    which were to be the answer, are taken back.
    """
    scope, ended, way = await make_scope(state, runtime, parts), state.inner, state.way
    if ended is None or way == "":
        return RouterUpdate(halt=state.halt or "ERROR")
    one = Tried(
        graph=way, why=state.why, status=ended["status"], reason=ended["reason"],
        model_calls=ended["spend"].get("model_calls", 0),
    )  # fmt: skip
    update = RouterUpdate(tried=[*state.tried, one])
    stronger = choose_stronger(state, can_ask=scope.can_ask)
    if stronger is None or scope.budget.reached_limit:
        return update | RouterUpdate(task_completed=ended["status"] == "complete")
    await scope.release(lambda _: False, anywhere=True)
    why = _explain_move(ended, way)
    scope.emit({"type": "route", "graph": stronger, "why": why})
    told = [] if way == "direct" else [say("route_taken_over", graph=way, why=why)]
    return update | RouterUpdate(
        way=stronger, why=why, inner=None, messages=_take_back_answer(state, ended),
        hook_context=[*state.hook_context, *told],
    )  # fmt: skip


def _explain_move(ended: Outcome, way: str) -> str:
    if way == "direct":
        return say("route_needs_tools", why="; ".join(ended["unmet"]))
    return say("route_moves_up", graph=way, reason=ended["reason"])


def _take_back_answer(state: RouterState, ended: Outcome) -> list[RemoveMessage]:
    newest = state.messages[-1] if state.messages else None
    answers = newest is not None and is_words(newest) and newest.text == ended["answer"]
    return [RemoveMessage(id=str(newest.id))] if newest is not None and answers else []

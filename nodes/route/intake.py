"""Intake: begins a turn of the router."""

from langgraph.runtime import Runtime

from ...state.context import Context
from ...state.messages import merge_messages
from ...state.outcome import Way
from ...state.route import RouterState, RouterUpdate, collect_earlier, make_rewrite, select_kept
from ...store.checkpoints.thread_head import CUT_OFF
from ...turn.begin import begin_turn, is_same_request, repair_conversation
from ...turn.scope import RunScope, make_scope
from ..parts import Parts


async def route_intake(
    state: RouterState, runtime: Runtime[Context], *, parts: Parts
) -> RouterUpdate:
    """Begin the turn; what the graph had done that the last one was cut off in, is taken in."""
    scope = await make_scope(state, runtime, parts)
    update: RouterUpdate = await begin_turn(scope, state, _adopt_state, parts.find_missing)
    return update


async def _adopt_state(scope: RunScope, state: RouterState) -> RouterUpdate:
    """The calls of the turn before: a request that goes on finds them, any other begins anew.

    Of a graph that was cut off all is taken in: its conversation, where the journal answers the
    calls that have no answer, what its calls brought, and what it needs to go on.
    """
    if state.turn:
        over = state.outcome is not None and not is_same_request(state)
        await scope.release(lambda _: False, ended=over, told=over, anywhere=not over)
    if not state.cut_off:
        return RouterUpdate()
    (left,) = state.cut_off
    known = {message.id for message in left["messages"]}
    whole = [*left["messages"], *(m for m in state.messages if m.id not in known)]
    answers = await repair_conversation(scope, whole, left.get("calls") or [])
    way: Way = left["graph"]
    work = select_kept(left) | {CUT_OFF: left[CUT_OFF], "calls": []}
    return RouterUpdate(
        messages=make_rewrite(state.messages, merge_messages(whole, [answers])),
        way=way,
        kept={**state.kept, way: work},
        earlier=collect_earlier(way, state.turn, left),
    )

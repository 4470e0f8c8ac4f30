"""choose: which graph takes the request; judge: it is done, or a stronger graph takes over."""

from langchain_core.messages import AIMessage, RemoveMessage
from langgraph.runtime import Runtime

from ...models.ask import ask
from ...models.drafts import make_draft_listeners
from ...state.context import Context
from ...state.messages import is_words
from ...state.outcome import Outcome, Tried
from ...state.route import RouteChoice, RouterState, RouterUpdate, choose_stronger
from ...stream.turn_messages import make_message_id
from ...text.canonical import shorten_text
from ...text.sentences import say, says_nothing
from ...tools.catalog import Catalog
from ...turn.budget import get_limit_reason
from ...turn.end import Facts, build_answer_id
from ...turn.scope import RunScope, make_scope
from ..conversation import sign_message
from ..parts import Parts
from .turn import end_direct

_MOST_ASKS = 2
_READ = 6_000
"""Characters of a request that are enough to choose by, and to answer."""


async def choose(state: RouterState, runtime: Runtime[Context], *, parts: Parts) -> RouterUpdate:
    """Choose a graph and report the choice; a request that goes on stays with its graph."""
    scope = await make_scope(state, runtime, parts)
    catalog = await parts.toolbox.catalog(scope.user)
    if state.way and (state.allowance > 1 or state.is_steered):
        update = RouterUpdate(way=state.way, why=say("route_goes_on"))
    elif not catalog.specs():
        update = RouterUpdate(way="direct", why=say("route_no_tools"))
    else:
        update = await _choose_by_model(scope, state, parts, catalog)
    if "why" in update:
        scope.emit({"type": "route", "graph": update["way"], "why": update["why"]})
    return update


async def _choose_by_model(
    scope: RunScope, state: RouterState, parts: Parts, catalog: Catalog
) -> RouterUpdate:
    known = {
        "tools": catalog.summaries(state.request),
        "more_tools": catalog.deferred_tools.render_listing(),
        "conversation": state.conversation,
        "additional_context": scope.join_hook_notes(state.hook_context),
        "request": shorten_text(state.request, _READ),
    }
    name, whole = build_answer_id(state), len(state.request) <= _READ
    answer = await ask(
        scope, parts.models, "dispatcher",
        scope.build_opening("dispatcher", known, state.attachments), contract=RouteChoice,
        listeners=make_draft_listeners(scope, name, "dispatcher", field="answer") if whole else (),
        most_asks=_MOST_ASKS,
    )  # fmt: skip
    used = scope.add_seconds(answer.spend)
    spent = RouterUpdate(spend=used, warnings=scope.notes)
    if answer.refused == "model":
        halt = get_limit_reason(answer.refused)
        return spent | RouterUpdate(way="direct", halt=halt, unmet=answer.problems)
    chosen = answer.parsed or RouteChoice(graph="react", why=say("route_not_said"))
    update = spent | RouterUpdate(way=chosen.graph, why=chosen.why)
    if chosen.graph == "direct" and whole and not says_nothing(chosen.answer, state.request):
        facts = Facts(done=True, answer=chosen.answer, message=name)
        said = AIMessage(chosen.answer)
        return update | end_direct(facts, said, "dispatcher", answer.reasoning, used)
    if chosen.graph == "react" and chosen.step.strip():  # the first thought is done with that
        said = AIMessage(chosen.step)
        update["messages"] = [sign_message(said, make_message_id(state), "thought")]
    return update


async def judge(state: RouterState, runtime: Runtime[Context], *, parts: Parts) -> RouterUpdate:
    """Note how the graph ended; if a stronger one may help, it takes over.

    Its writes are then known to whoever makes the same call, and its last words are removed.
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

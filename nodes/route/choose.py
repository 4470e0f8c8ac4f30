"""choose: which graph takes the request; by rules, or by one call of a cheap model."""

from langgraph.runtime import Runtime

from ...models.ask import ask
from ...state.context import Context
from ...state.route import (
    RouteChoice,
    RouterState,
    RouterUpdate,
    choose_by_rule,
    strip_generic_words,
)
from ...text.canonical import shorten_text
from ...text.sentences import say
from ...tools.catalog import Catalog
from ...turn.budget import get_limit_reason
from ...turn.scope import RunScope, make_scope
from ..parts import Parts

_MOST_ASKS = 2
_READ = 6_000
"""Characters of a request that are enough to choose by."""


async def choose(state: RouterState, runtime: Runtime[Context], *, parts: Parts) -> RouterUpdate:
    """Choose, and tell what was chosen and why; a request that goes on stays where it is."""
    scope = await make_scope(state, runtime, parts)
    if state.way and (state.allowance > 1 or state.is_steered):
        update = RouterUpdate(way=state.way, why=say("route_goes_on"))
    else:
        catalog = await parts.toolbox.catalog(scope.user)
        words = strip_generic_words(state.request[:_READ])
        likely = len(catalog.deferred_tools.find(words, len(catalog.tools)))
        rule = choose_by_rule(
            state.request, scope.context, attached=bool(state.attachments), likely=likely
        )
        if rule is None:
            update = await _choose_by_model(scope, state, parts, catalog)
        else:
            update = RouterUpdate(way=rule[0], why=say(rule[1]))
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
        "request": shorten_text(state.request, _READ),
    }
    request = scope.build_opening("dispatcher", known, state.attachments)
    answer = await ask(
        scope, parts.models, "dispatcher", request, contract=RouteChoice, most_asks=_MOST_ASKS
    )
    chosen = answer.parsed or RouteChoice(graph="react", why=say("route_not_said"))
    spent = RouterUpdate(spend=scope.add_seconds(answer.spend), warnings=scope.notes)
    if answer.refused == "model":
        halt = get_limit_reason(answer.refused)
        return spent | RouterUpdate(way="direct", halt=halt, unmet=answer.problems)
    return spent | RouterUpdate(way=chosen.graph, why=chosen.why)

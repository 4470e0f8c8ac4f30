"""choose: which graph takes the request; by rules, or by one call of a cheap model."""

from langgraph.runtime import Runtime

from ...models.ask import ask
from ...state.context import Context
from ...state.route import Features, RouteChoice, RouterState, RouterUpdate, by_rule, telling
from ...text.canonical import shortened
from ...text.told import say
from ...tools.catalog import Catalog
from ...turn.budget import limit_reason
from ...turn.scope import RunScope, scope_of
from ..parts import Parts

_MOST_ASKS = 2
_READ = 6_000
"""Characters of a request that are enough to choose by."""


async def choose(state: RouterState, runtime: Runtime[Context], *, parts: Parts) -> RouterUpdate:
    """Choose, and tell what was chosen and why; a request that goes on stays where it is."""
    scope = await scope_of(state, runtime, parts)
    if state.way and (state.allowance > 1 or state.steered):
        update = RouterUpdate(way=state.way, why=say("route_goes_on"))
    else:
        catalog = await parts.toolbox.catalog(scope.user)
        rule = by_rule(_seen(state, catalog), scope.context)
        if rule is None:
            update = await _by_model(scope, state, parts, catalog)
        else:
            update = RouterUpdate(way=rule[0], why=say(rule[1]))
    if "why" in update:
        scope.emit({"type": "route", "graph": update["way"], "why": update["why"]})
    return update


def _seen(state: RouterState, catalog: Catalog) -> Features:
    found = catalog.shelf.find(telling(state.request[:_READ]), len(catalog.tools))
    return Features.of(
        state.request, attached=bool(state.attachments), tools=len(catalog.tools),
        likely=len(found),
    )  # fmt: skip


async def _by_model(
    scope: RunScope, state: RouterState, parts: Parts, catalog: Catalog
) -> RouterUpdate:
    known = {
        "tools": catalog.summaries(state.request),
        "more_tools": catalog.shelf.listed(),
        "conversation": state.conversation,
        "request": shortened(state.request, _READ),
    }
    request = scope.opening("dispatcher", known, state.attachments)
    answer = await ask(
        scope, parts.models, "dispatcher", request, contract=RouteChoice, most_asks=_MOST_ASKS
    )
    chosen = answer.parsed or RouteChoice(graph="react", why=say("route_not_said"))
    spent = RouterUpdate(spend=scope.used(answer.spend), warnings=scope.notes)
    if answer.refused == "model":
        halt = limit_reason(answer.refused)
        return spent | RouterUpdate(way="direct", halt=halt, unmet=answer.problems)
    return spent | RouterUpdate(way=chosen.graph, why=chosen.why)

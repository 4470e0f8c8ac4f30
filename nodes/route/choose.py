"""choose: which graph takes the request; by rules, or by one call of a cheap model."""

from langgraph.runtime import Runtime

from ...models.ask import ask
from ...state.context import Context
from ...state.route import RouteChoice, RouterState, RouterUpdate, by_rule
from ...state.told import say
from ...turn.scope import RunScope, scope_of
from ..parts import Parts


async def choose(state: RouterState, runtime: Runtime[Context], *, parts: Parts) -> RouterUpdate:
    """Choose, and tell what was chosen and why."""
    scope = await scope_of(state, runtime, parts)
    rule = by_rule(state.request)
    if rule is None:
        update = await _by_model(scope, state, parts)
    else:
        update = RouterUpdate(way=rule, why=say("route_by_rule"))
    scope.emit({"type": "route", "graph": update["way"], "why": update["why"]})
    return update


async def _by_model(scope: RunScope, state: RouterState, parts: Parts) -> RouterUpdate:
    catalog = await parts.toolbox.catalog(scope.user)
    known = {"request": state.request, "conversation": state.conversation}
    known["tools"] = catalog.summaries(state.request)
    request = scope.opening("dispatcher", known, state.attachments)
    answer = await ask(scope, parts.models, "dispatcher", request, contract=RouteChoice)
    chosen = answer.parsed or RouteChoice(graph="react", why=say("route_not_said"))
    spent = RouterUpdate(spend=scope.used(answer.spend), warnings=scope.notes)
    return spent | RouterUpdate(way=chosen.graph, why=chosen.why)

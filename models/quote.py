"""What a user turn may take at most, whatever its models do: its limits, at the dearest prices.

Every request to a model is taken out of the run's budget before it is made, repeated and repairing
ones too, and so is the most it can take (see `allowance`): the limits are the bound.
"""

import asyncio
from collections.abc import Collection, Iterable
from math import ceil, inf
from typing import Final

from ..state.context import RATES, Context
from ..state.errors import SettingsError
from ..state.outcome import Quote
from ..state.roles import TIERS
from .allowance import LARGEST, MONEY_OUTPUT, longest_output
from .choice import Chosen, Models, window_of
from .prices import Price, price_of, unpriced

_LAST: Final = 1
"""The call beyond `max_model_calls` that a turn may end with."""
_MILLION: Final = 1_000_000


async def quote(models: Models, roles: Collection[str], context: Context) -> Quote:
    """The bound of a turn under these settings.

    Raises:
        ModelUnavailable: A model cannot be built.
        SettingsError: There is a limit in dollars, and the price of a model is not known.
    """
    asked = await asyncio.to_thread(possible, models, roles, context)
    prices = {one.name: await price_of(one, context) for one in asked}
    calls = context.max_model_calls + _LAST
    output = max(_most_output(one, context) for one in asked)
    each = max(window_of(one.model) or inf for one in asked) + output
    tokens = int(min(context.max_tokens, calls * each))
    usd = _dollars(prices.values(), context, calls, tokens, min(tokens, calls * output))
    unknown = [name for name, price in prices.items() if price is None]
    if unknown and context.max_cost is not None:
        raise SettingsError(unpriced(unknown))
    notes = ["Taking up a turn that has ended gives it its limits anew."]
    if unknown:
        notes.append(f"No price is known of {', '.join(unknown)}.")
    return Quote(
        model_calls=calls,
        tool_calls=context.max_tool_calls,
        tokens=tokens,
        usd=usd,
        seconds=context.max_seconds,
        models={name: _shown(price) for name, price in prices.items()},
        notes=notes,
    )


def possible(models: Models, roles: Collection[str], context: Context) -> list[Chosen]:
    """Every model that may be asked: for each role in each tier, and the fallbacks; each once."""
    found: dict[str, Chosen] = {}
    lowest = context.model_copy(update={"tiers": dict.fromkeys(roles, TIERS[0])})
    for role in roles:
        for asked, bump in ((context, 0), *((lowest, bump) for bump in range(len(TIERS)))):
            one = models.choose(role, asked, bump=bump)
            found |= {other.name: other for other in (one, *one.fallbacks)}
    return list(found.values())


def _most_output(chosen: Chosen, context: Context) -> int:
    """Tokens that a call may write."""
    if context.max_output_tokens is not None:
        return context.max_output_tokens
    own = longest_output(chosen.model) or LARGEST[1]
    return own if context.max_cost is None else min(own, MONEY_OUTPUT)


def _dollars(
    prices: Iterable[Price | None], context: Context, calls: int, tokens: int, output: int
) -> float | None:
    """What all calls can cost, all of them asked of the dearest model."""
    limit = inf if context.max_cost is None else context.max_cost
    most = 0.0
    for price in prices:
        if price is None:
            return context.max_cost
        rates = price.dearest
        written = output if rates.output > rates.dearest_input else 0
        paid = (tokens - written) * rates.dearest_input + written * rates.output
        most = max(most, paid + calls * rates.call)
    return min(limit, ceil(round(most * _MILLION, 3)) / _MILLION)


def _shown(price: Price | None) -> dict[str, float] | None:
    if price is None:
        return None
    rates = price.dearest
    values = (rates.dearest_input, rates.output, rates.cached)
    return {name: round(v * _MILLION, 6) for name, v in zip(RATES, values, strict=True)}

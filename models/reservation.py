"""What one model call may take: estimated before it, held back while it runs, counted after it.

The estimate is an upper bound. Of the input a token is at least two bytes, and one if a provider
has counted more; the provider is told how much may be written, if that matters.

`quote` says what a user turn may take at most: its limits, at the dearest prices. Every request is
taken out of the run's budget before it is made, repeated and repairing ones too, and so is the
most it can take: the limits are the bound.
"""

import asyncio
import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from math import ceil, inf
from typing import Any, Final

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage

from ..state.attachments import blocks_in
from ..state.context import RATES, Context
from ..state.contracts import Contract
from ..state.errors import SettingsError
from ..state.outcome import Quote, Spend, add_spend, model_spend
from ..state.roles import TIERS
from ..state.snapshot import count_call_tokens
from ..store.locks.control import is_ending
from ..turn.budget import Budget, CallMaximum, Limit
from ..turn.scope import RunScope
from .choice import Chosen, Models, window_of
from .prices import Price, describe_unpriced, price_of
from .refusals import read_broken_answer
from .request import Asker, Call, NotAsked, Reply, Request

MONEY_OUTPUT: Final = 16_384
"""Tokens a call may write under a limit in dollars, unless something else is set."""
_LONGEST_OUTPUT: Final = 128_000
"""Of models that do not tell."""
_LEAST_OUTPUT: Final = 256
"""Fewer are not worth a call."""
LARGEST: Final = (2_200_000, 400_000)
"""Input and output of a call, whatever the model."""
_PLENTY: Final = 10
"""If so many of the largest calls are left, nothing is estimated."""
_PER_MESSAGE, _PER_TOOLS, _PER_BLOCK = 16, 512, 50_000
"""Tokens beside the text: roles and marks, what providers add to tools, a picture."""
_FEWEST: Final = 16
"""Characters of a token, on average, that are still believed."""
_PATIENCE: Final = 0.02

_SETTINGS: Final = ("max_tokens", "max_output_tokens", "max_completion_tokens", "num_predict")
"""What chat models call the tokens they may write."""


async def charge_budget(asker: Asker, inner: Call, request: Request) -> Reply:
    """Reserve the most that a call can take, and afterwards count what it took, however it ends.

    Raises:
        NotAsked: A limit is reached.
    """
    allowance = await reserve_call(asker.scope, request)
    asker.sent, messages = allowance.model, request.messages
    try:
        reply = await inner(replace(request, model=allowance.model))
    except Exception as error:
        # An answer that nobody can read counts like any other.
        if (broken := read_broken_answer(error)) is None:
            _settle(asker, allowance, model_spend(asker.role, request.chosen.name, 0, 0))
            raise
        reply = Reply(broken, request)
    except BaseException:
        is_cut = is_ending(asker.scope.run.control) or asker.scope.budget.seconds_left <= 0
        heard = asker.cut if is_cut else None
        _settle(asker, allowance, allowance.count_spend(asker.role, heard, messages))
        raise
    asker.answered, asker.asks = request.chosen.name, asker.asks + 1
    if text := allowance.describe_overcount(reply.message):
        asker.scope.emit({"type": "warning", "text": text})
    _settle(asker, allowance, allowance.count_spend(asker.role, reply.message, messages))
    return reply


def _settle(asker: Asker, allowance: "Reservation", spend: Spend) -> None:
    asker.spend = add_spend(asker.spend, spend)
    asker.scope.budget.settle(allowance.most, spend)
    for warning in asker.scope.budget.warn_near_limits():
        asker.scope.emit(warning)


@dataclass(frozen=True)
class Reservation:
    """What is held back for one call."""

    chosen: Chosen
    model: BaseChatModel
    """As it is asked: with a limit on its output, if that matters."""
    input_tokens: int
    output_tokens: int
    price: Price | None

    @property
    def most(self) -> CallMaximum:
        """What is held back."""
        usd = self.price.most(self.input_tokens, self.output_tokens) if self.price else 0.0
        return CallMaximum(self.input_tokens + self.output_tokens, usd)

    def count_spend(
        self, role: str, message: AIMessage | None, messages: Sequence[BaseMessage]
    ) -> Spend:
        """What the call took. Without an answer all it could: a provider may bill what is cut."""
        tokens = self.input_tokens, self.output_tokens
        if message:
            read, wrote = count_call_tokens(messages, message)
            tokens = read, wrote
            if self.input_tokens < LARGEST[0]:  # else limits are far, and histories long
                length = sum(map(_length, messages))
                tokens = _correct_count(read, length), _correct_count(wrote, _length(message))
        used = max(0, min(tokens[0], self.input_tokens)), max(0, min(tokens[1], self.output_tokens))
        usd = None
        if self.price is not None:
            usd = self.price.compute_cost(message, *used) if message else self.most.usd
        return model_spend(role, self.chosen.name, *used, usd)

    def describe_overcount(self, message: AIMessage) -> str:
        """The warning if a provider counts more than the call could take; else ""."""
        usage = message.usage_metadata
        if not usage:
            return ""
        if usage["input_tokens"] > self.input_tokens:
            self.chosen.quirks.bytes_per_token = 1
        elif usage["output_tokens"] <= self.output_tokens:
            return ""
        return (
            f"The provider of {self.chosen.name} counted {usage['input_tokens']:,} tokens of input"
            f" and {usage['output_tokens']:,} of output for a call that can take at most"
            f" {self.input_tokens:,} and {self.output_tokens:,}: what is beyond is not counted."
        )


def _length(message: BaseMessage) -> int:
    """Characters of a message that is text, and of its calls."""
    content, calls = message.content, getattr(message, "tool_calls", None)
    length = len(content) if isinstance(content, str) else 0
    return length + sum(len(str(call["args"])) for call in calls) if calls else length


def _correct_count(count: int, length: int) -> int:
    """A provider's count; the estimate if it is a fraction of what such a text has."""
    return count if count * _FEWEST >= length else round(length / 4)


async def reserve_call(scope: RunScope, request: Request) -> Reservation:
    """Take one call out of the budget; waits for calls under way if they hold what is left.

    Raises:
        NotAsked: A limit is reached.
    """
    budget, most = scope.budget, scope.context.max_output_tokens
    chosen, price, money = request.chosen, request.price, budget.compute_room("usd") < inf
    while True:
        short: Limit | None = None
        if plenty := not money and budget.compute_room("tokens") >= _PLENTY * sum(LARGEST):
            size, output = LARGEST[0], most or LARGEST[1]
        else:
            size = estimate_input(chosen, request.messages, request.tools, request.contract)
            output, short = _limit_output(scope, chosen, price, size)
        if short is None:
            model = chosen.model if plenty and most is None else _with_output_limit(chosen, output)
            allowance = Reservation(chosen, model, size, output, price)
            if budget.reserve_model_call(allowance.most):
                await _record_call(budget, allowance)
                return allowance
            short = budget.reached_limit or "model_calls"
        if not (short in ("tokens", "usd") and budget.has_calls_under_way):
            budget.mark_short(short)
            raise NotAsked(by=short)
        await asyncio.sleep(_PATIENCE)


async def _record_call(budget: Budget, allowance: Reservation) -> None:
    """Have a call on record; one that then is not made holds nothing that others wait for."""
    try:
        await budget.record_usage()
    except BaseException:
        budget.settle(allowance.most, Spend())
        raise


def _limit_output(
    scope: RunScope, chosen: Chosen, price: Price | None, size: int
) -> tuple[int, Limit | None]:
    """How much a call may write, or of which limit too little is left for it.

    As long as that leaves enough, a call like it is kept for the last words of the turn.
    """
    wanted: float = longest_output(chosen.model) or _LONGEST_OUTPUT
    rooms: dict[Limit, float] = {"tokens": scope.budget.compute_room("tokens") - size}
    spare: dict[Limit, float] = {"tokens": size + _LEAST_OUTPUT}
    usd = scope.budget.compute_room("usd")
    if price is not None and usd < inf:
        rates = price.find_rates(size + _LEAST_OUTPUT)
        rooms["usd"], spare["usd"] = inf, 0
        rest = usd - price.most(size, 0)
        if rates.output or rest < 0:
            rooms["usd"] = rest / (rates.output or 1)
            spare["usd"] = price.most(size, _LEAST_OUTPUT) / (rates.output or 1)
    if scope.context.max_output_tokens:
        wanted = min(wanted, scope.context.max_output_tokens)
    elif "usd" in rooms or rooms["tokens"] < wanted:
        wanted = min(wanted, MONEY_OUTPUT)
    least = min(wanted, _LEAST_OUTPUT)
    if short := next((name for name, room in rooms.items() if room < least), None):
        return 0, short
    fair = min(rooms[name] - spare[name] for name in rooms)
    return int(min(wanted, fair if fair >= least else min(rooms.values()))), None


def longest_output(model: BaseChatModel) -> int | None:
    """How much a model writes at most, as it was built or as its profile says; None: not known."""
    profile = getattr(model, "profile", None) or {}
    values = [*(getattr(model, n, None) for n in _SETTINGS), profile.get("max_output_tokens")]
    return min((v for v in values if isinstance(v, int) and v > 0), default=None)


def _with_output_limit(chosen: Chosen, output: int) -> BaseChatModel:
    """The model with a limit on its output, if it has such a setting."""
    names = [n for n in _SETTINGS if n in type(chosen.model).model_fields]
    if not names or names[0] in chosen.quirks.dropped:
        return chosen.model
    return chosen.model.model_copy(update={names[0]: output})


def estimate_input(
    chosen: Chosen,
    messages: Sequence[BaseMessage],
    tools: Sequence[dict[str, Any]] = (),
    contract: type[Contract] | None = None,
) -> int:
    """The tokens that a request can have at most; no model takes more than its window."""
    size = sum(map(_size, messages))
    if tools or contract:
        shown: Any = tools or (contract and contract.wire_schema())
        size += len(json.dumps(shown, ensure_ascii=False).encode("utf-8", "replace"))
        size += _PER_TOOLS * chosen.quirks.bytes_per_token
    blocks = sum(len(blocks_in(message)) for message in messages)
    tokens = size // chosen.quirks.bytes_per_token + _PER_MESSAGE * (len(messages) + 1)
    return int(min(tokens + _PER_BLOCK * blocks, window_of(chosen.model) or inf))


def _size(message: BaseMessage) -> int:
    """Bytes of what a model reads of a message."""
    content, calls = message.content, getattr(message, "tool_calls", None)
    text = content if isinstance(content, str) else message.text
    if calls:
        text += str(calls)
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


# What a user turn may take at most, whatever its models do.

_LAST: Final = 1
"""The call beyond `max_model_calls` that a turn may end with."""
_MILLION: Final = 1_000_000


async def quote(models: Models, roles: Collection[str], context: Context) -> Quote:
    """The bound of a turn under these settings.

    Raises:
        ModelUnavailable: A model cannot be built.
        SettingsError: There is a limit in dollars, and the price of a model is not known.
    """
    possible = await asyncio.to_thread(_list_possible_models, models, roles, context)
    prices = {model.name: await price_of(model, context) for model in possible}
    calls = context.max_model_calls + _LAST
    output = max(_most_output(model, context) for model in possible)
    each = max(window_of(model.model) or inf for model in possible) + output
    tokens = int(min(context.max_tokens, calls * each))
    usd = _estimate_dollars(prices.values(), context, calls, tokens, min(tokens, calls * output))
    unknown = [name for name, price in prices.items() if price is None]
    if unknown and context.max_cost is not None:
        raise SettingsError(describe_unpriced(unknown))
    notes = ["Resuming a finished turn starts with fresh limits."]
    if unknown:
        notes.append(f"No price is known of {', '.join(unknown)}.")
    return Quote(
        model_calls=calls,
        tool_calls=context.max_tool_calls,
        tokens=tokens,
        usd=usd,
        seconds=context.max_seconds,
        models={name: _render_price(price) for name, price in prices.items()},
        notes=notes,
    )


def _list_possible_models(models: Models, roles: Collection[str], context: Context) -> list[Chosen]:
    """Every model that may be asked: for each role in each tier, and the fallbacks; each once."""
    by_name: dict[str, Chosen] = {}
    lowest = context.model_copy(update={"tiers": dict.fromkeys(roles, TIERS[0])})
    for role in roles:
        for settings, bump in ((context, 0), *((lowest, bump) for bump in range(len(TIERS)))):
            chosen = models.choose(role, settings, bump=bump)
            by_name |= {other.name: other for other in (chosen, *chosen.fallbacks)}
    return list(by_name.values())


def _most_output(chosen: Chosen, context: Context) -> int:
    """Tokens that a call may write."""
    if context.max_output_tokens is not None:
        return context.max_output_tokens
    own = longest_output(chosen.model) or LARGEST[1]
    return own if context.max_cost is None else min(own, MONEY_OUTPUT)


def _estimate_dollars(
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


def _render_price(price: Price | None) -> dict[str, float] | None:
    if price is None:
        return None
    values = (price.dearest.dearest_input, price.dearest.output, price.dearest.cached)
    return {name: round(v * _MILLION, 6) for name, v in zip(RATES, values, strict=True)}

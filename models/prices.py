"""What models cost: as the settings say, else by the package genai-prices, which asks nobody.

`attach_price` is on the path of a call if a price may be known or there is a limit in dollars.
"""

import asyncio
import importlib.util
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from math import inf
from typing import Any, Final, NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage

from ..state.context import Context
from ..state.errors import SettingsError
from .choice import OFFLINE, PROVIDERS, Chosen, is_script
from .request import Asker, Call, Reply, Request

_MILLION: Final = 1_000_000
# What genai-prices calls a provider, if it does not know LangChain's word for it.
_THEIRS: Final = {
    "azure_openai": "azure", "azure_ai": "azure", "bedrock_mantle_anthropic": "aws",
    "bedrock_mantle_openai": "aws", "together": "together-ai",
}  # fmt: skip


async def attach_price(asker: Asker, inner: Call, request: Request) -> Reply:
    """Find the price of the model, by which its call is reserved and counted.

    Raises:
        SettingsError: It is not known, and there is a limit in dollars.
    """
    price = await price_of(request.chosen, asker.scope.context)
    if price is None and asker.scope.budget.compute_room("usd") < inf:
        raise SettingsError(describe_unpriced([request.chosen.name]))
    return await inner(replace(request, price=price))


class Rates(NamedTuple):
    """US dollars: of a token by its kind, and of a call."""

    input: float
    output: float
    cached: float
    written: float
    """Input that the provider writes into its cache."""
    kept: float
    """Input that it writes there for an hour."""
    call: float = 0.0

    @property
    def dearest_input(self) -> float:
        """Whatever the provider's cache does."""
        return max(self.input, self.cached, self.written, self.kept)


@dataclass(frozen=True)
class Price:
    """Rates by the tokens of input from which they hold for all of a call, lowest first."""

    tiers: tuple[tuple[int, Rates], ...]

    def most(self, input_tokens: int, output_tokens: int) -> float:
        """What a call of at most so many tokens can cost."""
        rates = self.find_rates(input_tokens)
        return input_tokens * rates.dearest_input + output_tokens * rates.output + rates.call

    def find_rates(self, input_tokens: int) -> Rates:
        """The highest rates of calls with at most so much input."""
        return _find_dearest(rates for start, rates in self.tiers if start <= input_tokens)

    @property
    def dearest(self) -> Rates:
        """The highest rate of each kind."""
        return _find_dearest(rates for _, rates in self.tiers)

    def compute_cost(self, message: AIMessage, input_tokens: int, output_tokens: int) -> float:
        """What an answer cost, input from the provider's cache at its own rate."""
        rates = [rates for start, rates in self.tiers if start <= input_tokens][-1]
        usage: Mapping[str, Any] = message.usage_metadata or {}
        details = usage.get("input_token_details") or {}
        rest, paid = input_tokens, output_tokens * rates.output + rates.call
        for rate, names in (
            (rates.cached, ("cache_read",)),
            (rates.written, ("cache_creation", "ephemeral_5m_input_tokens")),
            (rates.kept, ("ephemeral_1h_input_tokens",)),
        ):
            counts = [details.get(name) for name in names]
            count = min(rest, sum(c for c in counts if isinstance(c, int) and c > 0))
            rest, paid = rest - count, paid + count * rate
        return paid + rest * rates.input


def _find_dearest(rates: Iterable[Rates]) -> Rates:
    return Rates(*map(max, zip(*rates, strict=True)))


async def price_of(chosen: Chosen, context: Context) -> Price | None:
    """The price of a model; None if nobody knows it."""
    quirks = chosen.quirks
    price = read_price_setting(chosen.name, context)
    if price is None and quirks.price is ...:
        # Once for a model: the package takes a third of a second to import.
        quirks.price = await asyncio.to_thread(find_listed_price, chosen.name, chosen.model)
    return price or quirks.price


def read_price_setting(name: str, context: Context) -> Price | None:
    """The price of a model as the settings say."""
    for key in (name, _strip_provider(name)):
        if price := context.prices.get(key):
            return _from_settings(tuple(sorted(price.items())))
    return None


def _strip_provider(name: str) -> str:
    provider, _, bare = name.partition(":")
    return bare if provider in PROVIDERS else name


def find_listed_price(name: str, model: BaseChatModel) -> Price | None:
    """The price of a model by the package's list; the offline model costs nothing."""
    if model._llm_type == OFFLINE:
        return FREE
    if is_script(model) or not has_price_list():
        return None
    url = str(getattr(model, "openai_api_base", None) or "")
    provider = str(model._get_ls_params().get("ls_provider", ""))
    if _strip_provider(name) != name:
        provider = name.partition(":")[0]
    return _look_up_price(_strip_provider(name), _THEIRS.get(provider, provider), url)


FREE: Final = Price(((0, Rates(0, 0, 0, 0, 0)),))


@cache
def _from_settings(price: tuple[tuple[str, float], ...]) -> Price:
    rate = {name: value / _MILLION for name, value in price}
    plain, cached = rate["input"], rate.get("cached_input", rate["input"])
    return Price(((0, Rates(plain, rate["output"], cached, plain, plain)),))


@cache
def has_price_list() -> bool:
    """Whether prices can be looked up: the package is there."""
    return importlib.util.find_spec("genai_prices") is not None


@cache
def _look_up_price(model: str, provider: str, url: str) -> Price | None:
    """The price that the package knows; of a server of one's own it knows none."""
    from genai_prices.data_snapshot import get_snapshot  # noqa: PLC0415 - 0.3 s, and an extra

    try:
        where = (None, url) if url else (provider or None, None)
        _, entry = get_snapshot().find_provider_model(model, None, *where)
    except LookupError:
        return None
    return _read(entry)


def _read(entry: Any) -> Price | None:
    """What the package says of a model; if prices depend on the hour, the dearest."""
    prices = [entry.get_prices(datetime.now(tz=UTC))]
    if isinstance(entry.prices, list):
        prices += [row.prices for row in entry.prices if hasattr(row.constraint, "start_time")]
    rows = [{k: v for k, v in vars(row).items() if v is not None} for row in prices]
    rows = [row for row in rows if {"input_mtok", "output_mtok"} <= row.keys()]
    if not rows:
        return None
    starts = {0} | {t.start for row in rows for v in row.values() for t in getattr(v, "tiers", ())}
    tiers = [(start, _find_dearest(_rates(row, start) for row in rows)) for start in sorted(starts)]
    return Price(tuple(tiers))


def _rates(row: Mapping[str, Any], start: int) -> Rates:
    def rate(name: str, otherwise: float = 0.0) -> float:
        value = row.get(name)
        if value is None:
            return otherwise
        for tier in getattr(value, "tiers", ()):
            value = tier.price if tier.start <= start else value
        return float(getattr(value, "base", value)) / _MILLION

    plain = rate("input_mtok")
    return Rates(
        plain, rate("output_mtok"), rate("cache_read_mtok", plain),
        rate("cache_write_mtok", plain), rate("cache_write_1h_mtok", plain),
        call=rate("requests_kcount") * 1_000,
    )  # fmt: skip


def describe_unpriced(names: Iterable[str]) -> str:
    """What to do about models whose price is not known, in words."""
    many = sorted(set(names))
    each = ", ".join(f'"{name}": {{"input": …, "output": …}}' for name in many)
    package = "" if has_price_list() else "install the extra `prices`, or "
    return (
        f"A limit in US dollars cannot be kept: the price of {', '.join(many)} is not known. To"
        f" go on, {package}give it in dollars per million tokens by Context(prices={{{each}}}),"
        " or leave the limit (max_cost) out."
    )

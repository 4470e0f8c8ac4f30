"""What models cost: as the settings say, else by the package genai-prices, which asks nobody."""

import asyncio
import importlib.util
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, partial
from typing import Any, Final

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage

from ..state.context import Context
from .choice import OFFLINE, PROVIDERS, Chosen

_MILLION: Final = 1_000_000
_OURS: Final = frozenset({"offline", "scripted"})
"""Kinds of models that no provider bills."""
# What genai-prices calls a provider, where it does not know LangChain's word for it.
_THEIRS: Final = {
    "azure_openai": "azure", "azure_ai": "azure", "bedrock_mantle_anthropic": "aws",
    "bedrock_mantle_openai": "aws", "together": "together-ai",
}  # fmt: skip


@dataclass(frozen=True)
class Rates:
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
        rates = self.up_to(input_tokens)
        return input_tokens * rates.dearest_input + output_tokens * rates.output + rates.call

    def up_to(self, input_tokens: int) -> Rates:
        """The highest rates of calls with at most so much input."""
        return _dearest(rates for start, rates in self.tiers if start <= input_tokens)

    @property
    def dearest(self) -> Rates:
        """The highest rate of each kind."""
        return _dearest(rates for _, rates in self.tiers)

    def of(self, message: AIMessage, input_tokens: int, output_tokens: int) -> float:
        """What an answer cost, input from the provider's cache at its own rate."""
        rates = [rates for start, rates in self.tiers if start <= input_tokens][-1]
        usage: Mapping[str, Any] = message.usage_metadata or {}
        told = usage.get("input_token_details") or {}
        left, paid = input_tokens, output_tokens * rates.output + rates.call
        for rate, names in (
            (rates.cached, ("cache_read",)),
            (rates.written, ("cache_creation", "ephemeral_5m_input_tokens")),
            (rates.kept, ("ephemeral_1h_input_tokens",)),
        ):
            counts = [told.get(name) for name in names]
            count = min(left, sum(c for c in counts if isinstance(c, int) and c > 0))
            left, paid = left - count, paid + count * rate
        return paid + left * rates.input


def _dearest(rates: Iterable[Rates]) -> Rates:
    one, *rest = rates
    for other in rest:
        one = Rates(*(max(getattr(one, n), getattr(other, n)) for n in Rates.__annotations__))
    return one


async def price_of(chosen: Chosen, context: Context) -> Price | None:
    """The price of a model; None where nobody knows it."""
    quirks = chosen.quirks
    price = given_price(chosen.name, context)
    if price is None and quirks.price is ...:
        # Once for a model: the package takes a third of a second to import.
        ours = chosen.model._llm_type in _OURS
        looking = partial(listed_price, chosen.name, chosen.model)
        quirks.price = looking() if ours else await asyncio.to_thread(looking)
    return price or quirks.price


def given_price(name: str, context: Context) -> Price | None:
    """The price of a model as the settings say."""
    for key in (name, _bare(name)):
        if given := context.prices.get(key):
            return _given(tuple(sorted(given.items())))
    return None


def _bare(name: str) -> str:
    provider, _, bare = name.partition(":")
    return bare if provider in PROVIDERS else name


def listed_price(name: str, model: BaseChatModel) -> Price | None:
    """The price of a model by the package's list; the offline model costs nothing."""
    if model._llm_type in _OURS:
        return FREE if model._llm_type == OFFLINE else None
    if not known_here():
        return None
    url = str(getattr(model, "openai_api_base", None) or "")
    provider = name.partition(":")[0] if _bare(name) != name else _provider_of(model)
    return _looked_up(_bare(name), _THEIRS.get(provider, provider), url)


def _provider_of(model: BaseChatModel) -> str:
    return str(model._get_ls_params().get("ls_provider", ""))


FREE: Final = Price(((0, Rates(0, 0, 0, 0, 0)),))


@cache
def _given(price: tuple[tuple[str, float], ...]) -> Price:
    rate = {name: value / _MILLION for name, value in price}
    plain = rate["input"]
    return Price(
        ((0, Rates(plain, rate["output"], rate.get("cached_input", plain), plain, plain)),)
    )


@cache
def known_here() -> bool:
    """Whether prices can be looked up: the package is there."""
    return importlib.util.find_spec("genai_prices") is not None


@cache
def _looked_up(model: str, provider: str, url: str) -> Price | None:
    """The price that the package knows; of a server of one's own it knows none."""
    from genai_prices.data_snapshot import get_snapshot  # noqa: PLC0415 - 0.3 s, and an extra

    try:
        where = (None, url) if url else (provider or None, None)
        _, found = get_snapshot().find_provider_model(model, None, *where)
    except LookupError:
        return None
    return _read(found)


def _read(found: Any) -> Price | None:
    """What the package says of a model; where the hour counts, the dearest."""
    now = [found.get_prices(datetime.now(tz=UTC))]
    if isinstance(found.prices, list):
        now += [one.prices for one in found.prices if hasattr(one.constraint, "start_time")]
    told = [{k: v for k, v in vars(one).items() if v is not None} for one in now]
    told = [one for one in told if {"input_mtok", "output_mtok"} <= one.keys()]
    if not told:
        return None
    starts = {0} | {t.start for one in told for v in one.values() for t in getattr(v, "tiers", ())}
    return Price(tuple((at, _dearest(_rates(one, at) for one in told)) for at in sorted(starts)))


def _rates(told: Mapping[str, Any], start: int) -> Rates:
    def rate(name: str, otherwise: float = 0.0) -> float:
        value = told.get(name)
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


def unpriced(names: Iterable[str]) -> str:
    """What to do about models whose price is not known, in words."""
    many = sorted(set(names))
    each = ", ".join(f'"{name}": {{"input": …, "output": …}}' for name in many)
    package = "" if known_here() else "install the extra `prices`, or "
    return (
        f"A limit in US dollars cannot be kept: the price of {', '.join(many)} is not known. To"
        f" go on, {package}give it in dollars per million tokens by Context(prices={{{each}}}),"
        " or leave the limit (max_cost) out."
    )

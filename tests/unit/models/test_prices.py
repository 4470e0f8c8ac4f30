from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from loopwright.models.choice import Chosen
from loopwright.models.offline.model import OfflineModel
from loopwright.models.prices import find_listed_price, price_of
from loopwright.models.request import Request
from loopwright.models.reservation import Reservation, reserve_call
from loopwright.models.scripted import ScriptedModel
from loopwright.state.context import Context
from loopwright.turn.scope import RunScope
from support.adversary import Adversary
from support.scope import scope_with

MILLION = 1_000_000


def openai(name: str, **more: Any) -> ChatOpenAI:
    return ChatOpenAI(model=name, api_key=SecretStr("none"), **more)


def answered(read: int, wrote: int, **details: int) -> AIMessage:
    usage: Any = {"input_tokens": read, "output_tokens": wrote, "total_tokens": read + wrote}
    return AIMessage("", usage_metadata=usage | {"input_token_details": details})


def test_prices_of_the_package_are_found_by_langchains_names() -> None:
    by_name = find_listed_price("openai:gpt-4o", openai("gpt-4o"))
    assert by_name is not None
    assert by_name == find_listed_price("gpt-4o", openai("gpt-4o")), (
        "an instance tells its provider"
    )
    assert by_name.dearest.input * MILLION == pytest.approx(2.5)
    assert by_name.dearest.output * MILLION == pytest.approx(10)
    own = find_listed_price("azure_openai:gpt-4o", OfflineModel.model_construct())
    assert own is not None, "the offline model costs nothing, whatever it is called"
    assert own.most(MILLION, MILLION) == 0


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("openai:qwen3:8b", openai("qwen3:8b")),
        ("openai:gpt-4o", openai("gpt-4o", base_url="http://127.0.0.1:9/v1")),
        ("scripted", ScriptedModel([])),
        ("worst", Adversary()),
    ],
)
def test_a_model_that_nobody_bills_by_the_list_has_no_price(name: str, model: Any) -> None:
    assert find_listed_price(name, model) is None


def test_a_long_request_is_priced_by_its_tier_and_cached_input_by_its_rate() -> None:
    price = find_listed_price("anthropic:claude-sonnet-4-5", Adversary())
    assert price is not None
    few, many = (
        price.compute_cost(answered(1_000, 0), 1_000, 0),
        price.compute_cost(answered(0, 0), 300_000, 0),
    )
    assert few * MILLION == pytest.approx(3 * 1_000)
    assert many * MILLION == pytest.approx(6 * 300_000)
    cached = price.compute_cost(answered(1_000, 10, cache_read=800), 1_000, 10)
    assert cached * MILLION == pytest.approx(200 * 3 + 800 * 0.3 + 10 * 15)
    written = price.compute_cost(answered(1_000, 0, ephemeral_1h_input_tokens=1_000), 1_000, 0)
    assert few < written <= price.most(1_000, 0)
    lies = price.compute_cost(answered(1_000, 0, cache_read=-5, cache_creation=10**9), 1_000, 0)
    assert 0 < lies <= price.most(1_000, 0)


async def taken_by(scope: RunScope, chosen: Chosen) -> Reservation:
    price = await price_of(chosen, scope.context)
    messages = [AIMessage("x" * 1_000)]
    return await reserve_call(scope, Request(chosen=chosen, messages=messages, price=price))


@pytest.mark.req("S3-29")
async def test_a_provider_is_told_how_much_may_be_written_only_where_it_matters() -> None:
    chosen = Chosen("worst", "balanced", Adversary())
    prices = {"worst": {"input": 1.0, "output": 10.0}}
    cases: list[tuple[dict[str, Any], int | None]] = [
        ({}, None), ({"max_output_tokens": 99}, 99), ({"max_cost": 9}, 16_384),
        ({"max_cost": 0.01}, 637),
    ]  # fmt: skip
    for settings, told in cases:
        scope = scope_with(Context(prices=prices, **settings))
        taken = await taken_by(scope, chosen)
        assert getattr(taken.model, "max_tokens") == told, settings  # noqa: B009 - of any model

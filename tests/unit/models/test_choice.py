import subprocess
import sys

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_openai import ChatOpenAI

from loopwright.models.choice import OPENAI_TIERS, PROVIDERS, Chosen, Models
from loopwright.models.scripted import ScriptedModel
from loopwright.state.context import Context
from loopwright.state.errors import ModelUnavailable
from loopwright.state.roles import ROLES
from support.patience import PATIENCE

KEY = {"OPENAI_API_KEY": "sk-test"}


def scripted() -> ScriptedModel:
    return ScriptedModel([])


def spares(chosen: Chosen) -> list[str]:
    return [spare.name for spare in chosen.fallbacks]


@pytest.mark.req("S0-66")
def test_one_instance_serves_every_role() -> None:
    model = scripted()
    models = Models(model, environ=KEY)
    for role in ROLES:
        chosen = models.choose(role, Context(model="openai:other"))
        assert chosen.model is model
        assert chosen.name == "scripted"
        assert chosen.fallbacks == ()


@pytest.mark.req("S0-66")
def test_a_mapping_goes_by_role_then_by_tier_then_to_the_settings() -> None:
    planner, powerful = scripted(), scripted()
    models = Models({"planner": planner, "powerful": powerful}, environ={})
    context = Context(models={"executor": "openai:e"}, model="openai:all")
    options = Models({"planner": planner}, environ=KEY)
    assert models.choose("planner", context).model is planner
    assert models.choose("verifier", context).model is powerful
    with pytest.raises(ModelUnavailable, match="OPENAI_API_KEY"):
        models.choose("executor", context)
    assert options.choose("executor", context).name == "openai:e"
    assert options.choose("verifier", context).name == "openai:all"


def test_the_settings_go_by_role_then_tier_then_model_before_the_environment() -> None:
    models = Models(environ={**KEY, "LOOPWRIGHT_MODEL": "openai:env"})
    context = Context(models={"planner": "openai:p", "fast": "openai:f"}, model="openai:all")
    assert models.choose("planner", context).name == "openai:p"
    assert models.choose("observation", context).name == "openai:f"
    assert models.choose("executor", context).name == "openai:all"
    assert models.choose("executor", Context()).name == "openai:env"


def test_a_key_alone_gives_an_openai_model_for_each_tier() -> None:
    models = Models(environ=KEY)
    planner = models.choose("planner", Context())
    assert (planner.name, planner.tier) == (OPENAI_TIERS["powerful"], "powerful")
    assert isinstance(planner.model, ChatOpenAI)
    assert models.choose("executor", Context()).name == OPENAI_TIERS["balanced"]
    assert models.choose("observation", Context()).name == OPENAI_TIERS["fast"]
    moved = Context(tiers={"executor": "fast"})
    assert models.choose("executor", moved).name == OPENAI_TIERS["fast"]


def test_a_bump_is_a_stronger_tier_and_ends_at_powerful() -> None:
    models = Models(environ=KEY)
    tiers = [models.choose("observation", Context(), bump=n).tier for n in range(4)]
    assert tiers == ["fast", "balanced", "powerful", "powerful"]
    role, strong = scripted(), scripted()
    mapped = Models({"executor": role, "powerful": strong})
    assert mapped.choose("executor", Context()).model is role
    assert mapped.choose("executor", Context(), bump=1).model is strong


@pytest.mark.req("P-08")
def test_fallbacks_are_other_tiers_and_for_a_verifier_never_weaker_ones() -> None:
    models = Models(environ=KEY)
    fast, balanced, powerful = OPENAI_TIERS.values()
    assert spares(models.choose("executor", Context())) == [powerful, fast]
    assert spares(models.choose("planner", Context())) == [balanced, fast]
    assert spares(models.choose("verifier", Context())) == []
    weak = Context(tiers={"verifier": "balanced"})
    assert spares(models.choose("verifier", weak)) == [powerful]
    wished = Context(fallback_models=["openai:spare"])
    assert spares(models.choose("verifier", wished)) == ["openai:spare"]
    assert spares(models.choose("executor", Context(model="openai:one"))) == []


def test_without_anything_the_offline_model_answers() -> None:
    chosen = Models(environ={}).choose("planner", Context())
    assert chosen.name == "offline"
    assert chosen.model._llm_type == "offline"


def test_a_base_url_needs_a_model_name() -> None:
    models = Models(environ={**KEY, "OPENAI_BASE_URL": "http://127.0.0.1:1/v1"})
    with pytest.raises(ModelUnavailable, match="set LOOPWRIGHT_MODEL"):
        models.choose("planner", Context())
    assert models.choose("planner", Context(model="openai:qwen3")).name == "openai:qwen3"


@pytest.mark.parametrize("name", ["openai:qwen3:8b", "qwen3:8b", "mistral-small", "org/model"])
def test_a_compatible_server_takes_any_name_and_no_key(name: str) -> None:
    url = "http://127.0.0.1:1/v1"
    chosen = Models(environ={"OPENAI_BASE_URL": url, "LOOPWRIGHT_MODEL": name}).choose(
        "planner", Context()
    )
    assert isinstance(chosen.model, ChatOpenAI)
    assert chosen.model.model_name == name.removeprefix("openai:")
    assert chosen.model.openai_api_base == url
    assert chosen.model.stream_usage is True
    assert chosen.model.max_retries == 0


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("anthropic:claude", "langchain.anthropic.*install the package"),
        ("openai:gpt", "OPENAI_API_KEY"),
        ("no-such-model", "provider:name"),
    ],
)
def test_a_model_that_cannot_be_built_says_why_in_one_sentence(
    name: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ModelUnavailable, match=reason) as failure:
        Models(name, environ={}).choose("planner", Context())
    assert repr(name) in str(failure.value)
    assert "\n" not in str(failure.value)
    assert len(str(failure.value)) < 500


@pytest.mark.parametrize(
    "model", ["", " ", 7, {"planner": 7}, {"plannr": "openai:x"}, ["openai:x"]]
)
def test_what_is_no_model_is_refused_at_once(model: object) -> None:
    with pytest.raises(ModelUnavailable):
        Models(model)  # type: ignore[arg-type]


def test_clients_are_built_once_and_what_is_learnt_is_kept() -> None:
    models = Models(environ=KEY)
    first, second = (models.choose("executor", Context()) for _ in range(2))
    assert first.model is second.model
    assert first.quirks is second.quirks
    assert first.quirks is not models.choose("planner", Context()).quirks


def test_every_provider_word_is_one_of_init_chat_model() -> None:
    from langchain.chat_models import init_chat_model  # noqa: PLC0415 - as heavy as in the package

    with pytest.raises(ValueError, match="Supported providers") as failure:
        init_chat_model("no-such-model")
    listed = str(failure.value).split("Supported providers: ")[1].split("\n")[0]
    assert set(listed.split(", ")) == PROVIDERS


def test_nothing_heavy_is_imported_before_a_model_is_built() -> None:
    code = """
import sys
from loopwright.models.choice import Models
from loopwright.models.ask import ask
from loopwright.state.context import Context
heavy = ("openai", "langchain_openai", "langchain.chat_models", "loopwright.models.offline")
models = Models(environ={"OPENAI_API_KEY": "sk-test"})
assert not [name for name in heavy if name in sys.modules], "too early"
models.choose("planner", Context())
assert "langchain_openai" in sys.modules
assert "loopwright.models.offline" not in sys.modules
"""
    run = subprocess.run([sys.executable, "-c", code], check=False, timeout=PATIENCE)
    assert run.returncode == 0


def test_models_are_chat_models_of_langchain() -> None:
    assert isinstance(Models(environ=KEY).choose("planner", Context()).model, BaseChatModel)

import pytest

from loopwright.models.choice import OPENAI_TIERS, Chosen, Models
from loopwright.models.scripted import ScriptedModel
from loopwright.state.context import Context
from loopwright.state.errors import ModelUnavailable
from loopwright.state.roles import ROLES

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

"""Which model answers for a role: what the builder got, the run's settings, the environment.

Clients are built when first needed, for importing a provider's package costs a second or more.
"""

import os
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from langchain_core.language_models import BaseChatModel
from pydantic.alias_generators import to_snake

from ..state.context import Context
from ..state.errors import ModelUnavailable, read_variable
from ..state.roles import ROLES, TIERS, Tier
from ..store.base.recordings import TAPE
from .refusals import Quirks

# Used if OPENAI_API_KEY is all there is. LOOPWRIGHT_MODEL or the run's settings replace them.
OPENAI_TIERS: Final[dict[str, str]] = {
    "fast": "openai:gpt-5.4-nano",
    "balanced": "openai:gpt-5.4-mini",
    "powerful": "openai:gpt-5.4",
}

OFFLINE: Final = "offline"

# The client's connections are shared by all event loops of the process, and one that is kept from a
# loop that is closed fails its next request. OpenAI's has a pool for each; see `PerLoop`.
_NO_KEEP_ALIVE: Final = {"default_headers": {"Connection": "close"}}

# How names of OpenAI's own models begin if no provider is named.
_OPENAI_NAMES: Final = ("gpt-", "o1", "o3", "chatgpt-")

# The words that init_chat_model reads as a provider before the colon of a name.
# fmt: off
PROVIDERS: Final = frozenset({
    "anthropic", "anthropic_bedrock", "azure_ai", "azure_openai", "baseten", "bedrock",
    "bedrock_converse", "bedrock_mantle_anthropic", "bedrock_mantle_openai", "cohere",
    "deepseek", "fireworks", "google_anthropic_vertex", "google_genai", "google_vertexai",
    "groq", "huggingface", "ibm", "langsmith", "litellm", "meta", "mistralai", "nvidia",
    "ollama", "openai", "openrouter", "perplexity", "together", "upstage", "xai",
})
# fmt: on

Model = str | BaseChatModel
_ALL: Final = ""
"""Where models are named by role and tier: the one for everything."""


@dataclass(frozen=True)
class Chosen:
    """A model ready to be asked, and those to ask when it cannot be reached."""

    name: str
    tier: Tier
    model: BaseChatModel
    fallbacks: tuple["Chosen", ...] = ()
    quirks: Quirks = field(default_factory=Quirks, compare=False, repr=False)


class Models:
    """The models of a graph, by role.

    Looked up in this order: the `model` given here (by role, by tier, for all), then the run's
    `Context.models` by role and by tier, `Context.model`, the variables LOOPWRIGHT_MODEL and
    OPENAI_API_KEY, at last the offline model.
    """

    def __init__(
        self,
        model: Model | Mapping[str, Model] | None = None,
        *,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """Keep what was given; nothing is built yet.

        Args:
            model: A `provider:name` string or an instance for every role, or a mapping from role
                or tier to either.
            environ: Environment variables; by default those of the process, read at each choice.

        Raises:
            ModelUnavailable: If `model` is nothing of that, or has a key that is no role or tier.
        """
        self._models = _make_lean(_index_models(model))
        self._environ = os.environ if environ is None else environ
        self._tape = TAPE.get()
        self._built: dict[str | int, tuple[BaseChatModel, Quirks]] = {}
        self._lock = threading.Lock()

    def choose(self, role: str, context: Context, *, bump: int = 0) -> Chosen:
        """Choose and build the model for a role.

        Args:
            role: Such as planner, executor or verifier.
            context: The run's settings.
            bump: How many tiers stronger than usual, if there are stronger ones.

        Returns:
            The model with its fallbacks: those of `Context.fallback_models`; if none are
            set, models of other tiers of the same place, for a verifier only stronger ones.

        Raises:
            ModelUnavailable: If the model or a fallback cannot be built; says why and what to do.
        """
        (model, tier), *spare = self._list_candidates(role, context, bump)
        return self.get_or_build(model, tier, tuple(self.get_or_build(*model) for model in spare))

    def list_client_models(self) -> frozenset[str]:
        """The models that a client of a server may name: those the operator has named.

        They are the ones given here by name, those of LOOPWRIGHT_MODELS (with commas between),
        and what the environment chooses if nobody names one.
        """
        listed = self._environ.get("LOOPWRIGHT_MODELS", "").split(",")
        names = {name.strip() for name in listed if name.strip()}
        names |= {model for model in self._models.values() if isinstance(model, str)}
        if name := self._environ.get("LOOPWRIGHT_MODEL"):
            names.add(name)
        elif self._environ.get("OPENAI_API_KEY") and not self._read_base_url():
            names |= {*OPENAI_TIERS.values()}
        return frozenset(names)

    def find_built(self, role: str, context: Context, *, bump: int = 0) -> Chosen | None:
        """What `choose` would give, if nothing has to be built for it; building may block."""
        wanted = self._list_candidates(role, context, bump)
        if any(isinstance(model, str) and model not in self._built for model, _ in wanted):
            return None
        return self.choose(role, context, bump=bump)

    def get_or_build(self, model: Model, tier: Tier, fallbacks: tuple[Chosen, ...] = ()) -> Chosen:
        """A model, built unless it has been.

        Raises:
            ModelUnavailable: If it cannot be built; says why and what to do.
        """
        key, name = (model, model) if isinstance(model, str) else (id(model), name_of(model))
        with self._lock:
            if key not in self._built:
                build = partial(self._build, model)
                built = build() if self._tape is None else self._tape.wrap_model(build)
                # A script costs nothing that anybody could look up.
                self._built[key] = built, Quirks(price=None if is_script(built) else ...)
            return Chosen(name, tier, self._built[key][0], fallbacks, self._built[key][1])

    def _list_candidates(self, role: str, context: Context, bump: int) -> list[tuple[Model, Tier]]:
        """The model for a role, then its fallbacks."""
        row = ROLES.get(role)
        like = row.like or role if row else role
        default = row.tier if row else "balanced"
        usual = context.tiers.get(role) or context.tiers.get(like) or default
        tier = TIERS[min(TIERS.index(usual) + max(bump, 0), len(TIERS) - 1)]
        # A raised tier goes before the role.
        keys = (*([tier] if tier != usual else []), role, like, usual, _ALL)
        for models in self._iter_sources(context):
            if matching := [key for key in keys if key in models]:
                others = models if matching[0] == tier else {}
                return [(models[matching[0]], tier), *_iter_fallbacks(role, tier, others, context)]
        return [(OFFLINE, tier)]

    def _iter_sources(self, context: Context) -> Iterator[Mapping[str, Model]]:
        yield self._models
        yield {**context.models, **_index_models(context.model)}
        if name := read_variable(self._environ, "LOOPWRIGHT_MODEL"):
            yield {_ALL: name}
        elif self._read_base_url():
            msg = (
                "OPENAI_BASE_URL is set but no model is named: set LOOPWRIGHT_MODEL to a model "
                "that server offers, such as qwen3:8b, or unset OPENAI_BASE_URL."
            )
            raise ModelUnavailable(msg)
        elif self._environ.get("OPENAI_API_KEY"):
            yield OPENAI_TIERS

    def _read_base_url(self) -> str | None:
        return self._environ.get("OPENAI_BASE_URL") or self._environ.get("OPENAI_API_BASE") or None

    def _build(self, name: Model) -> BaseChatModel:
        if not isinstance(name, str):
            return name
        if name == OFFLINE:
            from .offline.model import OfflineModel  # noqa: PLC0415 - most runs never need it

            return OfflineModel()
        try:
            return self._build_client(name)
        except Exception as error:
            # Constructors raise whatever they like: openai's errors, pydantic's, KeyError.
            advice = "use provider:name and set the provider's API key"
            if isinstance(error, ImportError):
                advice = "install the package it names"
            reason = " ".join(str(error).split())[:300] or type(error).__name__
            msg = f"The model {name!r} cannot be used: {reason.rstrip('.')}; {advice}."
            raise ModelUnavailable(msg) from error

    def _build_client(self, name: str) -> BaseChatModel:
        """A provider's client. Importing one costs a second, and only a real model needs it."""
        provider = name.partition(":")[0]
        # On another server a bare name is its own, or one with a tag such as qwen3:8b.
        theirs = bool(self._read_base_url()) and provider not in PROVIDERS
        if theirs or provider == "openai" or name.startswith(_OPENAI_NAMES):
            return self._build_openai(name.removeprefix("openai:"))
        from langchain.chat_models import init_chat_model  # noqa: PLC0415 - heavy

        own = provider in ("anthropic", "azure_openai")
        options: dict[str, Any] = {"max_retries": 0, **_NO_KEEP_ALIVE} if own else {}
        built: BaseChatModel = init_chat_model(name, **options)
        return built

    def _build_openai(self, name: str) -> BaseChatModel:
        """A client whose retries are ours alone; compatible servers report their usage too."""
        from .openai_client import LeanChatOpenAI, get_shared_client  # noqa: PLC0415 - heavy

        options: dict[str, Any] = {
            "http_async_client": get_shared_client(),
            "http_socket_options": (),
        }
        if os.environ.get("OPENAI_PROXY"):  # which the client reads itself, and takes no other then
            options = {**_NO_KEEP_ALIVE}
        if base_url := self._read_base_url():
            # Servers on the own machine mostly want no key, but the client insists on one.
            options |= {"base_url": base_url, "api_key": "none"}
        if key := self._environ.get("OPENAI_API_KEY"):
            options["api_key"] = key
        return LeanChatOpenAI(model=name, max_retries=0, stream_usage=True, **options)


def _make_lean(models: Mapping[str, Model]) -> dict[str, Model]:
    """The models; a `ChatOpenAI` sends the same for less CPU time, a subclass is taken as it is."""
    openai = sys.modules.get("langchain_openai")
    stock: dict[int, Any] = {
        id(one): one for one in models.values() if openai and type(one) is openai.ChatOpenAI
    }
    if not stock:
        return dict(models)
    from .openai_client import make_lean  # noqa: PLC0415 - heavy

    lean = {key: make_lean(one) for key, one in stock.items()}
    return {role: lean.get(id(model), model) for role, model in models.items()}


_OTHER_NAMES: Final = {"max_output_tokens": "max_tokens", "stop_sequences": "stop"}


def apply_settings(chosen: Chosen, settings: Mapping[str, Any]) -> Chosen:
    """The model and its fallbacks with those of these settings that they know."""
    if not settings:
        return chosen
    named = {_OTHER_NAMES.get(to_snake(k), to_snake(k)): value for k, value in settings.items()}
    known = {k: v for k, v in named.items() if k in type(chosen.model).model_fields}
    return replace(
        chosen,
        model=chosen.model.model_copy(update=known),
        fallbacks=tuple(apply_settings(other, settings) for other in chosen.fallbacks),
    )


def window_of(model: BaseChatModel) -> int | None:
    """How many tokens a model takes; None if its profile does not say."""
    return (model.profile or {}).get("max_input_tokens")


def is_script(model: BaseChatModel) -> bool:
    """Whether a model replays a script, so that no provider bills it."""
    return model._llm_type == "scripted"


def name_of(model: BaseChatModel) -> str:
    """The name a model is reported under: its model's name, else its kind."""
    named = getattr(model, "model_name", None) or getattr(model, "model", None)
    return named if isinstance(named, str) else model._llm_type


def _iter_fallbacks(
    role: str, tier: Tier, models: Mapping[str, Model], context: Context
) -> Iterator[tuple[Model, Tier]]:
    """The fallbacks: as the run's settings say, else other tiers; stronger ones first."""
    if context.fallback_models:
        yield from ((name, tier) for name in context.fallback_models)
        return
    place = TIERS.index(tier)
    weaker = () if role == "verifier" else reversed(TIERS[:place])
    for other in (*TIERS[place + 1 :], *weaker):
        if other in models and models[other] != models[tier]:
            yield models[other], other


def _index_models(model: Model | Mapping[str, Model] | None) -> Mapping[str, Model]:
    """Models by role and tier, as they are given."""
    if model is None:
        return {}
    models = dict(model) if isinstance(model, Mapping) else {_ALL: model}
    if isinstance(model, Mapping) and (unknown := sorted({*model} - {*ROLES, *TIERS})):
        msg = f"model has unknown keys {unknown}; known are {sorted({*ROLES, *TIERS})}."
        raise ModelUnavailable(msg)
    for key, value in models.items():
        if not isinstance(value, BaseChatModel) and not (isinstance(value, str) and value.strip()):
            msg = (
                f"model{f'[{key!r}]' if key else ''} must be a provider:name string or a chat "
                f"model, not {value!r:.80}: "
                "give it a name such as 'openai:gpt-5.4-mini', or a LangChain chat model."
            )
            raise ModelUnavailable(msg)
    return models

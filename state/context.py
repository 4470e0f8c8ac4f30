"""The settings of a run, as a form that Studio shows, and what hooks gave its session."""

import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from dataclasses import dataclass, field
from math import isfinite
from typing import Annotated, Any, Final, Literal, TypeVar

from langgraph.runtime import Runtime
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from .limits import LIMITS, explain_excess
from .roles import ROLES, TIERS, Tier

PolicyWord = Literal["default", "allow", "ask", "deny"]

RATES: Final = ("input", "output", "cached_input")
"""What a model's price says; the last may be left out."""


def explain_unfit_context(given: dict[str, Any]) -> str:
    """Why data cannot be a `tool_context`; "" if it can."""
    try:
        length = len(json.dumps(given, allow_nan=False, ensure_ascii=False).encode())
    except (TypeError, ValueError, RecursionError) as error:
        return f"only JSON reaches every tool ({error})"
    most = LIMITS["tool context"].bytes
    if length <= most:
        return ""
    return f"it has {length} bytes of JSON, of {most} that each call of a tool carries"


_Few = Annotated[int, Field(ge=1, le=20)]
_Turns = Annotated[int, Field(ge=1, le=10_000)]
_Calls = Annotated[int, Field(ge=1, le=100_000)]
_Repeats = Annotated[int, Field(ge=3, le=100)]
_Deadline = Annotated[float, Field(gt=0, le=3_600)]
_Share = Annotated[float, Field(gt=0, le=1)]


class Context(BaseModel):
    """Settings of a run. Pure JSON: live objects and secrets go to the graph's builder."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str | None = Field(
        default=None,
        min_length=1,
        json_schema_extra={"langgraph_type": "model"},
        description="Model for every role, such as openai:gpt-5.4-mini.",
    )
    models: dict[str, str] = Field(
        default_factory=dict, description="Models per role or tier (fast, balanced, powerful)."
    )
    tiers: dict[str, Tier] = Field(default_factory=dict, description="Tier per role.")
    fallback_models: list[str] = Field(
        default_factory=list, description="Models to try if the first one fails."
    )
    system_context: str = Field(
        default="",
        json_schema_extra={"langgraph_type": "prompt"},
        description="What every role should know about the application.",
    )
    business_context: dict[str, str] = Field(
        default_factory=dict, description="What one role should know: role to Markdown text."
    )
    language: str | None = Field(
        default=None, min_length=1, description="Language of the prompts: en, zh, or your own."
    )
    interactive: bool = Field(default=True, description="A human can answer questions.")
    review_plan: bool = Field(default=False, description="Show each plan to the user before work.")
    drafts: bool = Field(
        default=False, description="Customers see replies before they are checked."
    )
    policy: PolicyWord = Field(
        default="default",
        description="For calls that no rule names; looser only if the program has no policy.",
    )
    question_expires_in: float | None = Field(
        default=None, gt=0, le=31_536_000, description="Seconds in which a call can be approved."
    )
    max_planning_rounds: _Few = Field(
        default=3, description="Planner calls before each work phase."
    )
    max_executor_rounds: _Turns = Field(
        default=50, description="Model turns per task; one more may report."
    )
    max_verify_cycles: _Few = Field(
        default=3, description="Verdicts per turn; the last one ends it."
    )
    max_iterations: _Turns = Field(
        default=50, description="Rounds of react; one more thought may answer."
    )
    max_turns: _Turns = Field(
        default=100,
        description="Model turns of task_agent; in customer_service a human then takes over.",
    )
    max_agent_depth: int = Field(
        default=3, ge=0, le=10, description="How deep agents may delegate; 0: never."
    )
    observe: Literal["model", "direct"] | None = Field(
        default=None, description="Who sums up results in react: a model or nobody."
    )
    max_tasks: int = Field(default=20, ge=1, le=200, description="Tasks in a plan.")
    max_steps: int = Field(
        default=50, ge=1, le=1_000, description="Steps in a plan of prompt_flow."
    )
    max_recoveries: int = Field(
        default=4, ge=0, le=20, description="New plans of prompt_flow after failures."
    )
    max_parallel_tasks: int = Field(default=4, ge=1, le=64, description="Tasks or steps at once.")
    max_parallel_models: int = Field(default=8, ge=1, le=256, description="Model calls at once.")
    max_model_calls: _Calls = Field(default=2_000, description="Model calls per turn.")
    max_tool_calls: _Calls = Field(default=1_000, description="Tool calls per turn.")
    max_tokens: int = Field(default=50_000_000, ge=1_000, description="Tokens per turn.")
    max_cost: float | None = Field(
        default=None, gt=0, description="US dollars for models per turn."
    )
    max_output_tokens: int | None = Field(
        default=None,
        ge=16,
        le=1_000_000,
        description="Tokens per model answer; none: 16,384 with max_cost, else the model's limit.",
    )
    prices: dict[str, dict[str, float]] = Field(
        default_factory=dict,
        description="Dollars per million tokens by model: input, output, cached_input.",
    )
    context_budget: int = Field(
        default=100_000, ge=1_000, description="Tokens per request; longer ones are cut."
    )
    context_target: int = Field(
        default=80_000, ge=800, description="Tokens above which a history is compressed."
    )
    max_seconds: float = Field(
        default=14_400, gt=0, description="Active seconds per turn; waiting for a human is free."
    )
    model_deadline: _Deadline = Field(default=120, description="Seconds per model call.")
    model_retries: int = Field(default=3, ge=0, le=10, description="Retries per model call.")
    tool_deadline: _Deadline = Field(default=60, description="Seconds per tool call.")
    startup_timeout: _Deadline = Field(
        default=60, description="Seconds an MCP server may take to start."
    )
    result_cap: int = Field(
        default=16_000,
        ge=500,
        le=1_000_000,
        description="Characters of a tool result shown at once; the model can read on.",
    )
    shown_tools: int = Field(
        default=60,
        ge=0,
        le=10_000,
        description="With more tools, a model sees names and looks the rest up.",
    )
    dedupe: Literal["off", "read_only", "all"] = Field(
        default="read_only", description="Results to reuse; all: also undeclared tools."
    )
    dedupe_seconds: float = Field(
        default=60, gt=0, le=86_400, description="How old a reused result may be."
    )
    loop_repeats: _Repeats = Field(default=5, description="Identical rounds that end the work.")
    loop_phrases: _Repeats = Field(
        default=10, description="How often the same words count as a loop."
    )
    loop_check_after: _Turns = Field(
        default=30, description="Model turns of task_agent after which a model looks for loops."
    )
    loop_confidence: _Share = Field(
        default=0.9, description="How sure it must be; a second model must agree."
    )
    route_share: _Share = Field(
        default=0.5, description="Share of the limits left that a cheaper graph of router gets."
    )
    resource_id: str = Field(default="", description="What the user has open, for the model.")
    task_id: str = Field(default="", description="The user's task, for the model.")
    tool_context: dict[str, Any] = Field(
        default_factory=dict, description="Data for your tools, as JSON; models do not see it."
    )

    @model_validator(mode="before")
    @classmethod
    def _check_known_settings(cls, given: Any) -> Any:
        """Refuse too much and unknown settings; say where data of the application belongs."""
        if type(given) is dict and (why := explain_excess("context", given)):
            raise ValueError(why)
        names = set(given) if type(given) is dict else set()
        if unknown := sorted(map(str, names - set(cls.model_fields))):
            msg = (
                f"{', '.join(map(repr, unknown))}: no setting is named so; put data of your "
                "application, which its tools need, into tool_context"
            )
            raise ValueError(msg)
        return given

    @field_validator("tool_context")
    @classmethod
    def _check_json(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Refuse data that could not be sent to a tool."""
        if why := explain_unfit_context(given):
            raise ValueError(why)
        return given

    @field_validator("prices")
    @classmethod
    def _check_price(cls, given: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
        """Refuse a price that cannot be used."""
        for model, price in given.items():
            complete = {*RATES[:2]} <= price.keys() <= {*RATES}
            if not (complete and all(isfinite(rate) and rate >= 0 for rate in price.values())):
                msg = (
                    f"the price of {model!r} needs input and output, and may have cached_input, in"
                    " US dollars per million tokens, such as"
                    ' {"input": 0.75, "output": 4.5, "cached_input": 0.075}'
                )
                raise ValueError(msg)
        return given

    def model_post_init(self, _: Any) -> None:
        """Refuse role and tier names that would silently do nothing."""
        for name, names in (
            ("models", {*ROLES, *TIERS}),
            ("tiers", {*ROLES}),
            ("business_context", {*ROLES}),
        ):
            unknown = sorted(set(getattr(self, name)) - names)
            if unknown:
                msg = f"{name} has unknown keys {unknown}; known are {sorted(names)}."
                raise ValueError(msg)


DEFAULTS: Final = Context()

STARTUP: Final[ContextVar[float]] = ContextVar(
    "loopwright_startup", default=DEFAULTS.startup_timeout
)
"""The run's `startup_timeout`, set when a node begins."""

SHOWN_TOOLS: ContextVar[int] = ContextVar("loopwright_shown_tools", default=DEFAULTS.shown_tools)
"""The run's `shown_tools`, likewise."""

T = TypeVar("T")


def context_of(runtime: Runtime[Context]) -> Context:
    """The run's settings; the defaults if the graph was called without `context=`."""
    return runtime.context or DEFAULTS


Emit = Callable[[dict[str, Any]], None]
"""Takes one event; `type` says which kind it is."""

SESSION_KEY: Final = "__loopwright_session"
"""Where a run's config holds its `Session`: live, and by its underscores in no saved metadata."""


@dataclass(frozen=True)
class Session:
    """One run of a thread, as the hooks that were called at its start see it."""

    context: str = ""
    """Text for every prompt of the run."""
    warnings: list[str] = field(default_factory=list)
    """Hooks that failed."""


OpenSession = Callable[[str, str], AbstractAsyncContextManager[Session]]
"""From a thread's id and the source of the run (startup, resume) to what surrounds the run."""

"""What a model must answer in prompt_flow: a plan of tool calls, and what to do when it fails."""

import json
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BeforeValidator, Field

from .canonical import storable_json
from .contracts import Contract, Id, Text, Texts, listed

Strategy = Literal["retry_step", "replan_from_failure", "complete_replan", "give_up"]


def _mapping(value: object) -> object:
    """Read null as no entries and JSON text as what it says; what could not be kept is mended."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return value
    return {} if value is None else storable_json(value)


def _count(value: object) -> object:
    """What a plan says of itself is no reason to refuse it: no number counts as none given."""
    return value if isinstance(value, int) else None


Json = Annotated[dict[str, Any], BeforeValidator(_mapping)]


class PlanStep(Contract):
    """One step of a plan: one call of one tool."""

    id: Id = Field(description="Short unique id without spaces and dots, such as 's1'.")
    description: Text = Field(default="", description="What the step is for, in a few words.")
    tool: Text = Field(
        validation_alias=AliasChoices("tool", "toolName", "tool_name"),
        description="Name of one of the listed tools.",
    )
    arguments: Json = Field(
        default_factory=dict,
        validation_alias=AliasChoices("arguments", "params", "parameters", "args", "input"),
        description="Arguments by the tool's schema; {{step.field}} stands for an earlier result.",
    )
    dependencies: Texts = Field(
        default_factory=list,
        validation_alias=AliasChoices("dependencies", "dependsOn", "depends_on"),
        description="Ids of steps that must be done before; those it refers to need not be named.",
    )
    expected_output: Text = Field(default="", description="What the result should hold.")
    expect: dict[str, Any] | Text | None = Field(
        default=None,
        description="Machine check of the result: a JSON schema, or a condition such as "
        "'count > 0 and rows is not empty'.",
    )
    retry_count: int = Field(
        default=0,
        ge=0,
        le=10,
        validation_alias=AliasChoices("retryCount", "retry_count", "retries"),
        description="How often to repeat the call where it fails and the tool may be repeated.",
    )
    optional: bool = Field(default=False, description="True if the goal can be met without it.")
    timeout: float | None = Field(
        default=None, gt=0, le=3_600, description="Seconds the call may take at most."
    )


class PlanMetadata(Contract):
    """What a plan says of itself."""

    created_by: Text = ""
    created_time: Text = ""
    estimated_steps: Annotated[int | None, BeforeValidator(_count)] = None
    complexity: Text = ""


class ExecutionPlan(Contract):
    """A plan of tool calls, each run as soon as the steps it waits for are done."""

    goal: Text = Field(default="", description="The goal in your words.")
    plan_id: Text = Field(default="", description="May be left empty.")
    steps: Annotated[list[PlanStep], BeforeValidator(listed)] = Field(default_factory=list)
    global_variables: Json = Field(
        default_factory=dict, description="Values that {{global.name}} stands for."
    )
    left_out: Texts = Field(
        default_factory=list,
        description="Parts of the goal that no listed tool can do, and why; empty if none.",
    )
    metadata: Annotated[
        PlanMetadata, BeforeValidator(lambda v: v if isinstance(v, dict) else {})
    ] = Field(default_factory=PlanMetadata)


class RecoveryDecision(Contract):
    """What to do about the steps that failed."""

    strategy: Strategy = Field(
        description="retry_step: the same calls again. replan_from_failure: another way from "
        "here on, with the results there are. complete_replan: an altogether different plan. "
        "give_up: nothing would help."
    )
    reason: Text = Field(min_length=1, description="The root cause, and why this will help.")

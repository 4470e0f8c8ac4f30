"""The answers of a planner of prompt_flow: a plan of tool calls, and repairs of a failed one."""

import json
from contextlib import suppress
from typing import Annotated, Any, Final, get_args

from pydantic import (
    AfterValidator,
    AliasChoices,
    BeforeValidator,
    ConfigDict,
    Field,
    model_validator,
)

from ..state.contracts import Contract, Id, Text, Texts, as_list, read_word
from ..state.flow import Strategy
from ..tools.arguments import find_unsafe_part
from .short_syntax import find_short_plan, read_short_plan

_STRATEGIES: Final[frozenset[str]] = frozenset(get_args(Strategy))
_STRATEGY_ALIASES: Final = {"retry": "retry_step", "replan": "replan_from_failure"}


def _read_mapping(value: object) -> object:
    """Read null as no entries and JSON text as what it says; what could not be sent is refused."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return value
    return {} if value is None else _check_sendable(value)


def _check_sendable(value: object) -> object:
    if unsafe := find_unsafe_part(value):
        raise ValueError(unsafe.rstrip("."))
    return value


def _read_list(value: object) -> object:
    """Read a list written as JSON text as the list it is, and an empty text as nothing."""
    if isinstance(value, str):
        text = value.strip()
        if not text.startswith("["):
            return text or None
        with suppress(ValueError, RecursionError):
            value = json.loads(text)
    return _check_sendable(value)


def _clean_names(given: list[str]) -> list[str]:
    """Each name once, without white space around it; an empty one is none."""
    return list(dict.fromkeys(name.strip() for name in given if name.strip()))


Json = Annotated[dict[str, Any], BeforeValidator(_read_mapping)]
Stripped = AfterValidator(str.strip)


# What asks for nothing: remarks, and what a model was shown of an earlier plan.
_REMARKS: Final = frozenset({
    "thought", "thoughts", "thinking", "reasoning", "reason", "rationale", "explanation", "purpose",
    "note", "notes", "comment", "comments", "title", "name", "step", "number", "index",
    "confidence", "status", "result", "failure", "feedback",
})  # fmt: skip


class PlanStep(Contract):
    """One step of a plan: one call of one tool.

    Unknown fields are kept (`model_extra`), except remarks: the checks refuse a step that has them.
    """

    # What a model is shown does not invite other fields.
    model_config = ConfigDict(
        extra="allow", json_schema_extra=lambda schema: schema.pop("additionalProperties", None)
    )

    id: Annotated[Id, Stripped] = Field(
        description="Short unique id without spaces and dots, such as 's1'."
    )
    description: Text = Field(default="", description="What the step is for, in a few words.")
    tool: Annotated[Text, Stripped] = Field(
        validation_alias=AliasChoices("tool", "toolName", "tool_name"),
        description="Name of one of the listed tools.",
    )
    arguments: Json = Field(
        default_factory=dict,
        validation_alias=AliasChoices("arguments", "params", "parameters", "args", "input"),
        description="Arguments by the tool's schema; {{step.field}} stands for an earlier result.",
    )
    dependencies: Annotated[Texts, AfterValidator(_clean_names)] = Field(
        default_factory=list,
        validation_alias=AliasChoices("dependencies", "dependsOn", "depends_on"),
        description="Ids of steps that must be done before; those it refers to need not be named.",
    )
    when: Text | None = Field(
        default=None,
        description="Run the step only if this holds: a condition over earlier results, such as "
        "'s1.row_count > 0 and s2.status == open'.",
    )
    for_each: Annotated[list[Any] | Text | None, BeforeValidator(_read_list)] = Field(
        default=None,
        validation_alias=AliasChoices("forEach", "for_each", "foreach"),
        description="Make the call once for each item of a list, such as '{{s1.rows}}'; {{item}} "
        "and {{item.field}} in the arguments stand for the item.",
    )
    max_items: int = Field(
        default=100,
        ge=1,
        le=1_000,
        description="With more items than this no call is made, and the step fails.",
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

    @model_validator(mode="before")
    @classmethod
    def _drop_remarks(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        return {name: value for name, value in given.items() if name not in _REMARKS}


class PlanMetadata(Contract):
    """What a plan says of itself; no reason to refuse it, whatever it is."""

    created_by: Text = ""
    created_time: Text = ""
    estimated_steps: Annotated[
        int | None, BeforeValidator(lambda v: v if isinstance(v, int) else None)
    ] = None
    complexity: Text = ""


def _is_line(step: object) -> bool:
    """Whether it is text that is meant as lines, and no broken JSON."""
    return isinstance(step, str) and step.lstrip()[:1] not in ("{", "[")


class ExecutionPlan(Contract):
    """A plan of tool calls, each run as soon as the steps it waits for are done."""

    goal: Text = Field(default="", description="The goal in your words.")
    plan_id: Text = Field(default="", description="May be left empty.")
    steps: Annotated[list[PlanStep], BeforeValidator(as_list)] = Field(default_factory=list)
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

    @classmethod
    def read_other_spelling(cls, text: str) -> dict[str, Any] | None:
        """A plan in the short spelling, unread."""
        is_json = text.lstrip(" \t\r\n")[:1] in ("{", "[") and "```" not in text
        short = "" if is_json else find_short_plan(text)
        return {"steps": short} if short else None

    @model_validator(mode="before")
    @classmethod
    def _read_short_steps(cls, given: Any) -> Any:
        """Read steps that stand as text, one line each; what the text says beside them holds."""
        steps = given.get("steps") if isinstance(given, dict) else None
        lines = [steps] if isinstance(steps, str) else steps
        if not (isinstance(lines, list) and lines and all(map(_is_line, lines))):
            return given
        read, problems = read_short_plan("\n".join(lines))
        if problems:
            raise ValueError("; ".join(problems))
        return {**read, **{name: value for name, value in given.items() if name != "steps"}}


class RecoveryDecision(Contract):
    """What to do about the steps that failed."""

    strategy: Annotated[
        Strategy, BeforeValidator(lambda v: read_word(v, _STRATEGIES, _STRATEGY_ALIASES))
    ] = Field(
        description="retry_step: the same calls again. replan_from_failure: another way from "
        "here on, with the results there are. complete_replan: an altogether different plan. "
        "give_up: nothing would help."
    )
    reason: Text = Field(min_length=1, description="The root cause, and why this will help.")

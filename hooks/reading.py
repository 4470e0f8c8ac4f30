"""One hook's output, read strictly: a misspelt key of a guard must not pass for consent."""

from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError
from pydantic.alias_generators import to_camel


class Refused(ValueError):
    """A hook returned something that cannot be read."""


class _Read(BaseModel):
    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True
    )


class ToolConfig(_Read):
    """Which tools a model may choose from, and whether it must."""

    mode: Literal["AUTO", "ANY", "NONE"] = "AUTO"
    allowed_function_names: list[str] | None = None


class TailCall(_Read):
    """A call to make after another one."""

    name: str
    args: dict[str, JsonValue] = Field(default_factory=dict)


class Specific(_Read):
    """What only some events know."""

    hook_event_name: str = ""
    additional_context: str = ""
    tool_input: dict[str, JsonValue] | None = None
    tool_response: dict[str, Any] | str | None = None
    llm_request: dict[str, Any] | None = None
    llm_response: dict[str, Any] | str | None = None
    tool_config: ToolConfig | None = None
    tail_tool_call_request: TailCall | None = None
    clear_context: bool = False


class Output(Specific):
    """One hook's output."""

    go_on: bool = Field(default=True, alias="continue")
    stop_reason: str = ""
    suppress_output: bool = False
    system_message: str = ""
    decision: Literal["allow", "approve", "ask", "deny", "block"] | None = None
    reason: str = ""
    hook_specific_output: Specific | None = None

    @property
    def denies(self) -> bool:
        """Whether it blocks what it was asked about."""
        return self.decision in ("deny", "block")


SILENT: Final = Output()


def read_output(raw: object) -> Output:
    """Read what a hook returned: nothing, a text for the user, or a mapping.

    Raises:
        Refused: It is none of these, or has keys or values no output has.
    """
    if raw is None:
        return SILENT
    if isinstance(raw, str):
        return Output(system_message=raw)
    if not isinstance(raw, dict):
        msg = f"it returned a {type(raw).__name__}, not a mapping, a text or None"
        raise Refused(msg)
    try:
        output = Output.model_validate(raw)
    except ValidationError as error:
        raise Refused(_in_words(error)) from None
    inner = output.hook_specific_output
    if inner is None:
        return output
    given = {name: getattr(inner, name) for name in inner.model_fields_set}
    return output.model_copy(update=given)


def _in_words(error: ValidationError) -> str:
    """Which keys are wrong; their values may be what must not be told."""
    problems = [
        f"{'.'.join(str(part) for part in detail['loc'])}: {detail['msg']}"
        for detail in error.errors(include_input=False, include_url=False)
    ]
    return f"its output cannot be read ({'; '.join(problems[:3])})"

"""From what hooks return to one verdict. Pure.

An output is read strictly: a misspelt key of a guard must not pass for consent.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal

from pydantic import Field, JsonValue, ValidationError
from pydantic.alias_generators import to_snake

from ..state.told import say
from .contract import ADVISORY, Changes, ToolConfig, Verdict

_MODES: Final = ("AUTO", "ANY", "NONE")  # from the weakest to the strictest


class Refused(ValueError):
    """A hook returned something that cannot be read."""


class Output(Changes):
    """One hook's output."""

    tool_input: dict[str, JsonValue] | None = None
    hook_event_name: str = ""
    go_on: bool = Field(default=True, alias="continue")
    stop_reason: str = ""
    suppress_output: bool = False
    system_message: str = ""
    decision: Literal["allow", "approve", "ask", "deny", "block"] | None = None
    reason: str = ""

    @property
    def denies(self) -> bool:
        """Whether it blocks what it was asked about."""
        return self.decision in ("deny", "block")


def read_output(raw: object) -> Output:
    """Read what a hook returned: nothing, a text for the user, or a mapping.

    Keys may be in camelCase or snake_case, and stand in `hookSpecificOutput` or beside it.

    Raises:
        Refused: It is none of these, or has keys or values no output has.
    """
    if raw is None or isinstance(raw, str):
        return Output(system_message=raw or "")
    given = _named("it returned", raw)
    inner = _named("its hookSpecificOutput is", given.pop("hook_specific_output", None) or {})
    if twice := given.keys() & inner.keys():
        msg = f"its output says {', '.join(sorted(twice))} twice"
        raise Refused(msg)
    try:
        return Output.model_validate(given | inner)
    except ValidationError as error:
        # Which keys are wrong; their values may be what must not be told.
        problems = [
            f"{'.'.join(str(part) for part in detail['loc'])}: {detail['msg']}"
            for detail in error.errors(include_input=False, include_url=False)
        ]
        msg = f"its output cannot be read ({'; '.join(problems[:3])})"
        raise Refused(msg) from None


def _named(what: str, given: object) -> dict[str, Any]:
    if not isinstance(given, dict):
        msg = f"{what} a {type(given).__name__}, not a mapping"
        raise Refused(msg)
    return {to_snake(str(key)): value for key, value in given.items()}


def merge(
    event: str, fields: Mapping[str, Any], outputs: Sequence[Output], warnings: Sequence[str] = ()
) -> Verdict:
    """Join the outputs, in the order in which their hooks stand.

    One block is enough and beats every question; reasons and contexts are joined; of changes the
    later one wins, for arguments of a call key by key; tools that may be chosen add up, and the
    strictest mode counts.

    Args:
        event: What the hooks were asked about.
        fields: The input they were given first.
        outputs: What they said.
        warnings: Which of them failed.
    """
    context = _lines(output.context for output in outputs)
    if event in ADVISORY:
        return Verdict(additional_context=context, warnings=list(warnings))
    denied = [o for o in outputs if o.denies]
    asked = [o for o in outputs if o.decision == "ask"]
    stopping = [o for o in outputs if not o.go_on]
    stops = _lines(o.stop_reason or o.reason for o in stopping)
    return Verdict(
        blocked=bool(denied),
        ask=bool(asked) and not denied,
        reason=_lines(o.reason for o in denied or asked) or (say("hook_denied") if denied else ""),
        additional_context=context,
        stop=(stops or say("hook_ended_the_run")) if stopping else None,
        tool_config=_tool_config([o.tool_config for o in outputs if o.tool_config]),
        tail_tool_call_request=_last(outputs, "tail_call"),
        clear_context=any(o.clear_context for o in outputs),
        warnings=list(warnings),
        **_changes(fields, outputs),
    )


def carried_on(fields: Mapping[str, Any], output: Output) -> dict[str, Any]:
    """The input of the next hook in a sequence: what this one changed is in it."""
    changed = _changes(fields, [output])
    if "llm_request" in changed:
        changed["llm_request"] = {**fields.get("llm_request", {}), **changed["llm_request"]}
    if "prompt" in fields and output.context:
        changed["prompt"] = f"{fields['prompt']}\n\n{output.context}"
    return {**fields, **changed}


def _lines(texts: Iterable[str]) -> str:
    return "\n".join(text for text in texts if text.strip())


def _last(outputs: Sequence[Output], key: str) -> Any:
    return next(
        (o for output in reversed(outputs) if (o := getattr(output, key)) is not None), None
    )


def _changes(fields: Mapping[str, Any], outputs: Sequence[Output]) -> dict[str, Any]:
    """What the outputs put in the place of parts of the input."""
    requests = [o.llm_request for o in outputs if o.llm_request is not None]
    inputs = [o.tool_input for o in outputs if o.tool_input is not None]
    changed = {
        "tool_input": _arguments(fields.get("tool_input", {}), inputs) if inputs else None,
        "tool_response": _last(outputs, "tool_response"),
        "llm_request": {k: v for one in requests for k, v in one.items()} if requests else None,
        "llm_response": _last(outputs, "llm_response"),
    }
    return {key: value for key, value in changed.items() if value is not None}


def _arguments(before: Mapping[str, Any], given: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Each hook's arguments replace those it was given.

    Several hooks see the same arguments: only what one of them changed counts, or a later one
    would bring back what an earlier one took out.
    """
    after = dict(before)
    for arguments in given:
        for name in before.keys() - arguments.keys():
            after.pop(name, None)
        after |= {
            name: value
            for name, value in arguments.items()
            if name not in before or before[name] != value
        }
    return after


def _tool_config(configs: Sequence[ToolConfig]) -> ToolConfig | None:
    if not configs:
        return None
    mode = max((config.mode for config in configs), key=_MODES.index)
    lists = [c.allowed_function_names for c in configs if c.allowed_function_names is not None]
    allowed = sorted({name for names in lists for name in names}) if lists else None
    return ToolConfig(mode=mode, allowed_function_names=[] if mode == "NONE" else allowed)

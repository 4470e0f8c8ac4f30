"""Hooks: their events, their outputs, and how several outputs are merged; see docs/hooks.md.

Events, keys and merging follow gemini-cli (docs/hooks/reference.md there), so its hooks can be
carried over.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Unpack, get_args

from pydantic import BaseModel, Field, JsonValue, ValidationError
from pydantic.alias_generators import to_camel, to_snake
from typing_extensions import TypedDict

from ..state.errors import SettingsError
from ..text.sentences import say
from ..text.words import find_pattern_error, is_found

HookEvent = Literal[
    "BeforeAgent", "AfterAgent", "BeforeModel", "AfterModel", "BeforeToolSelection", "BeforeTool",
    "AfterTool", "PreCompress", "SessionStart", "SessionEnd", "Notification",
]  # fmt: skip
HookInput = dict[str, Any]
HookOutput = dict[str, Any]
HookCallable = Callable[[HookInput], HookOutput | str | Awaitable[HookOutput | str | None] | None]

EVENTS: Final[tuple[HookEvent, ...]] = get_args(HookEvent)

MATCHED: Final[dict[str, str]] = {
    "BeforeTool": "tool_name",
    "AfterTool": "tool_name",
    "SessionStart": "source",
    "SessionEnd": "reason",
    "PreCompress": "trigger",
    "Notification": "notification_type",
}
"""The input key that `Hook.match` is held against."""

ADVISORY: Final = frozenset({"SessionStart", "SessionEnd", "PreCompress", "Notification"})
"""Events where nothing can be stopped: what such a hook says of decisions is not heard."""


@dataclass(frozen=True, kw_only=True)
class Hook:
    """One callable and when it runs."""

    event: HookEvent
    run: HookCallable
    """Gets the event's input; returns an output, a text for the user, or None. Sync ones run in a
    thread."""
    name: str = ""
    """Shown in events and warnings; by default the callable's own name."""
    match: str = ""
    """Regular expression searched in the tool's name; for other events the exact source, reason,
    trigger or type, or several between `|`. Empty or `*` matches all."""
    timeout: float = 60.0
    """Seconds."""
    on_error: Literal["open", "closed"] = "open"
    """After a crash, a timeout or an unreadable output `open` goes on, `closed` blocks."""
    sequential: bool = False
    """Run all hooks of the event one after the other, each on the changes of those before it."""

    def __post_init__(self) -> None:
        """Refuse what would silently never run or never guard."""
        if problem := _find_problem(self):
            raise SettingsError(problem)

    @property
    def label(self) -> str:
        """What to call it."""
        return self.name or getattr(self.run, "__name__", type(self.run).__name__)

    def matches(self, value: str) -> bool:
        """Whether it is meant for this tool, source, reason, trigger or type."""
        if self.match in ("", "*"):
            return True
        if MATCHED[self.event] != "tool_name":
            return value in self.match.split("|")
        try:
            return is_found(self.match, value)
        except TimeoutError:  # rather one hook too many than a guard too few
            return True


def _find_problem(hook: Hook) -> str:
    if hook.event not in EVENTS:
        return f"There is no hook event {hook.event!r}; the events are {', '.join(EVENTS)}."
    if not callable(hook.run):
        return f"The {hook.event} hook's `run` must be callable, not a {type(hook.run).__name__}."
    if hook.timeout <= 0:
        return f"The timeout of the hook {hook.label!r} must be more than 0 seconds."
    if hook.on_error not in ("open", "closed"):
        return f"on_error of the hook {hook.label!r} is open or closed, not {hook.on_error!r}."
    if hook.on_error == "closed" and hook.event in ADVISORY:
        return f"A {hook.event} hook cannot stop anything: on_error='closed' would be no guard."
    pattern, key = "" if hook.match == "*" else hook.match, MATCHED.get(hook.event)
    if pattern and key is None:
        return f"A {hook.event} hook has nothing to match: leave `match` out."
    if key == "tool_name" and (why := find_pattern_error(pattern)):
        return f"`match` of the hook {hook.label!r} is no regular expression: {why}."
    return ""


class HookOptions(TypedDict, total=False):
    """The options of a hook; see `Hook`."""

    name: str
    match: str
    timeout: float
    on_error: Literal["open", "closed"]
    sequential: bool


def hook(event: HookEvent, **options: Unpack[HookOptions]) -> Callable[[HookCallable], Hook]:
    """Make a hook of the function below; see `Hook`."""
    return lambda run: Hook(event=event, run=run, **options)


_MODES: Final = ("AUTO", "ANY", "NONE")  # from the weakest to the strictest


class ToolConfig(BaseModel, alias_generator=to_camel, validate_by_name=True, extra="forbid"):
    """Which tools a model may choose from (None: all), and whether it must."""

    mode: Literal["AUTO", "ANY", "NONE"] = "AUTO"
    allowed_function_names: list[str] | None = None


class TailCall(BaseModel, extra="forbid"):
    """A call to make right after another one."""

    name: str
    args: dict[str, JsonValue] = Field(default_factory=dict)


class Output(BaseModel, extra="forbid", frozen=True):
    """What one hook returns; read strictly, because a misspelt key of a guard is no consent."""

    hook_event_name: str = ""
    go_on: bool = Field(default=True, alias="continue")
    stop_reason: str = ""
    suppress_output: bool = False
    system_message: str = ""
    decision: Literal["allow", "approve", "ask", "deny", "block"] | None = None
    reason: str = ""
    """Why it is blocked or asked about."""
    context: str = Field(default="", alias="additional_context")
    """Text to give the model besides."""
    tool_input: dict[str, JsonValue] | None = None
    """All arguments of the call, where a hook changed some."""
    tool_response: dict[str, Any] | str | None = None
    """What stands in the place of the tool's result."""
    llm_request: dict[str, Any] | None = None
    """The fields of the request that are replaced."""
    llm_response: dict[str, Any] | str | None = None
    """The answer to use instead of asking the model, or instead of what it answered."""
    tool_config: ToolConfig | None = None
    tail_call: TailCall | None = Field(default=None, alias="tail_tool_call_request")
    clear_context: bool = False
    """Begin afresh after a rejected answer."""

    @property
    def is_blocked(self) -> bool:
        """Whether it is denied."""
        return self.decision in ("deny", "block")

    @property
    def halt_reason(self) -> str | None:
        """Why the run must end here; None if it need not."""
        return None if self.go_on else self.stop_reason or self.reason

    @property
    def refusal(self) -> str:
        """Why the run ends or the call is denied; "" if neither."""
        return self.halt_reason or (self.reason if self.is_blocked else "")


class Verdict(Output, frozen=True):
    """What all hooks of one event said together."""

    warnings: list[str] = Field(default_factory=list)
    """Hooks that failed."""


NOTHING: Final = Verdict()
"""What comes of no hook at all."""


_KEYS_OF_CLAUDE: Final = {
    "permission_decision": "decision",
    "permission_decision_reason": "reason",
    "updated_input": "tool_input",
}


class UnreadableOutput(ValueError):
    """A hook did not end, or returned something that cannot be read."""


def read_output(raw: object) -> Output:
    """Read what a hook returned: nothing, a text for the user, or a mapping.

    Keys may be in camelCase or snake_case, and stand in `hookSpecificOutput` or beside it.

    Raises:
        UnreadableOutput: It is none of these, or has keys or values no output has.
    """
    if raw is None or isinstance(raw, str):
        return Output(system_message=raw or "")
    given = _read_mapping("it returned", raw)
    inner = _read_mapping(
        "its hookSpecificOutput is", given.pop("hook_specific_output", None) or {}
    )
    if twice := given.keys() & inner.keys():
        msg = f"its output says {', '.join(sorted(twice))} twice"
        raise UnreadableOutput(msg)
    try:
        return Output.model_validate(given | inner)
    except ValidationError as error:
        # Which keys are wrong; their values may be what must not be told.
        wrong = [f"{'.'.join(map(str, part['loc']))}: {part['msg']}" for part in error.errors()]
        msg = f"its output cannot be read ({'; '.join(wrong[:3])})"
        raise UnreadableOutput(msg) from None


def _read_mapping(what: str, given: object) -> dict[str, Any]:
    if not isinstance(given, dict):
        msg = f"{what} a {type(given).__name__}, not a mapping"
        raise UnreadableOutput(msg)
    keys = {key: to_snake(str(key)) for key in given}
    return {_KEYS_OF_CLAUDE.get(ours, ours): given[key] for key, ours in keys.items()}


def merge_outputs(
    event: str, fields: Mapping[str, Any], outputs: Sequence[Output], warnings: Sequence[str] = ()
) -> Verdict:
    """Merge the outputs of hooks, in the order of the hooks.

    One block is enough and beats every question; reasons and contexts are joined; the later change
    wins, for a call's arguments key by key; allowed tools add up, and the strictest mode counts.
    """
    texts = {"context": _join_texts(o.context for o in outputs), "warnings": list(warnings)}
    if event in ADVISORY:
        return NOTHING.model_copy(update=texts)
    denied = [o for o in outputs if o.is_blocked]
    asked = [o for o in outputs if o.decision == "ask"]
    stops = [o.halt_reason for o in outputs if o.halt_reason is not None]
    decided = {
        "decision": "deny" if denied else "ask" if asked else None,
        "reason": _join_texts(o.reason for o in denied or asked)
        or (say("hook_denied") if denied else ""),
        "go_on": not stops,
        "stop_reason": (_join_texts(stops) or say("hook_ended_the_run")) if stops else "",
        "tool_config": _merge_tool_configs([o.tool_config for o in outputs if o.tool_config]),
        "tail_call": _find_last(outputs, "tail_call"),
        "clear_context": any(o.clear_context for o in outputs),
    }
    return NOTHING.model_copy(update=texts | decided | _collect_changes(fields, outputs))


def update_fields(fields: Mapping[str, Any], output: Output) -> dict[str, Any]:
    """The input of the next hook in a sequence, with the changes of this one."""
    changed = _collect_changes(fields, [output])
    if "llm_request" in changed:
        changed["llm_request"] = {**fields.get("llm_request", {}), **changed["llm_request"]}
    if "prompt" in fields and output.context:
        changed["prompt"] = f"{fields['prompt']}\n\n{output.context}"
    return {**fields, **changed}


def _join_texts(texts: Iterable[str]) -> str:
    return "\n".join(text for text in texts if text.strip())


def _list_given(outputs: Sequence[Output], key: str) -> list[Any]:
    return [given for output in outputs if (given := getattr(output, key)) is not None]


def _find_last(outputs: Sequence[Output], key: str) -> Any:
    return (_list_given(outputs, key) or [None])[-1]


def _collect_changes(fields: Mapping[str, Any], outputs: Sequence[Output]) -> dict[str, Any]:
    """The parts of the input that the outputs replace."""
    requests = _list_given(outputs, "llm_request")
    inputs = _list_given(outputs, "tool_input")
    changed = {
        "tool_input": _merge_arguments(fields.get("tool_input", {}), inputs) if inputs else None,
        "tool_response": _find_last(outputs, "tool_response"),
        "llm_request": {k: v for part in requests for k, v in part.items()} if requests else None,
        "llm_response": _find_last(outputs, "llm_response"),
    }
    return {key: value for key, value in changed.items() if value is not None}


def _merge_arguments(
    before: Mapping[str, Any], given: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Apply only what each hook changed: all of them saw the same arguments."""
    after = dict(before)
    for arguments in given:
        for name in before.keys() - arguments.keys():
            after.pop(name, None)
        after |= {k: v for k, v in arguments.items() if k not in before or before[k] != v}
    return after


def _merge_tool_configs(configs: Sequence[ToolConfig]) -> ToolConfig | None:
    if not configs:
        return None
    mode = max((config.mode for config in configs), key=_MODES.index)
    lists = [c.allowed_function_names for c in configs if c.allowed_function_names is not None]
    allowed = sorted({name for names in lists for name in names}) if lists else None
    return ToolConfig(mode=mode, allowed_function_names=[] if mode == "NONE" else allowed)

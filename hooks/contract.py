"""What a hook is, when it runs and what came of it.

The events, the keys of inputs and outputs and the way several outputs are merged follow the hooks
of gemini-cli (docs/hooks/reference.md there), so a hook written for it can be carried over. What
each event tells and may be told is in docs/hooks.md.
"""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, Literal, Unpack, get_args

from pydantic import BaseModel, ConfigDict, Field, JsonValue
from pydantic.alias_generators import to_camel
from typing_extensions import TypedDict

from ..state.errors import SettingsError

HookEvent = Literal[
    "BeforeAgent", "AfterAgent", "BeforeModel", "AfterModel", "BeforeToolSelection", "BeforeTool",
    "AfterTool", "PreCompress", "SessionStart", "SessionEnd", "Notification",
]  # fmt: skip
HookInput = dict[str, Any]
HookOutput = dict[str, Any]
HookCallable = Callable[[HookInput], HookOutput | str | Awaitable[HookOutput | str | None] | None]

EVENTS: Final[tuple[HookEvent, ...]] = get_args(HookEvent)
TOOL_EVENTS: Final = frozenset({"BeforeTool", "AfterTool"})

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
    """One callable and when it runs.

    Attributes:
        event: When it runs.
        run: Takes the event's input, returns an output, a text for the user, or None; sync ones
            run in a thread.
        name: Shown in events and warnings; by default the callable's own name.
        match: Regular expression searched in the tool's name; for sessions, compression and
            notifications the exact source, reason, trigger or type. Empty or `*` matches all.
        timeout: Seconds it may take.
        on_error: What a crash, a timeout or an unreadable output means: `open` goes on without
            it, `closed` blocks, as a hook that guards something should.
        order: Hooks with lower numbers come first in merging and in sequence.
        sequential: Run all hooks of the event one after the other, each on what the ones before
            it changed.
    """

    event: HookEvent
    run: HookCallable
    name: str = ""
    match: str = ""
    timeout: float = 60.0
    on_error: Literal["open", "closed"] = "open"
    order: int = 0
    sequential: bool = False

    def __post_init__(self) -> None:
        """Refuse what would silently never run or never guard."""
        problem = _problem(self) or _match_problem(self)
        if problem:
            raise SettingsError(problem)

    @property
    def label(self) -> str:
        """What to call it."""
        return self.name or getattr(self.run, "__name__", type(self.run).__name__)

    def matches(self, value: str) -> bool:
        """Whether it is meant for this tool, source, reason, trigger or type."""
        if self.match in ("", "*"):
            return True
        if self.event in TOOL_EVENTS:
            return re.search(self.match, value) is not None
        return value == self.match


def _problem(hook: Hook) -> str:
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
    return ""


def _match_problem(hook: Hook) -> str:
    if hook.match and hook.event not in MATCHED:
        return f"A {hook.event} hook has nothing to match: leave `match` out."
    try:
        hook.matches("")
    except re.error as error:
        return f"`match` of the hook {hook.label!r} is no regular expression: {error}."
    return ""


class HookOptions(TypedDict, total=False):
    """What may be said of a hook beside its event and its callable; see `Hook`."""

    name: str
    match: str
    timeout: float
    on_error: Literal["open", "closed"]
    order: int
    sequential: bool


def hook(event: HookEvent, **options: Unpack[HookOptions]) -> Callable[[HookCallable], Hook]:
    """Make a hook of the function below; see `Hook`."""
    return lambda run: Hook(event=event, run=run, **options)


class ToolConfig(BaseModel):
    """Which tools a model may choose from (None: all), and whether it must."""

    model_config = ConfigDict(alias_generator=to_camel, validate_by_name=True, extra="forbid")

    mode: Literal["AUTO", "ANY", "NONE"] = "AUTO"
    allowed_function_names: list[str] | None = None


class TailCall(BaseModel):
    """A call to make right after another one."""

    model_config = ConfigDict(extra="forbid")

    name: str
    args: dict[str, JsonValue] = Field(default_factory=dict)


class Changes(BaseModel):
    """What one hook, or all of an event together, put in the place of something."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    context: str = Field(default="", alias="additional_context")
    """Text to give the model besides."""
    tool_input: dict[str, Any] | None = None
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


class Verdict(Changes):
    """What all hooks of one event said together."""

    blocked: bool = False
    """Some hook denied it, or one that fails closed failed."""
    ask: bool = False
    """Some hook wants a human to decide; never together with `blocked`."""
    reason: str = ""
    """Why it is blocked or asked about."""
    stop: str | None = None
    """Why the run must end here, where a hook said so."""
    warnings: list[str] = Field(default_factory=list)
    """Hooks that failed."""

    @property
    def refused(self) -> str:
        """Why it must not be: a hook ended the run, or denied it; "" where none did."""
        return self.stop or (self.reason if self.blocked else "")


NOTHING: Final = Verdict()
"""What comes of no hook at all."""

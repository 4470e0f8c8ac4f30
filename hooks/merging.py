"""Several hooks' outputs as one verdict. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from .contract import ADVISORY, Verdict
from .reading import Output, ToolConfig

STOPPED: Final = "a hook ended the run"
UNNAMED: Final = "a hook denied it without giving a reason"

_MODES: Final = ("AUTO", "ANY", "NONE")  # from the weakest to the strictest
_CHANGES: Final = {
    "BeforeTool": ("tool_input",),
    "AfterTool": ("tool_response",),
    "BeforeModel": ("llm_request", "llm_response"),
    "AfterModel": ("llm_response",),
}


def merge(
    event: str,
    fields: Mapping[str, Any],
    outputs: Sequence[Output],
    warnings: Sequence[str] = (),
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
    context = _lines(output.additional_context for output in outputs)
    if event in ADVISORY:
        return Verdict(context=context, warnings=list(warnings))
    denied = [o for o in outputs if o.denies]
    asked = [o for o in outputs if o.decision == "ask"]
    winning = denied or asked
    changed = _changes(event, fields, outputs)
    return Verdict(
        blocked=bool(denied),
        ask=bool(asked) and not denied,
        reason=_lines(o.reason for o in winning) or (UNNAMED if denied else ""),
        context=context,
        stop=_stop(outputs),
        tool_config=_tool_config([o.tool_config for o in outputs if o.tool_config]),
        tail_call=_last_tail(outputs) if event == "AfterTool" else None,
        clear_context=any(o.clear_context for o in outputs),
        warnings=list(warnings),
        **changed,
    )


def carried_on(event: str, fields: Mapping[str, Any], output: Output) -> dict[str, Any]:
    """The input of the next hook in a sequence: what this one changed is in it."""
    changed = _changes(event, fields, [output])
    if "llm_request" in changed:
        changed["llm_request"] = {**fields.get("llm_request", {}), **changed["llm_request"]}
    if event == "BeforeAgent" and output.additional_context:
        changed["prompt"] = f"{fields.get('prompt', '')}\n\n{output.additional_context}"
    return {**fields, **changed}


def _last_tail(outputs: Sequence[Output]) -> dict[str, Any] | None:
    tails = [o.tail_tool_call_request for o in outputs if o.tail_tool_call_request]
    return tails[-1].model_dump() if tails else None


def _lines(texts: Iterable[str]) -> str:
    return "\n".join(text for text in texts if text.strip())


def _stop(outputs: Sequence[Output]) -> str | None:
    stopping = [output for output in outputs if not output.go_on]
    if not stopping:
        return None
    return _lines(output.stop_reason or output.reason for output in stopping) or STOPPED


def _changes(event: str, fields: Mapping[str, Any], outputs: Sequence[Output]) -> dict[str, Any]:
    """What the outputs put in the place of parts of the input."""
    changed: dict[str, Any] = {}
    for key in _CHANGES.get(event, ()):
        given = [value for o in outputs if (value := getattr(o, key)) is not None]
        if not given:
            continue
        if key == "tool_input":
            changed[key] = _arguments(fields.get(key, {}), given)
        elif key == "llm_request":
            changed[key] = {name: value for one in given for name, value in one.items()}
        else:
            changed[key] = given[-1]
    return changed


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


def _tool_config(configs: Sequence[ToolConfig]) -> dict[str, Any] | None:
    if not configs:
        return None
    mode = max((config.mode for config in configs), key=_MODES.index)
    named = [config.allowed_function_names for config in configs]
    lists = [names for names in named if names is not None]
    allowed = sorted({name for names in lists for name in names}) if lists else None
    return {"mode": mode, "allowed": [] if mode == "NONE" else allowed}

"""What a client of a server may set: what the operator has set is a ceiling, never loosened.

The operator's ceiling is a `Context` too. Limits may be lowered to any value, words only made
stricter, models come from a list, and what a model is told as an instruction is the operator's.
"""

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final

from ..state.context import DEFAULTS, Context, explain_unfit_context
from ..state.errors import SettingsError

VARIABLE: Final = "LOOPWRIGHT_CEILING"

FREE: Final = frozenset({"tiers", "language", "observe", "resource_id", "task_id"})
"""What a client sets as it likes: it lifts no limit and gives no permission."""

SHARED: Final = "tool_context"
"""Data for tools: a client adds keys of its own to the operator's, and changes none of those."""

MODELS: Final = frozenset({"model", "models", "fallback_models"})

ENDLESS: Final = frozenset({"question_expires_in", "max_cost", "max_output_tokens"})
"""Numbers that are without a limit where they are not set."""

STRICTEST_FIRST: Final[Mapping[str, tuple[object, ...]]] = {
    "policy": ("deny", "ask", "default", "allow"),
    "dedupe": ("off", "read_only", "all"),
    "interactive": (False, True),
    "review_plan": (True, False),
}


def read_ceiling(environ: Mapping[str, str]) -> Context:
    """The operator's ceiling: JSON of settings, or a file of it; the defaults where none is given.

    Raises:
        SettingsError: It cannot be read.
    """
    given = environ.get("LOOPWRIGHT_CEILING")
    if given is None:
        return DEFAULTS
    try:
        text = given if given.lstrip()[:1] == "{" else Path(given).read_text(encoding="utf-8-sig")
        return Context.model_validate(json.loads(text))
    except (OSError, ValueError) as error:
        why = " ".join(str(error).split())[:300]
        msg = f"{VARIABLE} is no JSON object of settings, nor a file that holds one: {why}."
        raise SettingsError(msg) from error


def apply_ceiling(given: object, ceiling: Context, offered: Collection[str]) -> Context:
    """A client's settings under the operator's ceiling.

    What is left out, or says what is the default anyway, is brought under the ceiling in silence.

    Args:
        given: As a client gives them; None where it gives none.
        ceiling: The operator's.
        offered: The models a client may name beside those the ceiling names.

    Raises:
        SettingsError: A setting goes beyond the ceiling.
        ValidationError: One is wrong.
    """
    wanted = given if isinstance(given, Context) else Context.model_validate(given or {})
    names = {*offered, *_list_models(ceiling)}
    taken = {name: _limit_setting(name, wanted, ceiling, names) for name in Context.model_fields}
    return wanted.model_copy(update=taken)


def _limit_setting(
    name: str, wanted: Context, ceiling: Context, offered: Collection[str]
) -> object:
    said, most = getattr(wanted, name), getattr(ceiling, name)
    if name == SHARED:
        return _merge_shared(said, most)
    if said == getattr(DEFAULTS, name):
        return said if _is_within(name, said, most) and not _is_own(name) else most
    if name in MODELS:
        _check_models(name, said, offered)
    elif name not in FREE and not _is_within(name, said, most):
        msg = (
            f"The run's context is wrong: {name}={_show_value(said)} is beyond what a client of"
            f" this server may set ({_show_value(most)}): leave it out; its operator can raise it"
            f" in {VARIABLE}."
        )
        raise SettingsError(msg)
    return said


def _merge_shared(said: Mapping[str, Any], most: Mapping[str, Any]) -> dict[str, Any]:
    """The operator's data for tools, and what a client adds to it."""
    taken = sorted(key for key in said if key in most and said[key] != most[key])
    both = {**said, **most}
    if taken:
        why = f"{', '.join(map(_show_value, taken))} is set by the server's operator: leave it out"
    else:
        why = explain_unfit_context(both)
    if why:
        msg = f"The run's context is wrong: {SHARED}: {why}."
        raise SettingsError(msg)
    return both


def _is_own(name: str) -> bool:
    """Whether a setting has no more and no less: where a client leaves it out, the operator's."""
    return not (name in STRICTEST_FIRST or _is_number(getattr(DEFAULTS, name), name))


def _is_within(name: str, said: object, most: object) -> bool:
    if name in STRICTEST_FIRST:
        order = STRICTEST_FIRST[name].index
        return order(said) <= order(most)
    if _is_number(said, name) or _is_number(most, name):
        return _as_number(said) <= _as_number(most)
    return said == most


def _is_number(value: object, name: str) -> bool:
    if value is None:
        return name in ENDLESS
    return isinstance(value, int | float) and not isinstance(value, bool)


def _as_number(value: Any) -> float:
    return float("inf") if value is None else float(value)


def _list_models(context: Context) -> set[str]:
    one = {context.model} if context.model else set()
    return {*one, *context.models.values(), *context.fallback_models}


def _check_models(name: str, said: Any, offered: Collection[str]) -> None:
    named = [said] if isinstance(said, str) else [*said.values()] if name == "models" else said
    if unknown := [model for model in named if model not in offered]:
        msg = (
            f"The run's context is wrong: {name} names {', '.join(map(_show_value, unknown))},"
            " which this server does not offer; it offers"
            f" {', '.join(sorted(offered)) or 'none by name'}."
            " Its operator can name more in LOOPWRIGHT_MODELS."
        )
        raise SettingsError(msg)


def _show_value(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:79]}…"

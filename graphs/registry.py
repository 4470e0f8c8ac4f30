"""The graphs by name."""

from collections.abc import Callable
from typing import Any, Final

from ..state.errors import SettingsError
from .plan_execute_verify import build_plan_execute_verify

BUILDERS: Final[dict[str, Callable[..., Any]]] = {
    "plan_execute_verify": build_plan_execute_verify,
}


def builder_of(name: str) -> Callable[..., Any]:
    """The `build_<name>` function of a graph.

    Raises:
        SettingsError: There is no graph of this name.
    """
    if name not in BUILDERS:
        msg = f"There is no graph {name!r}; there are {', '.join(sorted(BUILDERS))}."
        raise SettingsError(msg)
    return BUILDERS[name]

"""Who calls a graph, and what a client of a server may not do.

In a program that embeds a graph that program is the operator. Under a server whoever calls is a
client: what it says of itself proves nothing.
"""

from collections.abc import Mapping
from typing import Any

from . import langgraph_keys as keys


def from_outside(configurable: Mapping[str, Any]) -> bool:
    """Whether LangGraph's server runs the graph, as LangGraph itself tells it."""
    return any(configurable.get(key) is not None for key in keys.SERVER)


def identity(configurable: Mapping[str, Any], *, served: bool = False) -> str | None:
    """Whom a run is for.

    The authenticated user always; `user_id` counts only where a program embeds the graph.

    Args:
        configurable: The run's.
        served: The graph is one that a server loads.
    """
    user = configurable.get("langgraph_auth_user")
    proven = user.get("identity") if isinstance(user, Mapping) else getattr(user, "identity", None)
    proven = proven or configurable.get("langgraph_auth_user_id")
    if not (proven or served or from_outside(configurable)):
        proven = configurable.get("user_id")
    return str(proven) if proven else None

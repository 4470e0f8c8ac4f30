"""What a builder does to nodes and routers, so that LangGraph loses nothing of them silently."""

import difflib
from collections.abc import Callable, Collection, Mapping
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any

from langgraph.types import Command

from ..state.errors import StateKeyError
from .pace import in_turn


def spelled_right(
    node: str, action: Callable[..., Any], channels: Collection[str]
) -> Callable[..., Any]:
    """A node that begins in its turn; StateKeyError where it returns a key its state lacks."""

    @wraps(action)
    async def checked(*args: Any, **kwargs: Any) -> Any:
        await in_turn()
        update = await action(*args, **kwargs)
        changed = update.update if isinstance(update, Command) else update
        for key in changed if isinstance(changed, Mapping) else ():
            if key not in channels:
                raise StateKeyError(_unknown(node, key, list(channels)))
        return update

    return checked


def _unknown(node: str, key: str, known: list[str]) -> str:
    near = difflib.get_close_matches(key, known, n=1)
    meant = f" Did it mean {near[0]!r}?" if near else ""
    return f"The node {node!r} returned the key {key!r}, which its graph's state lacks.{meant}"


def at_once(path: Any) -> Any:
    """A sync router as an async function, which runs where it is called: it only reads state."""
    if iscoroutinefunction(path) or not hasattr(path, "__name__"):
        return path

    @wraps(path)
    async def route(state: Any) -> Any:
        return path(state)

    return route

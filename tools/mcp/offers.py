"""What a server lists."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from ...state.limits import Gauge
from ...text.sentences import say
from .call import ServerUnavailable
from .config import ServerConfig

Fetch = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]
"""Asks a method with its params."""


async def list_pages(kind: str, fetch: Fetch, config: ServerConfig) -> tuple[dict[str, Any], ...]:
    """Ask for all of a kind, unvalidated: one odd tool must not cost all.

    Raises:
        ServerUnavailable: It is too much.
    """
    listed: list[dict[str, Any]] = []
    pages: list[str | None] = [None]
    gauge = Gauge("tool list")
    while True:
        page = await fetch(f"{kind}/list", {"cursor": pages[-1]})
        offered = [one for one in page.get(kind) or () if isinstance(one, dict)]
        if why := gauge.take(offered):
            raise ServerUnavailable(say("too_long_a_list", kind=kind, why=why))
        masked = await asyncio.to_thread(config.secrets.mask_json, offered)
        listed += [m | {"name": o.get("name")} for o, m in zip(offered, masked, strict=True)]
        cursor = page.get("nextCursor")
        if not isinstance(cursor, str) or not cursor or cursor in pages:
            return tuple(listed)
        pages.append(cursor)

"""What a server lists, and a resource of it as a tool's answer. Imports the client: import late."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal

from mcp import types
from mcp.shared.exceptions import McpError

from ...state.limits import Gauge
from ...text.sentences import say
from .call import ServerUnavailable
from .config import ServerConfig

Kind = Literal["tools", "prompts", "resources"]

Fetch = Callable[[Any], Awaitable[dict[str, Any]]]
"""Sends a request and waits for its answer."""


def make_request(method: str, params: Mapping[str, Any]) -> Any:
    """A request of the protocol."""
    return types.ClientRequest.model_validate({"method": method, "params": params}).root


async def list_pages(kind: Kind, fetch: Fetch, config: ServerConfig) -> tuple[dict[str, Any], ...]:
    """Ask for all of a kind, unvalidated: one odd tool must not cost all.

    Raises:
        ServerUnavailable: It is too much.
    """
    listed: list[dict[str, Any]] = []
    pages: list[str | None] = [None]
    gauge = Gauge("tool list")
    while True:
        page = await fetch(make_request(f"{kind}/list", {"cursor": pages[-1]}))
        offered = [one for one in page.get(kind) or () if isinstance(one, dict)]
        if why := gauge.take(offered):
            raise ServerUnavailable(say("too_long_a_list", kind=kind, why=why))
        masked = await asyncio.to_thread(config.secrets.mask_json, offered)
        listed += [m | {"name": o.get("name")} for o, m in zip(offered, masked, strict=True)]
        cursor = page.get("nextCursor")
        if not isinstance(cursor, str) or not cursor or cursor in pages:
            return tuple(listed)
        pages.append(cursor)


async def read_resource(uri: object, fetch: Fetch, config: ServerConfig) -> dict[str, Any]:
    """A resource in the form of a tool's answer; without `uri` what there is.

    Only what the server lists is read: an address made up from other texts could carry them out.
    """
    listed = await list_pages("resources", fetch, config)
    if not uri:
        return {"content": [{**one, "type": "resource_link"} for one in listed]}
    if uri not in [one.get("uri") for one in listed]:
        raise McpError(types.ErrorData(code=types.INVALID_PARAMS, message=say("no_such_resource")))
    contents = (await fetch(make_request("resources/read", {"uri": uri}))).get("contents")
    parts = contents if isinstance(contents, list) else []
    return {"content": [{"type": "resource", "resource": one} for one in parts]}

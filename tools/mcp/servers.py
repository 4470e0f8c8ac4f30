"""The MCP servers of a toolbox, each loaded on its own.

Everything here runs on the background loop, but for `Servers.held`.
"""

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from .call import ServerCall
from .config import ServerConfig
from .place import Listing, Place

if TYPE_CHECKING:
    from .elicitation import Parked

RETRY_AFTER: Final = 30.0
"""Seconds after which a server that failed is tried again behind the scenes."""


class Servers:
    """All configured servers, each loaded on its own: a dead one costs a warning, not the rest.

    Attributes:
        parked: The keys of the calls that wait for a human's answer to their server.
    """

    def __init__(self, configs: list[ServerConfig], *, retry_after: float = RETRY_AFTER) -> None:
        """Start nothing yet: servers are opened by the first request for their tools."""
        self.parked: Parked = {}
        self._listed: dict[str, Listing] = {}
        self._retry_after = retry_after
        self._configs = {config.name: config for config in configs}
        self._places: dict[tuple[str, str | None], Place] = {}

    def held(self, user_id: str | None) -> tuple[Listing, ...] | None:
        """What `listings` would answer at once, from any thread; None where it has work to do."""
        keys = (self._key(config, user_id) for config in self._configs.values())
        places = [self._places.get(key) for key in keys]
        due = self._retry_after
        known = [now for p in places if p and (now := p.fresh) and not p.retry_due(due)]
        return tuple(known) if len(known) == len(places) else None

    async def listings(self, user_id: str | None) -> tuple[Listing, ...]:
        """What every server offers this user; none may take longer than its time to start.

        A server that failed is tried again behind the scenes, so that a later request finds it;
        one that has restarted or changed its tools is asked again at once.
        """
        places = [self._place(name, user_id) for name in self._configs]
        await asyncio.gather(*(place.load() for place in places if place.fresh is None))
        for place in places:
            if place.retry_due(self._retry_after):
                place.retry()
        return tuple(place.listing for place in places)

    async def call(self, server: str, call: ServerCall) -> Any:
        """Call a tool of one server, see `Place.call`."""
        return await self._place(server, call.user_id).call(call)

    def _key(self, config: ServerConfig, user_id: str | None) -> tuple[str, str | None]:
        by_user = config.user_headers and config.transport != "stdio"
        return config.name, user_id if by_user else None

    def _place(self, name: str, user_id: str | None) -> Place:
        config = self._configs[name]
        key = self._key(config, user_id)
        if key not in self._places:
            forget = partial(self._places.pop, key, None)
            self._places[key] = Place(config, key[1], self.parked, self._listed, forget)
        return self._places[key]

    def give_up(self) -> None:
        """End everything without waiting."""
        for place in self._places.values():
            place.give_up()

    async def close(self) -> None:
        """End everything and wait for it; the next request opens it again."""
        self.give_up()
        await asyncio.gather(*(place.gone() for place in self._places.values()))

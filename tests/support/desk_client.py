"""A client of the support desk for ordinary test functions, and the shop behind it."""

import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp import ClientSession
from mcp.shared.memory import create_connected_server_and_client_session
from mcp.types import TextContent

from support.shops import Shop, build_server


@dataclass
class Desk:
    """A session on a shop."""

    portal: BlockingPortal
    session: ClientSession
    shop: Shop

    def ok(self, tool: str, told: Any = None, **arguments: Any) -> Any:
        failed, answer, data = self._called(tool, told, arguments)
        assert not failed, answer
        return data

    def refused(self, tool: str, told: Any = None, **arguments: Any) -> str:
        failed, answer, _ = self._called(tool, told, arguments)
        assert failed, answer
        assert answer.endswith(".")
        assert "\n" not in answer
        assert "Error executing" not in answer
        return answer

    def _called(self, tool: str, told: Any, arguments: dict[str, Any]) -> tuple[bool, str, Any]:
        meta = {f"loopwright/{name}": value for name, value in (told or {}).items()}

        async def call() -> Any:
            return await self.session.call_tool(tool, arguments, meta=meta or None)

        answer = self.portal.call(call)
        [block] = answer.content
        assert isinstance(block, TextContent)
        return answer.isError, block.text, answer.structuredContent

    def count(self, table: str) -> int:
        return int(self.shop.rows(f"SELECT count(*) AS n FROM {table}")[0]["n"])


@asynccontextmanager
async def _session(shop: Shop) -> AsyncIterator[ClientSession]:
    async with create_connected_server_and_client_session(build_server(shop)) as session:
        yield session


@contextmanager
def opened(shop: Shop) -> Iterator[Desk]:
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(_session(shop)) as session,
    ):
        yield Desk(portal, session, shop)


def copied(made: Path, folder: Path) -> Path:
    """A shop of its own: a copy of one that nobody has open."""
    return Path(shutil.copy(made, folder / "shop.db"))

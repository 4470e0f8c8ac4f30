"""Logins to MCP servers: the browser, and the local address it comes back to."""

import asyncio
import threading
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import typer
from httpx import HTTPError, InvalidURL
from mcp.client.auth import OAuthFlowError

from ..graphs.build import default_mcp
from ..state.errors import ToolServerError
from ..tools.mcp.call import ServerUnavailable
from ..tools.mcp.config import ServerConfig, read_servers
from ..tools.mcp.oauth import UserLogin
from .settings import Settings
from .terminal import Output, shorten_line

_PATIENCE: Final = 300.0
"""Seconds that the user has to log in."""


def log_in_user(settings: Settings, output: Output, server: str, user: str | None) -> int:
    """Log in at a server."""
    config = _find_server(settings, server)
    _run(config, _log_in(config, user, output))
    return output.report({"status": "complete", "server": server}, f"Logged in to {server}.")


def log_out_user(settings: Settings, output: Output, server: str, user: str | None) -> int:
    """Delete a login."""
    config = _find_server(settings, server)
    was_in = _run(config, UserLogin(config, user or None).log_out())
    said = f"Logged out of {server}." if was_in else f"There was no login to {server}."
    return output.report({"status": "complete", "server": server, "was_logged_in": was_in}, said)


def _find_server(settings: Settings, server: str) -> ServerConfig:
    chosen = settings.mcp or default_mcp(settings.environ)
    named = {config.name: config for config in read_servers(chosen, environ=settings.environ)}
    if (config := named.get(server)) is None:
        msg = f"No MCP server {server!r} is configured; there are: {', '.join(named) or 'none'}."
        raise ToolServerError(msg)
    if config.problem or not config.auth:
        why = config.problem or 'its entry has no "auth": "oauth"'
        msg = f"The MCP server {server!r} takes no login: {why}."
        raise ToolServerError(msg)
    return config


def _run(config: ServerConfig, work: Coroutine[Any, Any, Any]) -> Any:
    try:
        return asyncio.run(asyncio.wait_for(work, _PATIENCE))
    except TimeoutError as error:
        why = str(error) or f"nobody came back within {_PATIENCE / 60:g} minutes"
    except (ServerUnavailable, OAuthFlowError, HTTPError, InvalidURL, OSError) as error:
        # Further lines may quote what a server has answered.
        why = str(error).partition("\n")[0] or type(error).__name__
    why = shorten_line(config.mask(why), 400)
    msg = f"The login at the MCP server {config.name!r} failed: {why}."
    raise ToolServerError(msg)


async def _log_in(config: ServerConfig, user: str | None, output: Output) -> None:
    """Wait on 127.0.0.1 for the browser; who does not know the state of the login is ignored."""
    came: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    states: list[list[str]] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, ValueError, IndexError, TimeoutError):
            async with asyncio.timeout(10):
                target = (await reader.readline()).decode("ascii").split()[1]
                is_ours = parse_qs(urlsplit(target).query).get("state") in states
                said = "200 OK\r\n\r\nClose this page." if is_ours else "400 Bad Request\r\n\r\n"
                writer.write(f"HTTP/1.0 {said}".encode())
                await writer.drain()
                if is_ours and not came.done():
                    came.set_result(target)
        writer.close()

    async def receive(address: str) -> str:
        states.append(parse_qs(urlsplit(address).query)["state"])
        output.write_line("Open this address in a browser and log in:")
        output.write_line(address, whole=True)
        threading.Thread(target=typer.launch, args=(address,), daemon=True).start()
        return await came

    async with await asyncio.start_server(answer, "127.0.0.1") as listener:
        port = listener.sockets[0].getsockname()[1]
        login = UserLogin(config, user or None)
        await login.log_in(f"http://127.0.0.1:{port}/callback", receive)

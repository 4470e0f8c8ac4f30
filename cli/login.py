"""Logins to MCP servers: the browser, the local address it comes back to, and the list."""

import asyncio
import os
import sys
import threading
import webbrowser
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from httpx import InvalidURL
from mcp.client.auth import OAuthFlowError

from ..graphs.build import default_mcp
from ..state.errors import ToolServerError
from ..tools.mcp.call import ServerUnavailable
from ..tools.mcp.config import ServerConfig, read_servers
from ..tools.mcp.logins import LoginStore
from ..tools.mcp.oauth import Receive, log_in, log_out
from .settings import Settings
from .terminal import Output, shorten_line

_PATIENCE: Final = 300.0
"""Seconds that the user has to log in."""

_SCREENS: Final = frozenset({"DISPLAY", "WAYLAND_DISPLAY", "BROWSER"})
"""Without one of these variables Linux opens no browser, or one within the terminal."""

_PAGE: Final = "<!doctype html><title>loopwright</title><p>{}</p>"


def log_in_user(
    settings: Settings, output: Output, server: str | None, user: str | None, *, paste: bool
) -> int:
    """Log in at a server; without one list the servers that want a login."""
    configs = _find_servers(settings)
    if server is None:
        rows = asyncio.run(_list_logins(configs, user))
        lines = [f"{name}: {'logged in' if is_in else 'no login'}" for name, is_in in rows.items()]
        return output.report({"servers": rows}, *(lines or ['No server has "auth": "oauth".']))
    config = _choose(configs, server)
    _run(config, _log_in(config, user, output, paste=paste))
    return output.report({"status": "complete", "server": server}, f"Logged in to {server}.")


def log_out_user(settings: Settings, output: Output, server: str, user: str | None) -> int:
    """Delete a login."""
    config = _choose(_find_servers(settings), server)
    was_in = _run(config, log_out(config, user or None))
    said = f"Logged out of {server}." if was_in else f"There was no login to {server}."
    return output.report({"status": "complete", "server": server, "was_logged_in": was_in}, said)


def _find_servers(settings: Settings) -> list[ServerConfig]:
    chosen = settings.mcp or default_mcp(settings.environ)
    return read_servers(chosen, environ=settings.environ)


async def _list_logins(configs: list[ServerConfig], user: str | None) -> dict[str, bool]:
    wanting = [config for config in configs if config.auth and not config.problem]
    stores = {config.name: LoginStore(config, user or None) for config in wanting}
    return {name: await store.read() is not None for name, store in stores.items()}


def _choose(configs: list[ServerConfig], server: str) -> ServerConfig:
    named = {config.name: config for config in configs}
    if (config := named.get(server)) is None:
        msg = f"No MCP server {server!r} is configured; there are: {', '.join(named) or 'none'}."
        raise ToolServerError(msg)
    why = config.problem or ("" if config.auth else 'its entry has no "auth": "oauth"')
    if why:
        msg = f"The MCP server {server!r} takes no login: {why}."
        raise ToolServerError(msg)
    return config


def _run(config: ServerConfig, work: Coroutine[Any, Any, Any]) -> Any:
    try:
        return asyncio.run(work)
    except TimeoutError:
        why = f"nobody came back within {_PATIENCE / 60:g} minutes"
    except (ServerUnavailable, OAuthFlowError, InvalidURL, OSError) as error:
        # Further lines may quote what a server has answered.
        why = str(error).partition("\n")[0] or type(error).__name__
    why = shorten_line(config.mask(why), 400)
    msg = f"The login at the MCP server {config.name!r} failed: {why}."
    raise ToolServerError(msg)


async def _log_in(config: ServerConfig, user: str | None, output: Output, *, paste: bool) -> None:
    async def ask(address: str) -> str:
        output.write_line("Open this address in a browser and log in:")
        output.write_line(address, whole=True)
        if paste:
            output.write_line("Then paste here the address at which the browser ends:")
            return str(sys.stdin.readline()).strip()  # nothing else is to be done meanwhile
        if os.name == "nt" or sys.platform == "darwin" or _SCREENS & os.environ.keys():
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
        return await back(address)

    port = config.auth.redirect_port if config.auth else 0
    async with asyncio.timeout(_PATIENCE), _listen(port) as (uri, back):
        await log_in(config, user or None, uri, ask)


@asynccontextmanager
async def _listen(port: int) -> AsyncIterator[tuple[str, Receive]]:
    """Wait on 127.0.0.1 for the browser; who does not know the state of the login is ignored."""
    came: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    states: list[list[str]] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, ValueError, IndexError, TimeoutError):
            async with asyncio.timeout(10):
                target = (await reader.readline()).decode("ascii").split()[1]
                is_ours = parse_qs(urlsplit(target).query).get("state") in states
                page = _PAGE.format("You may close this page." if is_ours else "Not expected.")
                status = "200 OK" if is_ours else "400 Bad Request"
                head = f"HTTP/1.1 {status}\r\ncontent-type: text/html\r\nconnection: close\r\n\r\n"
                writer.write((head + page).encode())
                await writer.drain()
                if is_ours and not came.done():
                    came.set_result(target)
        writer.close()

    async def wait(address: str) -> str:
        states.append(parse_qs(urlsplit(address).query)["state"])
        return await came

    async with await asyncio.start_server(answer, "127.0.0.1", port) as listener:
        number = listener.sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{number}/callback", wait

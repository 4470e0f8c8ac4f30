"""OAuth by the MCP package's own provider: a user's login, and its renewal in runs.

A run never opens a browser. The addresses of a login come from the server, so each is checked, and
what it answers is limited.
"""

import asyncio
import contextlib
import contextvars
import logging
import secrets
import ssl
from collections.abc import Awaitable, Callable
from functools import cache
from ipaddress import ip_address
from typing import Final
from urllib.parse import parse_qs, urlsplit

import httpx
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.client.streamable_http import MCP_PROTOCOL_VERSION
from mcp.shared.auth import OAuthClientMetadata
from mcp.types import LATEST_PROTOCOL_VERSION
from pydantic import AnyUrl

from ...text.sentences import say
from .call import ServerUnavailable
from .config import OAuth, ServerConfig, is_loopback
from .logins import Login, LoginStore

Receive = Callable[[str], Awaitable[str]]
"""Shows the user an address to log in at; gives the one that the browser was sent back to."""

logging.getLogger("mcp.client.auth").setLevel(logging.CRITICAL)  # who logs in is told what failed

_TIMEOUT: Final = 20.0
_MOST: Final = 1_000_000
"""Bytes of one answer of an authorisation server."""


class LoginHeaders:
    """The header with a user's token, renewed when it has expired or is refused."""

    def __init__(self, config: ServerConfig, user_id: str | None) -> None:
        """Read nothing yet."""
        self._config, self._store = config, LoginStore(config, user_id)
        self._login: Login | None = None
        self._work: asyncio.Task[Login] | None = None

    async def find(self, request: httpx.Request, *, was_refused: bool) -> dict[str, str]:
        """The header for a request; nothing for one that goes elsewhere.

        Raises:
            ServerUnavailable: The user has not logged in, the login has ended, or the
                authorisation server does not answer.
        """
        if _find_origin(request.url) != _find_origin(httpx.URL(self._config.url)):
            return {}
        given = request.headers.get("authorization", "") if was_refused else ""
        refused, login = given.removeprefix("Bearer "), self._login
        if login is None or login.is_over or login.tokens.access_token == refused:
            # In a task of its own: a cancelled call must not lose a new token on its way here.
            if self._work is None or self._work.done():
                work = self._renew(refused)
                self._work = asyncio.create_task(work, context=contextvars.Context())
            login = await asyncio.shield(self._work)
        return {"Authorization": f"Bearer {login.tokens.access_token}"}

    async def _renew(self, refused: str) -> Login:
        """The login as the keyring has it, with another token than the one that was refused."""
        async with self._store.lock():
            login = await self._store.read()
            if login is None:
                raise self._store.make_error(why="login_missing")
            if login.is_over or login.tokens.access_token == refused:
                login = await self._refresh(login)
        self._login = login
        return login

    async def _refresh(self, login: Login) -> Login:
        provider = OAuthClientProvider(
            self._config.url,
            OAuthClientMetadata(redirect_uris=login.client.redirect_uris),
            self._store,
        )
        context = provider.context
        context.oauth_metadata, context.protected_resource_metadata = login.server, login.resource
        context.token_expiry_time = 1.0  # long ago: it begins with the renewal
        try:
            answer = await _run_flow(provider, self._config, renews=True)
            if context.current_tokens is None and answer is not None and answer.is_server_error:
                msg = f"{answer.request.url.host} answered {answer.status_code}"
                raise OAuthFlowError(msg)  # noqa: TRY301 - told like the others
        except OAuthFlowError as error:
            problem = str(error).partition("\n")[0][:200]
            raise ServerUnavailable(say("login_not_renewed", problem=problem)) from error
        if context.current_tokens is not None:
            return await self._store.keep(context)
        again = await self._store.read()  # a process of another machine may have been faster
        if again is None or again.tokens.access_token == login.tokens.access_token:
            raise self._store.make_error(why="login_ended")
        return again


async def log_in(
    config: ServerConfig, user_id: str | None, redirect_uri: str, receive: Receive
) -> None:
    """Log a user in at a server and keep the login; one before is replaced.

    Raises:
        ServerUnavailable: There is no keyring, or it does not answer.
        OAuthFlowError: The login failed; says why.
    """
    auth, shown = config.auth or OAuth(), httpx.URL()
    store = LoginStore(config, user_id)

    async def show(address: str) -> None:
        nonlocal shown
        shown = httpx.URL(address)
        if auth.scopes:
            shown = shown.copy_set_param("scope", " ".join(auth.scopes))
        await check_address(config, shown)

    async def come_back() -> tuple[str, str]:
        server = provider.context.oauth_metadata
        issuer = str(server.issuer) if server else ""
        return _read_return(str(shown), await receive(str(shown)), issuer)

    metadata = OAuthClientMetadata(
        redirect_uris=[AnyUrl(redirect_uri)], client_name=auth.client_name
    )
    provider = OAuthClientProvider(config.url, metadata, store, show, come_back)
    await store.read()  # a keyring that does not work must be told before the user has logged in
    store.login = None
    answer = await _run_flow(provider, config, renews=False)
    if answer is None or answer.status_code in (401, 403):
        msg = "the server refuses the token that it was given"
        raise OAuthFlowError(msg)
    async with store.lock():
        await store.keep(provider.context)


def _read_return(shown: str, back: str, issuer: str) -> tuple[str, str]:
    """The code and the state that the browser came back with; of this login, and its server."""
    asked, came = parse_qs(urlsplit(shown).query), parse_qs(urlsplit(back).query)
    state = came.get("state", [""])[0]
    if not secrets.compare_digest(state.encode(), asked["state"][0].encode()):
        msg = "the address that came back belongs to another login"
        raise OAuthFlowError(msg)
    if issuer and came.get("iss", [issuer])[0].rstrip("/") != issuer.rstrip("/"):
        msg = "the answer comes from another authorisation server than the one asked"
        raise OAuthFlowError(msg)
    if "code" not in came:
        msg = f"the authorisation server says {came.get('error', ['nothing'])[0][:100]!r}"
        raise OAuthFlowError(msg)
    return came["code"][0], state


async def log_out(config: ServerConfig, user_id: str | None) -> bool:
    """Forget a user's login; whether there was one.

    Raises:
        ServerUnavailable: There is no keyring, or it does not answer.
    """
    store = LoginStore(config, user_id)
    async with store.lock():
        if await store.read() is None:
            return False
        await store.delete()
    return True


async def _run_flow(
    provider: OAuthClientProvider, config: ServerConfig, *, renews: bool
) -> httpx.Response | None:
    """Send what the provider wants sent, until it is content; its last answer.

    A renewal ends before anything goes to the MCP server itself.
    """
    probe, answer = _build_probe(config), None
    flow = provider.async_auth_flow(probe)
    async with _Client(config) as client, contextlib.aclosing(flow):
        asked = await anext(flow)
        del probe.headers[MCP_PROTOCOL_VERSION]  # it has told the provider to name the resource
        while not (renews and asked is probe):
            answer = await client.ask(asked, reads=asked is not probe)
            if asked is probe and provider.context.current_tokens is None:
                answer.status_code = 401  # some servers greet everybody
            try:
                asked = await flow.asend(answer)
            except StopAsyncIteration:
                break
    return answer


def _build_probe(config: ServerConfig) -> httpx.Request:
    """A request that a server answers with 401 where it wants a login, and that begins nothing."""
    headers = {**config.headers, MCP_PROTOCOL_VERSION: LATEST_PROTOCOL_VERSION}
    if config.transport == "sse":
        return httpx.Request("GET", config.url, headers=headers | {"accept": "text/event-stream"})
    headers["accept"] = "application/json, text/event-stream"
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    return httpx.Request("POST", config.url, headers=headers, json=ping)


class _Client(httpx.AsyncClient):
    """Sends the requests of a login, which a server may have pointed at anything."""

    def __init__(self, config: ServerConfig) -> None:
        super().__init__(timeout=_TIMEOUT, verify=load_ssl_context())
        self._config = config

    async def ask(self, request: httpx.Request, *, reads: bool = True) -> httpx.Response:
        """Send a request; its answer has a body of limited length, or none."""
        await check_address(self._config, request.url)
        request.headers["accept-encoding"] = "identity"
        body = bytearray()
        try:
            async with asyncio.timeout(_TIMEOUT):
                response = await self.send(request, stream=True)
                async with contextlib.aclosing(response):
                    pieces = response.aiter_bytes()
                    while reads and len(body) < _MOST and (piece := await anext(pieces, b"")):
                        body += piece
        except (TimeoutError, httpx.HTTPError) as error:
            msg = f"{request.url.host} is not reachable ({type(error).__name__})"
            raise OAuthFlowError(msg) from error
        headers = {n: v for n, v in response.headers.items() if not n.startswith("content-")}
        read = httpx.Response(
            response.status_code, headers=headers, content=bytes(body), request=request
        )
        read.next_request = response.next_request
        return read


async def check_address(config: ServerConfig, url: httpx.URL) -> None:
    """Refuse addresses without TLS, and those of a private network at a public server.

    Raises:
        OAuthFlowError: It is no address that the server may name.
    """
    server, auth = httpx.URL(config.url), config.auth or OAuth()
    if url.scheme != "https" and not (is_loopback(str(url)) and is_loopback(config.url)):
        msg = f"{url.scheme}://{url.host} is not safe, https is needed"
        raise OAuthFlowError(msg)
    if url.host in (server.host, *auth.hosts) or not await _is_private(url.host):
        return
    if not await _is_private(server.host):
        msg = f'{url.host} is in a private network; if it is yours, name it in "hosts" of "auth"'
        raise OAuthFlowError(msg)


async def _is_private(host: str) -> bool:
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None)
    except (OSError, UnicodeError):  # nobody is there, or only a proxy knows the way
        return False
    return any(not ip_address(str(one[4][0]).partition("%")[0]).is_global for one in found)


def _find_origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


@cache
def load_ssl_context() -> ssl.SSLContext:
    """The trusted certificates; shared, as each session would need 0.8 MB and 20 ms."""
    return httpx.create_ssl_context()

"""OAuth by the MCP package's own provider: a user's login, and its renewal in runs.

A run never opens a browser. The addresses of a login come from the server, so each is checked, and
what it answers is limited.
"""

import asyncio
import hashlib
import json
import logging
import shlex
import ssl
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from functools import cache
from importlib import import_module
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import parse_qs, urlsplit

import httpx
from filelock import AsyncFileLock
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.client.streamable_http import MCP_PROTOCOL_VERSION
from mcp.shared.auth import (
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from mcp.shared.auth_utils import resource_url_from_server_url
from mcp.types import LATEST_PROTOCOL_VERSION
from pydantic import AnyUrl, BaseModel, ConfigDict, ValidationError

from ...text.sentences import say
from .call import ServerUnavailable
from .config import LOGIN, ServerConfig, is_loopback

Receive = Callable[[str], Awaitable[str]]
"""Shows the user an address to log in at; gives the one that the browser was sent back to."""

logging.getLogger("mcp.client.auth").setLevel(logging.CRITICAL)  # who logs in is told what failed

_TIMEOUT: Final = 20.0
_LOCKED: Final = 60.0
"""Seconds to wait for another process that renews the same login."""

_MOST: Final = 1_000_000
"""Bytes of one answer of an authorisation server."""


class _Kept(BaseModel):
    """What the keyring keeps of the provider's context, by the same names."""

    model_config = ConfigDict(from_attributes=True)

    current_tokens: OAuthToken
    token_expiry_time: float | None
    client_info: OAuthClientInformationFull
    oauth_metadata: OAuthMetadata | None
    protected_resource_metadata: ProtectedResourceMetadata | None


class UserLogin:
    """The login of one user (None: the operator's own) at one server; a `TokenStorage` of MCP.

    It goes by the server's address: a server of the same name elsewhere gets no token.
    """

    def __init__(self, config: ServerConfig, user_id: str | None) -> None:
        """Read nothing yet."""
        metadata = OAuthClientMetadata(redirect_uris=None, client_name="loopwright")
        self._provider = OAuthClientProvider(config.url, metadata, self)
        self._config, self._user_id, self._context = config, user_id, self._provider.context
        self._key = json.dumps([resource_url_from_server_url(config.url), user_id])
        name = hashlib.sha256(self._key.encode()).hexdigest()[:32]
        path = Path.home() / ".loopwright" / "locks" / f"{name}.lock"
        self._lock = AsyncFileLock(path, timeout=_LOCKED)  # for other processes of this machine
        self._refused, self._refresh_token = "", ""
        self._work: asyncio.Task[None] | None = None

    async def find_header(self, request: httpx.Request, *, was_refused: bool) -> dict[str, str]:
        """The header with the token, renewed if need be; nothing for a request that goes elsewhere.

        Raises:
            ServerUnavailable: The user has not logged in, the login has ended, or the
                authorisation server or the keyring does not answer.
        """
        url, own = request.url, httpx.URL(self._config.url)
        if (url.scheme, url.host, url.port) != (own.scheme, own.host, own.port):
            return {}
        if was_refused:
            self._refused = request.headers.get("authorization", "").removeprefix("Bearer ")
        if not self._is_good():
            # In a task of its own: a cancelled call must not lose a new token on its way here.
            if self._work is None or self._work.done():
                self._work = asyncio.create_task(self._renew())
            await asyncio.shield(self._work)
        tokens = self._context.current_tokens
        return {"Authorization": f"Bearer {tokens.access_token}"} if tokens else {}

    def _is_good(self) -> bool:
        tokens = self._context.current_tokens if self._context.is_token_valid() else None
        return tokens is not None and tokens.access_token != self._refused

    async def _renew(self) -> None:
        """Take the login from the keyring, with another token than the one that was refused."""
        async with self._lock:
            tokens = await self.get_tokens()
            if tokens is None:
                raise self._make_error(why="login_missing")
            if self._is_good():
                return
            self._refresh_token = tokens.refresh_token or ""
            try:
                await self._refresh()
            except (OAuthFlowError, httpx.HTTPError, TimeoutError) as error:
                problem = str(error).partition("\n")[0][:200] or type(error).__name__
                raise ServerUnavailable(say("login_not_renewed", problem=problem)) from error
            if not self._is_good():
                raise self._make_error(why="login_ended")

    async def _refresh(self) -> None:
        """Send the first of what the provider wants sent, which is the renewal."""
        probe = self._build_probe()
        flow = self._provider.async_auth_flow(probe)
        async with self._make_client() as client, aclosing(flow):
            asked = await anext(flow)
            while asked is not probe:
                async with asyncio.timeout(_TIMEOUT):  # not of the keyring, which keeps the token
                    answer = await client.send(asked)
                if answer.is_server_error:
                    answer.raise_for_status()
                asked = await flow.asend(answer)

    async def log_in(self, redirect_uri: str, receive: Receive) -> None:
        """Log the user in and keep the login; one before is replaced.

        Raises:
            ServerUnavailable: There is no keyring, or it does not answer.
            OAuthFlowError, httpx.HTTPError: The login failed; says why.
        """
        back = ""

        async def show(address: str) -> None:
            nonlocal back
            await check_address(self._config, httpx.URL(address))
            back = await receive(address)

        async def come_back() -> tuple[str, str | None]:
            server = self._context.oauth_metadata
            return _read_return(back, str(server.issuer) if server else "")

        self._context.client_metadata.redirect_uris = [AnyUrl(redirect_uri)]
        self._context.redirect_handler, self._context.callback_handler = show, come_back
        async with self._make_client() as client:
            answer = await client.send(self._build_probe(), auth=self._provider, stream=True)
            await answer.aclose()
        if self._context.current_tokens is None or answer.status_code in (401, 403):
            msg = "the server refuses the token that it was given"
            raise OAuthFlowError(msg)

    async def log_out(self) -> bool:
        """Forget the login; whether there was one."""
        async with self._lock:
            was_in = await self._ask_keyring("get_password") is not None
            if was_in:
                await self._ask_keyring("delete_password")
        return was_in

    def _build_probe(self) -> httpx.Request:
        """A request that begins nothing; its version makes the provider name the resource."""
        headers = {**self._config.headers, MCP_PROTOCOL_VERSION: LATEST_PROTOCOL_VERSION}
        headers["accept"] = "application/json, text/event-stream"
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        return httpx.Request("POST", self._config.url, headers=headers, json=ping)

    def _make_client(self) -> httpx.AsyncClient:
        async def check(request: httpx.Request) -> None:
            await check_address(self._config, request.url)

        async def limit(response: httpx.Response) -> None:
            stream, body = cast("Any", response.stream), b""
            is_probe, pieces = response.request.url == self._config.url, aiter(stream)
            while not is_probe and len(body) < _MOST and (piece := await anext(pieces, b"")):
                body += piece
            await stream.aclose()
            response.stream = httpx.ByteStream(body)
            response.headers.pop("content-encoding", None)  # not unpacked, which may be huge
            if is_probe and self._context.current_tokens is None:
                response.status_code = 401  # some servers greet everybody

        hooks: Any = {"request": [check], "response": [limit]}
        return httpx.AsyncClient(timeout=_TIMEOUT, verify=load_ssl_context(), event_hooks=hooks)

    async def get_tokens(self) -> OAuthToken | None:
        """Take what the keyring has into the context; not for a user who logs in again."""
        text = await self._ask_keyring("get_password") or ""
        with suppress(ValidationError):  # nothing, or of another version
            kept = _Kept.model_validate_json(text)
            self._learn_secrets(kept)
            if self._context.redirect_handler is None:
                for name, value in kept:
                    setattr(self._context, name, value)
                if kept.current_tokens.access_token == self._refused:
                    self._context.token_expiry_time = 1.0  # long ago: the provider renews it
                return kept.current_tokens
        return None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Keep the context, which has them, too."""
        # Without a new one the old one is still good.
        tokens.refresh_token = tokens.refresh_token or self._refresh_token or None
        kept = _Kept.model_validate(self._context)
        self._learn_secrets(kept)
        async with self._lock:
            await self._ask_keyring("set_password", kept.model_dump_json())

    def _learn_secrets(self, kept: _Kept) -> None:
        """Mask the login's secrets from now on, before anything is said of it."""
        tokens = kept.current_tokens
        known = tokens.access_token, tokens.refresh_token, kept.client_info.client_secret
        self._config.secrets.learn([one for one in known if one], passing=True)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """The client that the operator has registered, or that had registered itself."""
        auth = self._config.auth
        if auth is None or not auth.client_id:
            return self._context.client_info
        return OAuthClientInformationFull(
            **auth.model_dump(),
            redirect_uris=None,
            token_endpoint_auth_method="client_secret_basic" if auth.client_secret else "none",
        )

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """The context holds it, too, until it is kept."""

    async def _ask_keyring(self, method: str, *args: str) -> Any:
        try:
            keyring = await asyncio.to_thread(import_module, "keyring")  # an extra
            return await asyncio.to_thread(getattr(keyring, method), "loopwright", self._key, *args)
        except ImportError:
            raise self._make_error(why="keyring_missing") from None
        except Exception as error:  # a keyring may be anything, also of the operator's own
            problem = str(error).partition("\n")[0][:200] or type(error).__name__
            raise self._make_error(why="keyring_failed", problem=problem) from error

    def _make_error(self, *, why: str, **more: object) -> ServerUnavailable:
        """The error that says, by a sentence of this name, why there is no login."""
        user = ["--user", self._user_id] if self._user_id else []
        command = f"{LOGIN} {shlex.join([self._config.name, *user])}"
        return ServerUnavailable(say(why, command=command, **more))


def _read_return(back: str, issuer: str) -> tuple[str, str | None]:
    """The code and the state that the browser came back with; the provider compares the state."""
    came = {name: values[0] for name, values in parse_qs(urlsplit(back).query).items()}
    if issuer and came.get("iss", issuer).rstrip("/") != issuer.rstrip("/"):
        msg = "the answer comes from another authorisation server than the one asked"
        raise OAuthFlowError(msg)
    if "code" not in came:
        msg = f"the authorisation server says {came.get('error', 'nothing')[:100]!r}"
        raise OAuthFlowError(msg)
    return came["code"], came.get("state")


async def check_address(config: ServerConfig, url: httpx.URL) -> None:
    """Refuse addresses without TLS, and those of a private network at a public server.

    Raises:
        OAuthFlowError: It is no address that the server may name.
    """
    if url.scheme != "https" and not (is_loopback(str(url)) and is_loopback(config.url)):
        msg = f"{url.scheme}://{url.host} is not safe, https is needed"
        raise OAuthFlowError(msg)
    own = httpx.URL(config.url).host
    if url.host != own and await _is_private(url.host) and not await _is_private(own):
        msg = f"{url.host} is in a private network, and the server is not"
        raise OAuthFlowError(msg)


async def _is_private(host: str) -> bool:
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None)
    except (OSError, UnicodeError):  # nobody is there, or only a proxy knows the way
        return False
    return any(not ip_address(str(one[4][0]).partition("%")[0]).is_global for one in found)


@cache
def load_ssl_context() -> ssl.SSLContext:
    """The trusted certificates; shared, as each session would need 0.8 MB and 20 ms."""
    return httpx.create_ssl_context()

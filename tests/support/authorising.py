"""An authorisation server and an MCP server that wants its tokens, both on 127.0.0.1.

Made of the MCP package's own server side: metadata, registration, PKCE, renewal, revocation. Who
asks for a code gets it at once, as the user that the test has named.
"""

import contextlib
import itertools
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import anyio
import uvicorn
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    OAuthAuthorizationServerProvider,
    RefreshToken,
    TokenError,
    construct_redirect_uri,
)
from mcp.server.auth.routes import create_auth_routes
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions, RevocationOptions
from mcp.server.fastmcp import FastMCP
from mcp.shared.auth import OAuthToken
from mcp.types import ToolAnnotations
from pydantic import AnyHttpUrl
from starlette.applications import Starlette

from support.mcp_servers import _await_port, free_port


@dataclass
class World(OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken]):
    """What the two servers know, and what they were asked.

    Attributes:
        user: Who logs in next.
        lifetime: Seconds that access tokens live from now on.
        rotates: Whether a renewal gives a new refresh token and refuses the old one.
        delay: Seconds that a renewal takes, after the old token is gone.
        renewals: The refresh tokens that were used, in their order.
        given: All tokens that were ever given out.
        seen: The tokens that the MCP server got.
    """

    issuer: str = ""
    url: str = ""
    user: str = "ann"
    lifetime: int = 3_600
    rotates: bool = True
    delay: float = 0.0
    clients: dict[str, Any] = field(default_factory=dict)
    codes: dict[str, AuthorizationCode] = field(default_factory=dict)
    access: dict[str, AccessToken] = field(default_factory=dict)
    refreshing: dict[str, RefreshToken] = field(default_factory=dict)
    renewals: list[str] = field(default_factory=list)
    asked: list[Any] = field(default_factory=list)
    given: list[str] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def revoke_all(self) -> None:
        """Forget every token, as if the users had withdrawn their consent."""
        self.access.clear()
        self.refreshing.clear()

    async def get_client(self, client_id: str) -> Any:
        return self.clients.get(client_id)

    async def register_client(self, client_info: Any) -> None:
        self.clients[str(client_info.client_id)] = client_info

    async def authorize(self, client: Any, params: Any) -> str:
        self.asked.append(params)
        code = AuthorizationCode(
            code=secrets.token_urlsafe(32),
            scopes=params.scopes or [],
            expires_at=time.time() + 60,
            client_id=client.client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=True,
            resource=params.resource,
            subject=self.user,
        )
        self.codes[code.code] = code
        return construct_redirect_uri(
            str(params.redirect_uri), code=code.code, state=params.state, iss=self.issuer
        )

    async def load_authorization_code(self, client: Any, authorization_code: str) -> Any:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(self, client: Any, authorization_code: Any) -> OAuthToken:
        del self.codes[authorization_code.code]
        return self._give(authorization_code)

    async def load_refresh_token(self, client: Any, refresh_token: str) -> Any:
        return self.refreshing.get(refresh_token)

    async def exchange_refresh_token(
        self, client: Any, refresh_token: Any, scopes: list[str]
    ) -> OAuthToken:
        self.renewals.append(refresh_token.token)
        if self.rotates and self.refreshing.pop(refresh_token.token, None) is None:
            raise TokenError("invalid_grant")
        if self.delay:
            await anyio.sleep(self.delay)
        new = self._give(refresh_token)
        return new if self.rotates else new.model_copy(update={"refresh_token": None})

    def _give(self, grant: Any) -> OAuthToken:
        number = next(self.numbers)
        about = {
            "client_id": grant.client_id,
            "scopes": grant.scopes,
            "resource": grant.resource,
            "subject": grant.subject,
        }
        access = f"access-{number}-{secrets.token_urlsafe(24)}"
        refresh = f"refresh-{number}-{secrets.token_urlsafe(24)}"
        expiry = int(time.time() + self.lifetime)
        self.access[access] = AccessToken(token=access, expires_at=expiry, **about)
        self.refreshing[refresh] = RefreshToken(token=refresh, **about)
        self.given += [access, refresh]
        return OAuthToken(access_token=access, expires_in=self.lifetime, refresh_token=refresh)

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.access.get(token)

    async def verify_token(self, token: str) -> AccessToken | None:
        """As the MCP server asks."""
        self.seen.append(token)
        return self.access.get(token)

    async def revoke_token(self, token: Any) -> None:
        self.access.pop(token.token, None)
        self.refreshing.pop(token.token, None)


def _build_desk(world: World) -> FastMCP:
    auth = AuthSettings(
        issuer_url=AnyHttpUrl(world.issuer),
        resource_server_url=AnyHttpUrl(world.url),
        validate_token_resource=True,
        required_scopes=["desk"],
    )
    desk = FastMCP("desk", auth=auth, token_verifier=world, log_level="CRITICAL")

    @desk.tool(annotations=ToolAnnotations(readOnlyHint=True))
    def whoami() -> str:
        """Who is logged in, and the token that came."""
        token = get_access_token()
        return f"{token.subject} with {token.token}" if token else "nobody"

    @desk.tool()
    def write_down(text: str) -> str:
        """Write something down."""
        world.notes.append(text)
        return "noted"

    return desk


@contextlib.contextmanager
def _serving(app: Any, port: int) -> Iterator[None]:
    server = uvicorn.Server(
        uvicorn.Config(app, host="127.0.0.1", port=port, log_config=None, ws="none")
    )
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    _await_port(port)
    try:
        yield
    finally:
        server.should_exit = server.force_exit = True
        thread.join(10)


@contextlib.contextmanager
def authorising(
    transport: str = "http", around: Callable[[Any, World], Any] = lambda app, world: app
) -> Iterator[World]:
    """Run both servers; `around` may put something between the MCP server and the network."""
    first, second = free_port(), free_port()
    path = "sse" if transport == "sse" else "mcp"
    world = World(issuer=f"http://127.0.0.1:{first}", url=f"http://127.0.0.1:{second}/{path}")
    routes = create_auth_routes(
        world,
        AnyHttpUrl(world.issuer),
        client_registration_options=ClientRegistrationOptions(
            enabled=True, valid_scopes=["desk", "extra"], default_scopes=["desk"]
        ),
        revocation_options=RevocationOptions(enabled=True),
    )
    desk = _build_desk(world)
    app = desk.sse_app() if transport == "sse" else desk.streamable_http_app()
    with _serving(Starlette(routes=routes), first), _serving(around(app, world), second):
        yield world

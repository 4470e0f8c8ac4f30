"""The logins of users at MCP servers: kept in the operator's keyring, by server and user."""

import asyncio
import contextlib
import hashlib
import json
import shlex
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

from filelock import AsyncFileLock
from mcp.client.auth.oauth2 import OAuthContext
from mcp.shared.auth import (
    OAuthClientInformationFull,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from mcp.shared.auth_utils import resource_url_from_server_url
from pydantic import BaseModel, ValidationError

from ...text.sentences import say
from .call import ServerUnavailable
from .config import LOGIN, OAuth, ServerConfig

_LOCKED: Final = 60.0
"""Seconds to wait for another process that renews the same login."""


class Login(BaseModel):
    """What a user's login at a server came to, and how it is renewed."""

    tokens: OAuthToken
    expires_at: float | None = None
    client: OAuthClientInformationFull
    server: OAuthMetadata | None = None
    resource: ProtectedResourceMetadata | None = None

    @property
    def is_over(self) -> bool:
        """Whether its access token is known to have expired."""
        return self.expires_at is not None and time.time() >= self.expires_at


class LoginStore:
    """The login of one user (None: the operator's own) at one server; a `TokenStorage` of MCP.

    It goes by the server's address: a server of the same name elsewhere gets no token.

    Attributes:
        login: As it was read last. What a flow changes counts once it is kept.
    """

    def __init__(self, config: ServerConfig, user_id: str | None) -> None:
        """Read nothing yet."""
        self._server, self._user_id, self._secrets = config.name, user_id, config.secrets
        self._auth = config.auth or OAuth()
        self._key = json.dumps([resource_url_from_server_url(config.url), user_id])
        self.login: Login | None = None

    async def get_tokens(self) -> OAuthToken | None:
        """Those that are to be renewed."""
        return self.login.tokens if self.login else None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """The provider holds them, too, until they are kept."""

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """The client that the operator has registered, or that had registered itself."""
        if not self._auth.client_id:
            return self.login.client if self.login else None
        secret = self._auth.client_secret or None
        return OAuthClientInformationFull(
            client_id=self._auth.client_id,
            client_secret=secret,
            redirect_uris=None,
            token_endpoint_auth_method="client_secret_basic" if secret else "none",
        )

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """The provider holds it, too, until it is kept."""

    async def read(self) -> Login | None:
        """The login, if there is one.

        Raises:
            ServerUnavailable: There is no keyring, or it does not answer.
        """
        text = await self._ask("get_password")
        try:
            self.login = Login.model_validate_json(text) if text else None
        except ValidationError:  # of another version
            self.login = None
        self._learn()
        return self.login

    async def keep(self, context: OAuthContext) -> Login:
        """Keep what a flow of the provider came to."""
        tokens, client, before = context.current_tokens, context.client_info, self.login
        if tokens is None or client is None:
            raise self.make_error(why="login_ended")
        if tokens.refresh_token is None and before is not None:  # then the old one is still good
            tokens = tokens.model_copy(update={"refresh_token": before.tokens.refresh_token})
        self.login = Login(
            tokens=tokens,
            expires_at=context.token_expiry_time,
            client=client,
            server=context.oauth_metadata,
            resource=context.protected_resource_metadata,
        )
        self._learn()
        await self._ask("set_password", self.login.model_dump_json())
        return self.login

    async def delete(self) -> None:
        """Forget the login, which is there."""
        await self._ask("delete_password")

    def _learn(self) -> None:
        """Mask the login's secrets from now on, before anything is said of it."""
        if login := self.login:
            tokens = login.tokens.access_token, login.tokens.refresh_token
            known = *tokens, login.client.client_secret
            self._secrets.learn([one for one in known if one], passing=True)

    async def _ask(self, method: str, *args: str) -> str | None:
        try:
            return await asyncio.to_thread(_ask_keyring, method, self._key, *args)
        except ImportError:
            raise self.make_error(why="keyring_missing") from None
        except Exception as error:  # a keyring may be anything, also of the operator's own
            problem = str(error).partition("\n")[0][:200] or type(error).__name__
            raise self.make_error(why="keyring_failed", problem=problem) from error

    def make_error(self, *, why: str, **more: object) -> ServerUnavailable:
        """The error that says, by a sentence of this name, why there is no login."""
        user = ["--user", self._user_id] if self._user_id else []
        command = f"{LOGIN} {shlex.join([self._server, *user])}"
        return ServerUnavailable(say(why, command=command, **more))

    @contextlib.asynccontextmanager
    async def lock(self) -> AsyncIterator[None]:
        """Keep other processes of this machine from renewing the same login meanwhile."""
        name = hashlib.sha256(self._key.encode()).hexdigest()[:32]
        try:
            folder = await asyncio.to_thread(_make_folder)
            lock = AsyncFileLock(folder / f"{name}.lock", timeout=_LOCKED, mode=0o600)
            await lock.acquire()
        except (OSError, RuntimeError) as error:  # there is no home, or it cannot be written
            raise self.make_error(why="keyring_failed", problem=error) from error
        try:
            yield
        finally:
            await lock.release()


def _make_folder() -> Path:
    folder = Path("~/.loopwright/locks").expanduser()
    folder.mkdir(0o700, parents=True, exist_ok=True)
    return folder


def _ask_keyring(method: str, *args: str) -> Any:
    import keyring  # noqa: PLC0415 - an extra

    return getattr(keyring, method)("loopwright", *args)

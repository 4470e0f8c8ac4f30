"""The MCP configuration people already have (`{"mcpServers": {…}}`), read into `ServerConfig`s."""

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from ...state.errors import ToolServerError

Headers = Callable[[str | None], Any]
"""Gives the headers for a user id: a dict, or an awaitable of one. Called for every request."""

Transport = Literal["stdio", "http", "sse"]

_TRANSPORTS: Final[dict[str, Transport]] = {
    "stdio": "stdio",
    "http": "http",
    "streamable_http": "http",
    "streamable-http": "http",
    "streamablehttp": "http",
    "sse": "sse",
}
_VARIABLE: Final = re.compile(r"\$\{(?:env:)?(\w+)(?::-([^}]*))?\}")
_NO_VARIABLE: Final = re.compile(r"\$\{[^}]*\}")
_MAX_TIMEOUT: Final = 3_600
_STARTUP: Final = 60.0
"""Seconds to start, shake hands and list the tools: a first `npx` or `uvx` downloads its server."""

_SECRET: Final = re.compile(r"KEY|TOKEN|SECRET|PASS|PWD|AUTH|CREDENTIAL", re.IGNORECASE)
# Shorter values are words such as "Bearer" or "none", which texts hold for other reasons.
_SHORTEST_SECRET: Final = 7


@dataclass(frozen=True, kw_only=True)
class ServerConfig:
    """How one MCP server is reached. `problem` says why it cannot be, in words for the user."""

    name: str
    transport: Transport = "stdio"
    command: str = ""
    args: tuple[str, ...] = field(default=(), repr=False)
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str | None = None
    url: str = ""
    headers: Mapping[str, str] | Headers = field(default_factory=dict, repr=False)
    timeout: float | None = None
    startup_timeout: float = _STARTUP
    auto_approve: frozenset[str] | bool = False
    problem: str = ""
    secrets: tuple[str, ...] = field(default=(), repr=False)

    @property
    def per_user(self) -> bool:
        """Whether each user needs a session of their own."""
        return callable(self.headers)

    def masked(self, text: str) -> str:
        """A text of the server without the secrets it was given: it may go into the state."""
        named = (value for name, value in self.env.items() if _SECRET.search(name))
        sent = () if callable(self.headers) else self.headers.values()
        words = (word for header in sent for word in header.split())
        given = {value.strip() for value in (*named, *words, *self.secrets)}
        for value in sorted(given, key=len, reverse=True):
            if len(value) >= _SHORTEST_SECRET:
                text = text.replace(value, "…")
        return text

    def approves(self, tool: str) -> bool:
        """Whether the user has approved this tool once and for all."""
        listed = self.auto_approve
        return listed if isinstance(listed, bool) else tool in listed or "*" in listed


def read_servers(
    source: str | Path | Mapping[str, Any] | None, *, environ: Mapping[str, str] | None = None
) -> list[ServerConfig]:
    """Read the servers that are switched on.

    Args:
        source: A JSON file, or its content as a mapping; `mcpServers` may be left out of a mapping.
        environ: Where `${NAME}` and `${NAME:-default}` are looked up; in `command`, `args`, `cwd`,
            `env`, `url` and `headers`.

    Returns:
        One entry a server in the order given; a wrong entry carries its `problem` and does not
        stop the others.

    Raises:
        ToolServerError: the file is missing or holds no such configuration.
    """
    if source is None:
        return []
    content = source if isinstance(source, Mapping) else _load(Path(source).expanduser())
    servers = content.get("mcpServers", content.get("servers", content))
    if not isinstance(servers, Mapping):
        msg = 'The MCP configuration needs {"mcpServers": {"name": {"command": …} or {"url": …}}}.'
        raise ToolServerError(msg)
    values = os.environ if environ is None else environ
    read = (_read_one(str(name), entry, values) for name, entry in servers.items())
    return [config for config in read if config is not None]


def _load(path: Path) -> Mapping[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        why = error.strerror or error
        msg = f"The MCP configuration {path} cannot be read: {why}; check path and rights."
        raise ToolServerError(msg) from error
    except ValueError as error:
        msg = f"The MCP configuration {path} is no valid JSON: {error}; mend the file."
        raise ToolServerError(msg) from error
    if not isinstance(content, Mapping):
        msg = f'The MCP configuration {path} must be an object with the key "mcpServers".'
        raise ToolServerError(msg)
    return content


class _Wrong(Exception):
    """An entry that cannot be used; the text says what is wrong with it."""


def _read_one(name: str, entry: object, environ: Mapping[str, str]) -> ServerConfig | None:
    if isinstance(entry, Mapping) and (
        entry.get("enabled") is False or entry.get("disabled") is True
    ):
        return None
    if not isinstance(entry, Mapping):
        return ServerConfig(name=name, problem='it must be an object with "command" or "url"')
    try:
        return _parsed(name, entry, environ)
    except _Wrong as wrong:
        return ServerConfig(name=name, problem=str(wrong))


def _parsed(name: str, entry: Mapping[str, Any], environ: Mapping[str, str]) -> ServerConfig:
    url = entry.get("url") or entry.get("httpUrl") or entry.get("serverUrl")
    common: dict[str, Any] = {
        "name": name,
        "transport": _transport(entry, url),
        "timeout": _seconds(entry, "timeout"),
        "startup_timeout": _seconds(entry, "startupTimeout") or _STARTUP,
        "auto_approve": _approved(entry.get("autoApprove", entry.get("alwaysAllow", False))),
        "secrets": _secrets(entry, environ),
    }
    if common["transport"] == "stdio":
        return ServerConfig(**common, **_process(entry, environ))
    headers = entry.get("headers") or {}
    if not callable(headers):
        headers = _expanded("headers", headers, environ)
    return ServerConfig(**common, url=_address(url, environ), headers=headers)


def _address(url: object, environ: Mapping[str, str]) -> str:
    address = _expand("url", url, environ) if isinstance(url, str) else ""
    if not address.startswith(("http://", "https://")):
        msg = '"url" must be an http:// or https:// address'
        raise _Wrong(msg)
    return address


def _transport(entry: Mapping[str, Any], url: object) -> Transport:
    named = entry.get("type", entry.get("transport"))
    if named is None:
        return "http" if url else "stdio"
    if not isinstance(named, str) or named.lower() not in _TRANSPORTS:
        msg = f'"type" is {named!r}; known are stdio, http and sse'
        raise _Wrong(msg)
    return _TRANSPORTS[named.lower()]


def _process(entry: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, Any]:
    command, args, cwd = entry.get("command"), entry.get("args") or [], entry.get("cwd")
    if not isinstance(command, str) or not command.strip():
        msg = 'it has neither "command" nor "url"'
        raise _Wrong(msg)
    if not isinstance(args, list | tuple):
        msg = '"args" must be a list of strings'
        raise _Wrong(msg)
    return {
        "command": _expand("command", command, environ),
        "args": tuple(_expand(f"args[{i}]", str(arg), environ) for i, arg in enumerate(args)),
        "env": _expanded("env", entry.get("env") or {}, environ),
        "cwd": None if cwd is None else os.path.expanduser(_expand("cwd", str(cwd), environ)),
    }


def _seconds(entry: Mapping[str, Any], key: str) -> float | None:
    value = entry.get(key)
    if value is None:
        return None
    good = isinstance(value, int | float) and not isinstance(value, bool)
    if not good or not 0 < float(str(value)) <= _MAX_TIMEOUT:
        msg = f'"{key}" is {value!r}; it is in seconds, above 0 and at most {_MAX_TIMEOUT}'
        raise _Wrong(msg)
    return float(str(value))


def _approved(value: object) -> frozenset[str] | bool:
    if isinstance(value, bool):
        return value
    if not isinstance(value, list | tuple):
        msg = '"autoApprove" must be true or a list of tool names'
        raise _Wrong(msg)
    return frozenset(map(str, value))


def _expanded(key: str, values: object, environ: Mapping[str, str]) -> dict[str, str]:
    if not isinstance(values, Mapping):
        msg = f'"{key}" must be an object of strings'
        raise _Wrong(msg)
    return {str(name): _expand(f"{key}.{name}", str(v), environ) for name, v in values.items()}


def _expand(key: str, text: str, environ: Mapping[str, str]) -> str:
    """Fill in `${NAME}`; a missing variable is said, never sent as it stands."""

    def value(match: re.Match[str]) -> str:
        found = environ.get(match[1]) or match[2]
        if found is None:
            msg = (
                f'"{key}" uses ${{{match[1]}}}, but the environment variable {match[1]} is not set'
            )
            raise _Wrong(msg)
        return found

    if wrong := _NO_VARIABLE.search(_VARIABLE.sub("", text)):
        msg = f'"{key}" holds {wrong[0]}; variables are written ${{NAME}} or ${{NAME:-default}}'
        raise _Wrong(msg)
    return _VARIABLE.sub(value, text)


def _secrets(entry: object, environ: Mapping[str, str]) -> tuple[str, ...]:
    """The values of variables with secret names that an entry uses anywhere."""
    names = {match[1] for match in _VARIABLE.finditer(json.dumps(entry, default=str))}
    return tuple(environ[name] for name in names if _SECRET.search(name) and environ.get(name))

"""The MCP configuration people already have (`{"mcpServers": {…}}`), read into `ServerConfig`s."""

import json
import math
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from ipaddress import ip_address
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Final, Literal
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
)

from ...policy.origins import Origin
from ...state.errors import ToolServerError
from ...state.limits import read_file
from ...text.secrets import Secrets, find_argument_secrets, find_header_secrets, find_secrets

Headers = Callable[[str | None], Any]
"""Gives the headers for a user id: a dict, or an awaitable of one. Called for every request."""

LOGIN: Final = "loopwright login"
"""The command by which a user logs in to a server."""

IDLE: Final = 300.0
"""Seconds: longer than the pauses within a turn, shorter than those between users."""

_VARIABLE: Final = re.compile(r"\$\{(?:env:)?(\w+)(?::-([^}]*))?\}")
_HTTP_NAMES: Final = ("streamable_http", "streamable-http", "streamablehttp")
_NO_VARIABLE: Final = re.compile(r"\$\{[^}]*\}")

_KINDS: Final = {
    "args": "a list of strings",
    "env": "an object of strings",
    "headers": "an object of strings, or a callable",
    "type": "stdio, http or sse",
    "transport": "stdio, http or sse",
    "timeout": "a number of seconds above 0, at most 3600",
    "startupTimeout": "a number of seconds above 0, at most 3600",
    "idle": 'a number of seconds above 0, or "never"',
    "autoApprove": "true or a list of tool names",
    "trust": "true or false",
    "origin": "trusted or foreign",
    "sinks": 'lists of argument names by tool, such as {"send_mail": ["to"]}',
    "confidential": "true or false",
    "auth": '"oauth", or an object with client_id, client_secret',
    "sampling": "true or false",
}
"""The fields of an entry that take more than a plain text."""


def _fill_in(value: object, info: ValidationInfo) -> object:
    """Fill in `${NAME}`; a missing variable is an error."""
    environ: Mapping[str, str] = info.context or {}

    def variable(match: re.Match[str]) -> str:
        text = environ.get(match[1]) or match[2]
        if text is None:
            msg = f"uses ${{{match[1]}}}, but the environment variable {match[1]} is not set"
            raise ValueError(msg)
        return text

    if not isinstance(value, str):
        return value
    if unknown := _NO_VARIABLE.search(_VARIABLE.sub("", value)):
        msg = f"holds {unknown[0]}; variables are written ${{NAME}} or ${{NAME:-default}}"
        raise ValueError(msg)
    return _VARIABLE.sub(variable, value)


def _read_transport(value: object) -> object:
    name = value.lower() if isinstance(value, str) else value
    return "http" if name in _HTTP_NAMES else name


def _read_idle(value: object) -> object:
    return math.inf if value == "never" else value


def _read_by_tool(value: object) -> object:
    return value if isinstance(value, Mapping) else {"*": value}


def _read_approved(value: object) -> object:
    return ({"*"} if value else ()) if isinstance(value, bool) else value


_Text = Annotated[str, BeforeValidator(_fill_in)]
_Seconds = Annotated[float, Field(gt=0, le=3_600, strict=True)]


class OAuth(BaseModel):
    """The client that the operator has registered for logins; without one it registers itself."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    client_id: _Text = ""
    client_secret: _Text = Field(default="", repr=False)


class ServerConfig(BaseModel):
    """How one MCP server is reached; `problem` says why it cannot be, for the user."""

    model_config = ConfigDict(
        frozen=True, populate_by_name=True, coerce_numbers_to_str=True, arbitrary_types_allowed=True
    )

    name: str
    command: _Text = ""
    args: tuple[_Text, ...] = Field(default=(), repr=False)
    env: dict[str, _Text] = Field(default={}, repr=False)
    cwd: Annotated[_Text, AfterValidator(os.path.expanduser)] | None = None
    url: _Text = Field(default="", validation_alias=AliasChoices("url", "httpUrl", "serverUrl"))
    transport: Annotated[Literal["stdio", "http", "sse"], BeforeValidator(_read_transport)] = Field(
        default_factory=lambda known: "http" if known.get("url") else "stdio",
        validation_alias=AliasChoices("type", "transport"),
    )
    headers: dict[str, _Text] = Field(default={}, repr=False)
    user_headers: Headers | None = Field(default=None, repr=False)
    auth: Annotated[OAuth | None, BeforeValidator(lambda v: {} if v == "oauth" else v)] = None
    timeout: _Seconds | None = None
    # A first `npx` or `uvx` downloads its server; then it shakes hands and lists its tools.
    # None: what the run's settings say.
    startup_timeout: _Seconds | None = Field(default=None, validation_alias="startupTimeout")
    # How long nobody may use a session before it ends; the next call begins another one.
    idle: Annotated[float, Field(gt=0, strict=True), BeforeValidator(_read_idle)] = IDLE
    auto_approve: Annotated[frozenset[str], BeforeValidator(_read_approved)] = Field(
        default=frozenset(), validation_alias=AliasChoices("autoApprove", "alwaysAllow")
    )
    # The operator's word for what the server says of its tools; None: see `is_believed`.
    trust: Annotated[bool, Field(strict=True)] | None = None
    # The operator's word for what its tools give, by tool or of all (`*`), and for the arguments
    # by which they act; see `policy.origins`.
    origin: Annotated[dict[str, Origin], BeforeValidator(_read_by_tool)] = {}
    sinks: dict[str, tuple[str, ...]] = {}
    confidential: Annotated[bool, Field(strict=True)] = False
    sampling: Annotated[bool, Field(strict=True)] = False  # it may ask the graph's model in a call
    problem: str = ""
    secrets: Secrets = Field(default_factory=Secrets, repr=False)

    def mask(self, text: str) -> str:
        """Words of the server without secrets: they may go into the state."""
        return self.secrets.mask_words(text)

    def list_secrets(self) -> Iterator[str]:
        """The secrets that the server is given."""
        yield from find_secrets([*self.env.items(), ("", self.url)])
        yield from find_header_secrets(self.headers)
        yield from find_argument_secrets(self.args)
        yield self.auth.client_secret if self.auth else ""

    @property
    def is_believed(self) -> bool:
        """Whether its hints may make a tool freer: it is trusted, or runs as the operator's own."""
        return self.transport == "stdio" if self.trust is None else self.trust

    def approves(self, tool: str) -> bool:
        """Whether the user has approved this tool once and for all."""
        return tool in self.auto_approve or "*" in self.auto_approve


def read_servers(
    source: str | Path | Mapping[str, Any] | None,
    *,
    environ: Mapping[str, str] | None = None,
    secrets: Secrets | None = None,
) -> list[ServerConfig]:
    """Read the servers that are switched on.

    Args:
        source: A JSON file, or its content as a mapping; `mcpServers` may be left out of a mapping.
        environ: Where `${NAME}` and `${NAME:-default}` are looked up; in `command`, `args`, `cwd`,
            `env`, `url`, `headers` and `auth`.
        secrets: Takes the secrets that the servers are given; all of them know the same.

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
    shared = Secrets() if secrets is None else secrets
    configs = (_read_one(str(name), entry, values, shared) for name, entry in servers.items())
    return [config for config in configs if config is not None]


def _load(path: Path) -> Mapping[str, Any]:
    try:
        content = json.loads(read_file(path, "settings"))
    except OSError as error:
        why = error.strerror or error
        msg = f"The MCP configuration {path} cannot be read: {why}; check path and rights."
        raise ToolServerError(msg) from error
    except (ValueError, RecursionError) as error:
        msg = f"The MCP configuration {path} is no valid JSON: {error}; fix the file."
        raise ToolServerError(msg) from error
    if not isinstance(content, Mapping):
        msg = f'The MCP configuration {path} must be an object with the key "mcpServers".'
        raise ToolServerError(msg)
    return content


def _read_one(
    name: str, entry: object, environ: Mapping[str, str], secrets: Secrets
) -> ServerConfig | None:
    if not isinstance(entry, Mapping):
        return ServerConfig(name=name, problem='it must be an object with "command" or "url"')
    if entry.get("enabled") is False or entry.get("disabled") is True:
        return None
    fields = {key: value for key, value in entry.items() if value is not None}
    fields |= {"name": name, "problem": "", "secrets": secrets}
    if callable(fields.get("headers")):
        fields["user_headers"] = fields.pop("headers")
    try:
        config = ServerConfig.model_validate(fields, context=environ)
    except ValidationError as error:
        return ServerConfig(name=name, problem=_describe(error))
    secrets.learn([*config.list_secrets(), *find_secrets(_variables_of(entry, environ))])
    return config.model_copy(
        update={"problem": _find_problem(config), "command": _resolve_command(config)}
    )


def _resolve_command(config: ServerConfig) -> str:
    """The command; for a server of ours, `python` is this interpreter."""
    module = next((after for flag, after in pairwise(config.args) if flag == "-m"), "")
    ours = module.startswith("loopwright.servers.")
    return sys.executable if ours and config.command in ("python", "python3") else config.command


def _describe(error: ValidationError) -> str:
    """The first thing that is wrong with an entry; never its value, which may be secret."""
    first = error.errors(include_url=False, include_input=False)[0]
    key, *inner = first["loc"]
    inner = [part for part in inner if part != "*"]
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in inner)
    by_tool = key in ("origin", "sinks", "auth")
    kind = "a text" if inner and not by_tool else _KINDS.get(str(key), "a text")
    problem = first.get("ctx", {}).get("error") or f"must be {kind}"
    return f'"{key}{place}" {problem}'


def _find_problem(config: ServerConfig) -> str:
    if config.auth and not (config.url.startswith("https://") or is_loopback(config.url)):
        return '"auth" needs a "url" that begins with https://'
    if config.auth and config.user_headers:
        return '"auth" and a function as "headers" exclude each other'
    if config.transport == "stdio":
        return "" if config.command.strip() else 'it has neither "command" nor "url"'
    good = config.url.startswith(("http://", "https://"))
    return "" if good else '"url" must be an http:// or https:// address'


def is_loopback(url: str) -> bool:
    """Whether an address over HTTP is on this machine."""
    try:
        host = urlsplit(url).hostname or ""
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _variables_of(entry: object, environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """The variables that an entry uses anywhere, by name."""
    names = {match[1] for match in _VARIABLE.finditer(json.dumps(entry, default=str))}
    return [(name, environ[name]) for name in names if environ.get(name)]

"""The tools a model is offered: one entry a tool under a name no other tool has."""

import difflib
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any, Final

from langchain_core.tools import BaseTool

from ..policy.origins import Origin, Reading
from ..state.context import DEFAULTS
from ..state.history import ASKED
from ..state.limits import explain_excess
from ..state.roles import ROLES
from ..text.canonical import canonical, hash_of
from ..text.sentences import say
from .arguments import fit, list_allowed_types
from .hints import Said, hold_to_word, read_asks, read_flags
from .mcp.config import ServerConfig
from .mcp.server import Listing
from .names import MAX_NAME, clean_name, shorten_name
from .schemas import Schema, one_line, read_output, sanitize
from .search import DeferredTools

READ_RESULT: Final = "read_result"
FIND_TOOLS: Final = "find_tools"

# A call named like a contract is read as that structured answer, so no tool may have such a name;
# and a provider that is told to choose "none" must call nothing.
RESERVED: Final = frozenset(
    {READ_RESULT, FIND_TOOLS, "none", *(role.contract for role in ROLES.values())}
)


@dataclass(frozen=True, kw_only=True)
class CatalogTool:
    """One tool as the model sees it, and its source.

    `read_only`, `destructive` and `idempotent` are the tool's own declarations; without any it is a
    write that must not be repeated. Results of a tool that is not `cacheable`, or that `polls`, are
    never reused; repeated calls of a tool that `polls` are no loop. `output` is the declared schema
    of its result, if references can use it.
    """

    name: str
    description: str
    schema: Schema
    server: str | None = None
    original: str = ""
    tool: BaseTool | None = None
    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False
    cacheable: bool = True
    polls: bool = False
    declared: Mapping[str, bool] = field(default_factory=dict)
    auto_approve: bool = False
    timeout: float | None = None
    hidden: frozenset[str] = frozenset()
    output: Schema | None = None
    asks: Mapping[str, str] = field(default_factory=dict)
    """Argument paths and patterns for which its server wants a human to be asked."""
    claimed: Mapping[str, bool] = field(default_factory=dict)
    """The hints of its server, also where they do not count."""
    open_world: bool | None = None  # it reaches beyond its own records, if it says so
    origin: Origin = ""  # what the operator says of its results
    sinks: tuple[str, ...] | None = None  # the arguments through which it acts; None: all
    confidential: bool = False  # what it gives must not leave by a tool of the open world
    is_vouched: bool = True  # the program gave it, or the operator trusts its server
    own: Callable[[Mapping[str, Any], Any], Awaitable[Any]] | None = None
    """Answers a call of a tool of the package, from its arguments and an `Own`. Such a call is not
    asked about, counted or recorded; its result's `update` changes the state. If it is not
    `read_only`, it runs after the calls before it, and is no evidence."""
    is_work: bool = False
    """Of the package's own: it does a part of the work, which is planned and is evidence."""

    @cached_property
    def definition(self) -> str:
        """The digest of what a human approves who allows its calls: words, schema and hints."""
        hints = [self.declared, self.claimed, self.asks]
        return hash_of([self.description, self.schema, self.output, *hints])

    @property
    def is_doubted(self) -> bool:
        """Whether its server says that it only reads, and is not believed."""
        return not self.read_only and self.claimed.get("readOnlyHint", False)

    @property
    def resendable(self) -> bool:
        """Whether running it twice leaves the world as running it once."""
        return self.read_only or self.idempotent

    @property
    def acts(self) -> bool:
        """Whether its calls change the world or carry their arguments out into it."""
        return self.own is None and (not self.read_only or bool(self.open_world))

    def select_sinks(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments by which a call acts: those that the operator names, or all."""
        return {n: v for n, v in arguments.items() if self.sinks is None or n in self.sinks}

    def content(self, arguments: object) -> str:
        """The identity of a call: tool, server, and its arguments with the defaults filled in."""
        spelled = fit(arguments, self.schema, normalize=True)
        return canonical([self.original, self.server, spelled])

    def spec(self) -> dict[str, Any]:
        """The tool in OpenAI's format."""
        function = {"name": self.name, "description": self.description, "parameters": self.schema}
        return {"type": "function", "function": function}


def make_own_tool(
    name: str,
    description: str,
    properties: Mapping[str, Any],
    answer: Callable[[Mapping[str, Any], Any], Awaitable[Any]],
    *,
    required: Sequence[str] = (),
    read_only: bool = False,
    idempotent: bool = True,
) -> CatalogTool:
    """A tool of the package, whose calls `answer` answers."""
    schema = {"type": "object", "properties": dict(properties), "required": [*required]}
    return CatalogTool(
        name=name, description=description, schema=schema, original=name, own=answer,
        read_only=read_only, idempotent=idempotent,
    )  # fmt: skip


async def _read_page(args: Mapping[str, Any], own: Any) -> Any:
    return await own.results.answer_read(args, own.scope.context.result_cap)


OwnTools = Callable[[], Sequence[CatalogTool]]
"""Makes tools of the package, which speak the language of the run that asks for them."""


def make_reader() -> CatalogTool:
    """The built-in tool that pages through capped results; offered with any other tool."""
    place, description = {"type": "integer", "minimum": 0, "default": 0}, say("read_result_tool")
    about: dict[str, Any] = {"id": {"type": "string", "description": say("read_result_id")}}
    about["offset"] = {**place, "description": say("read_result_offset")}
    return make_own_tool(
        READ_RESULT, description, about, _read_page, required=["id"], read_only=True
    )


@dataclass(frozen=True)
class Catalog:
    """All tools by the name the model knows, and warnings about missing ones."""

    tools: Mapping[str, CatalogTool]
    warnings: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    """Configured servers of which no tool is there."""
    own: Mapping[str, CatalogTool] = field(default_factory=lambda: {READ_RESULT: make_reader()})
    """Tools of the package, in the order in which they are offered: always the same."""
    make_spare: "OwnTools" = tuple
    """Makes the tools of the package that are offered once a request leaves something out."""
    barred: frozenset[str] = frozenset()
    """Names of tools that are there, but not for this agent."""
    most_shown: int = DEFAULTS.shown_tools
    """With more tools only their names are shown."""

    @cached_property
    def deferred_tools(self) -> DeferredTools:
        """The tools as they are found where they are too many to be shown whole."""
        return DeferredTools(self.tools, self.most_shown)

    def specs(self, found: Sequence[str] = ()) -> list[dict[str, Any]]:
        """The tools in OpenAI's format, always in the same order.

        The package's own tools come from the first request on: a tool inserted later would cost the
        provider's cache. Of many tools only those that were `found` are shown, at the end.
        """
        own = [*self.own.values()]
        if self.deferred_tools.is_needed:
            shown = (self.tools[name] for name in dict.fromkeys(found) if name in self.tools)
            return [tool.spec() for tool in [*own, *shown]]
        offered = [*self.tools.values(), *own]
        return [tool.spec() for tool in offered] if self.tools or len(own) > 1 else []

    @cached_property
    def descriptions(self) -> list[Reading]:
        """What servers say of their tools that nobody vouches for; models read it first."""
        return [
            Reading(tool.name, "\n".join([
                tool.original, tool.description, canonical(tool.schema), canonical(tool.output),
            ]), origin="suspect")
            for tool in self.tools.values()
            if tool.server is not None and tool.origin != "trusted"
        ]  # fmt: skip

    @cached_property
    def _spare(self) -> dict[str, CatalogTool]:
        return {tool.name: tool for tool in self.make_spare() if tool.name not in self.own}

    def spare_specs(self) -> list[dict[str, Any]]:
        """The tools, in OpenAI's format, for requests that leave something out."""
        return [tool.spec() for tool in self._spare.values()]

    def restrict(self, globs: Sequence[str] | None, *, read_only: bool = False) -> "Catalog":
        """The catalog with only the tools that match these names or globs (None: all).

        With `read_only`, only those that declare to be so.
        """
        if globs is None and not read_only:
            return self
        wanted = ("*",) if globs is None else globs

        def is_offered(name: str, tool: CatalogTool) -> bool:
            called = any(fnmatchcase(n, glob) for n in (name, tool.original) for glob in wanted)
            return called and (tool.read_only or not read_only)

        tools = {name: tool for name, tool in self.tools.items() if is_offered(name, tool)}
        own = {n: tool for n, tool in self.own.items() if not tool.is_work or is_offered(n, tool)}
        known = {*self.own, *self.tools, *(tool.original for tool in self.tools.values())}
        vain = [g for g in globs or () if not any(fnmatchcase(n, g) for n in known)]
        told = (f"The agent may call {glob!r}, but there is no such tool." for glob in vain)
        barred, warnings = frozenset(self.tools.keys() - tools.keys()), (*self.warnings, *told)
        return replace(self, tools=tools, own=own, barred=barred, warnings=warnings)

    def summaries(self, request: str) -> list[dict[str, Any]]:
        """Names and descriptions for roles that only plan; of many tools the likely ones."""
        many = self.deferred_tools
        names = many.find_likely(request) if many.is_needed else self.tools
        tools = [*(self.tools[name] for name in names), *self.own.values()]
        tools = [tool for tool in tools if tool.own is None or tool.is_work]
        return [{"name": tool.name, "description": tool.description} for tool in tools]

    def find(self, name: str, server: str | None = None) -> CatalogTool | None:
        """Look a tool up.

        Args:
            name: The name the model used.
            server: The server of the planned call. A tool's name may get or lose its prefix when
                another server comes or goes meanwhile; its server stays.
        """
        if name in self.own:
            return self.own[name]
        tool = self.tools.get(name)
        if tool is not None and (server is None or tool.server == server):
            return tool
        return self._find_renamed(name, server) or self._spare.get(name)

    def _find_renamed(self, name: str, server: str | None) -> CatalogTool | None:
        for tool in self.tools.values():
            if tool.server is None or server not in (None, tool.server):
                continue
            if name == _prefix_name(tool) or (
                server and name == shorten_name(clean_name(tool.original))
            ):
                return tool
        return None

    def find_nearest(self, name: str) -> list[str]:
        """Names a model may have meant, best first; without a close one, all names."""
        offered = [*self.tools, *(self.own if len(self.own) > 1 else ())]
        lowered = {known.lower(): known for known in offered}
        close = difflib.get_close_matches(name.lower(), lowered, n=3, cutoff=0.5)
        words = set(re.split(r"[^a-z0-9]+", name.lower())) - {""}
        shared = [known for low, known in lowered.items() if words & set(re.split("[_-]", low))]
        names = list(dict.fromkeys([*(lowered[low] for low in close), *shared]))
        return names[:5] or offered[:20]

    def explain_unknown(self, name: str) -> str:
        """The answer to a call of a tool that does not exist."""
        near = ", ".join(self.find_nearest(name))
        if name in self.barred:
            return say("unauthorized_tool", tool=repr(name), near=near or ", ".join(self.own))
        return say("unknown_tool" if near else "unknown_tool_and_none", tool=repr(name), near=near)


_TOO_LONG: Final = "The tool {1!r} of MCP server {0!r} is left out, for its definition: {2}."
_FOR_TASKS: Final = "The tool {1!r} of MCP server {0!r} is left out: it runs as an MCP task alone."
_NOTHING: Final = "MCP server {!r} is there, but offers no tool; look at its entry and its version."


def build_catalog(
    python: Sequence[CatalogTool],
    listings: Sequence[Listing],
    own: OwnTools = lambda: [make_reader()],
    reserved: frozenset[str] = RESERVED,
    said: Said | None = None,
) -> Catalog:
    """Name all tools: the program's tools keep their names, equal names of servers get a prefix.

    A prefixed name depends only on the names of server and tool: it is the same after a resume.
    `said` remembers what servers said of their tools from one catalog to the next.
    """
    said = {} if said is None else said
    texts = (
        listing.warning or ("" if listing.tools else _NOTHING.format(listing.config.name))
        for listing in listings
    )
    warnings = [text for text in texts if text]
    offered: list[CatalogTool] = []
    for listing in listings:
        offered += _describe_tools(listing, warnings, said)
    taken = Counter(tool.name for tool in [*python, *offered])
    mine = {tool.name: tool for tool in own()}
    reserved = RESERVED | reserved | mine.keys() | {ASKED}  # else it could call itself the user
    taken.update(reserved)
    tools = {tool.name: tool for tool in python}
    for tool in offered:
        name = tool.name if taken[tool.name] == 1 else _prefix_name(tool)
        if name in tools or name in reserved:
            name = shorten_name(name, salt=f"{tool.server}/{tool.original}")
        tools[name] = replace(tool, name=name)
    missing = tuple(listing.config.name for listing in listings if not listing.tools)
    return Catalog(tools, tuple(warnings), missing, mine)


def _describe_tools(listing: Listing, warnings: list[str], said: Said) -> Iterable[CatalogTool]:
    """The usable tools of one server, each original name once."""
    seen: set[str] = set()
    for raw in listing.tools:
        original = raw.get("name")
        if not isinstance(original, str) or not original.strip():
            warnings.append(f"MCP server {listing.config.name!r} offers a tool without a name.")
        elif original not in seen:
            seen.add(original)
            if why := explain_excess("tool definition", raw):
                warnings.append(_TOO_LONG.format(listing.config.name, original[:MAX_NAME], why))
            elif _runs_as_task(raw):
                warnings.append(_FOR_TASKS.format(listing.config.name, original[:MAX_NAME]))
            else:
                yield _make_server_tool(listing.config, original, raw, said)


def _runs_as_task(raw: Mapping[str, Any]) -> bool:
    """Whether a tool can be called in no other way."""
    how = raw.get("execution")
    return isinstance(how, Mapping) and how.get("taskSupport") == "required"


def _make_server_tool(
    config: ServerConfig, original: str, raw: Mapping[str, Any], said: Said
) -> CatalogTool:
    flags, asks = read_flags(raw.get("annotations")), read_asks(raw.get("_meta"))
    if not config.trust:
        flags, asks = hold_to_word(config, original, flags, asks, said)
    return CatalogTool(
        name=shorten_name(clean_name(original)),
        description=one_line(raw.get("description")) or one_line(raw.get("title")) or original,
        schema=sanitize(raw.get("inputSchema")),
        server=config.name,
        original=original,
        auto_approve=config.approves(original),
        timeout=config.timeout,
        output=_unwrap_schema(read_output(raw.get("outputSchema"))),
        asks=asks,
        origin=config.origin.get(original, config.origin.get("*", "")),
        sinks=config.sinks.get(original),
        is_vouched=config.trust is True,
        confidential=config.confidential,
        **flags,
    )


def _unwrap_schema(schema: Schema | None) -> Schema | None:
    """The schema of an MCP result without the wrapper that `normalize_result` removes.

    None if a result may come with or without it.
    """
    if schema is None or set(schema.get("properties", ())) != {"result"}:
        return schema
    inner = schema["properties"]["result"]
    named: Schema = {key: schema[key] for key in ("$defs", "definitions") if key in schema}
    clean = sanitize({**named, "properties": {"result": inner}, "required": ["result"]})
    kinds = list_allowed_types(clean["properties"].get("result", {}))
    if kinds == {"object"}:
        return schema
    return {**named, **inner} if kinds and "object" not in kinds else None


def _prefix_name(tool: CatalogTool) -> str:
    return shorten_name(clean_name(f"{tool.server}_{tool.original}"))

"""The toolbox of one graph: its Python tools, its MCP servers and its policy."""

import asyncio
import atexit
import contextlib
import copy
import os
import weakref
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import partial
from operator import methodcaller
from pathlib import Path
from typing import Any, Final, TypeVar

from langchain_core.messages import ToolMessage
from langgraph.store.memory import InMemoryStore

from ..run.background import await_in_background, run_blocking
from ..state.context import SHOWN_TOOLS, Context
from ..state.errors import SettingsError, SyncCallInLoop
from ..store.base.recordings import TAPE
from ..text.secrets import Secrets
from ..text.sentences import LANGUAGE
from ..tools.catalog import (
    FIND_TOOLS,
    READ_RESULT,
    RESERVED,
    Catalog,
    CatalogTool,
    OwnTools,
    build_catalog,
    make_reader,
)
from ..tools.hints import Said
from ..tools.mcp.call import CALL, Sample, ServerCall, ToolGone
from ..tools.mcp.config import ServerConfig, read_servers
from ..tools.mcp.processes import PROCESS_LIMIT
from ..tools.mcp.server import Listing, Servers
from ..tools.python_tools import PythonTool, read_tools
from ..turn.begin import MissingTools
from ..turn.scope import RunScope
from .package_tools import build_tool_finder
from .policy import Policy, PolicyLike, list_missing_tools, mark_read_only
from .recall import build_recall_tool
from .result_store import ResultStore
from .reuse import ReadCache

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")

Sampler = Callable[[RunScope], AbstractAsyncContextManager[Sample]]
"""Opens what asks the model for a server, as long as a call of the run takes."""

_EXIT_DEADLINE: Final = 8.0

_SPARE_THREADS: Final = 32
_KEPT: Final = 256
"""Catalogs; each stands for one combination of listings."""


class Toolbox:
    """Everything a graph's models may call. Servers are opened at the first request for tools.

    Usable from any event loop and thread; sessions live on the package's background loop.
    """

    _own_servers: frozenset[str] = frozenset()
    _offers: Sequence[str] | None = None
    _reads_only = False

    def __init__(
        self,
        tools: Sequence[PythonTool] = (),
        mcp: str | Path | Mapping[str, Any] | None = None,
        policy: PolicyLike = None,
        own: OwnTools = tuple,
        foreign: str | None = None,
        sampler: Sampler | None = None,
    ) -> None:
        """Read tools, configuration and policy; nothing is started yet.

        Args:
            tools: LangChain tools or functions.
            mcp: Path or content of an `mcpServers` configuration. In a mapping, `headers` may be a
                callable that gets the user id and returns the headers, asked for every request.
            policy: What may run: a word, rules, a `Policy`, or the path of a JSON file of rules.
            own: Makes the tools of the package that every agent has.
            foreign: What happens to values of strangers; None: what the policy says.
            sampler: Asks the graph's model for servers; None: nobody does.

        Raises:
            SettingsError: a tool, the configuration or the policy cannot be used.
        """
        self.policy = Policy.of(policy, foreign)
        self.sampler, self.tape = sampler, TAPE.get()
        self._spare: dict[str, InMemoryStore] = {}
        self._memories: dict[tuple[str, str], ReadCache] = {}
        self._in_use: weakref.WeakValueDictionary[tuple[str, str], ReadCache] = (
            weakref.WeakValueDictionary()
        )
        self._python = read_tools(tools)
        self.direct = frozenset(t.name for t in self._python if t.tool and t.tool.return_direct)
        """Tools whose result is the answer, where a graph has it so."""
        self.secrets = Secrets()
        self._configs = read_servers(mcp, secrets=self.secrets)
        if self._configs:
            PROCESS_LIMIT.read(os.environ)
        self._home = _ServerHost(self._configs)
        self.known_tools: dict[str, CatalogTool] = {}
        """By name: the tools of all agents with these servers, as far as they are known."""
        self._said: Said = {}
        self._named: dict[tuple[object, ...], tuple[Sequence[Listing], Catalog]] = {}
        self._own: OwnTools = lambda: [make_reader()]
        self._reserved = RESERVED
        self._add_package_tools(own)
        self._whole: Toolbox | None = None
        _homes.add(self._home)
        weakref.finalize(self, self._home.close_without_wait).atexit = False

    async def catalog(self, user_id: str | None = None) -> Catalog:
        """All tools, under unique names; no server takes longer than its `startupTimeout`.

        Servers with callable headers are asked with those of `user_id`.
        """
        if not self._configs:
            return self._build_catalog(())
        load = partial(self._load_listings, user_id)
        listings = await (self.tape.load_listings(self._configs, load) if self.tape else load())
        if (LANGUAGE.get(), *map(id, listings)) in self._named:
            return self._build_catalog(listings)
        # Definitions are as long as strangers make them: no event loop waits for their reading.
        return await asyncio.to_thread(self._build_catalog, listings)

    async def _load_listings(self, user_id: str | None) -> Sequence[Listing]:
        here, names = self._home.current_servers, [config.name for config in self._configs]
        listings = here.find_known_listings(user_id, names) if here else None
        if listings is None:
            listings = await self._home.run_on_loop(
                lambda servers: servers.load_listings(user_id, names)
            )
        return listings

    def narrow(
        self,
        offers: Sequence[str] | None,
        own: OwnTools,
        *,
        read_only: bool = False,
        reserved: frozenset[str] = frozenset(),
        mcp: str | Path | Mapping[str, Any] | None = None,
    ) -> "Toolbox":
        """This toolbox as one agent has it: the same servers and memory.

        Args:
            offers: Names or globs of the tools it may call; None means all.
            own: Makes the tools of the package it has besides, in the order of the offer.
            read_only: Of those it may call, only the ones that declare that they change nothing.
            reserved: Names that have a meaning for it, even where there is no such tool.
            mcp: Configuration of servers of its own, whose tools it may call besides.

        Raises:
            SettingsError: A tool of the program has the name of one of these, or another server
                has the name of one of its own.
        """
        mine = copy.copy(self)
        mine._named, mine._offers, mine._reads_only = {}, offers, read_only
        mine._add_package_tools(own, reserved)
        mine._whole = self  # its servers end with it
        if added := read_servers(mcp, secrets=self.secrets):
            PROCESS_LIMIT.read(os.environ)
            self._home.add(added)
            mine._own_servers = frozenset(config.name for config in added)
            shared = (config for config in self._configs if config.name not in mine._own_servers)
            mine._configs = [*shared, *added]
        return mine

    def _add_package_tools(self, own: OwnTools, reserved: frozenset[str] = frozenset()) -> None:
        """Have these tools of the package, too."""
        names = reserved.union(tool.name for tool in own())
        if taken := sorted(names & {t.name for t in self._python}):
            msg = f"The tool {taken[0]!r} has the name of a tool of the package: rename it."
            raise SettingsError(msg)
        known, self._reserved = self._own, self._reserved | names
        self._own = lambda: [*known(), *own()]

    async def find_missing(self, user_id: str | None = None) -> MissingTools:
        """What is to be said of configured servers before a turn begins."""
        found = await self.catalog(user_id)
        return MissingTools(found.warnings, found.missing)

    @property
    def whole(self) -> "Toolbox":
        """The toolbox that this one is narrowed from."""
        return self if self._whole is None else self._whole.whole

    def open_results(self, scope: RunScope) -> ResultStore:
        """The long results of a run's thread; without a store in memory, for the last threads."""
        store = scope.store or _get_latest(self._spare, scope.thread, InMemoryStore)
        return ResultStore(store, scope.thread, scope.around.past)

    def find_read_cache(self, scope: RunScope) -> ReadCache | None:
        """What the reads of the user turn gave; None if no result may be used again."""
        if not self._may_reuse(scope.context):
            return None
        if not scope.turn:
            return ReadCache()
        key = (scope.thread, scope.turn)
        # Many threads may push a memory out while a call still has it: they must not be two.
        found = self._in_use.setdefault(key, ReadCache())
        return _get_latest(self._memories, key, lambda: found)

    def _may_reuse(self, context: Context) -> bool:
        """Whether a result may be reused: some tool only reads, or may be said to."""
        if context.dedupe == "off":
            return False
        if self._configs or self.policy.table is not None:
            return True
        return any(tool.read_only or context.dedupe == "all" for tool in self._python)

    def has_writes(self) -> bool:
        """Whether a tool may change the world: true unless all are known to be read-only."""
        own = (tool for tool in self._own() if tool.is_work)
        if self.has_inner_servers or any(not tool.read_only for tool in (*self._python, *own)):
            return True
        if not self._configs:
            return False
        known = [*self._named.values()]
        unknown = not known or any(entry.warning for entries, _ in known for entry in entries)
        return unknown or any(not t.read_only for _, c in known for t in c.tools.values())

    @property
    def has_inner_servers(self) -> bool:
        """Whether there are servers of which only one agent has the tools."""
        return len(self._home.configs) > len(self.whole._configs)

    async def call_server(
        self,
        tool: CatalogTool,
        args: Mapping[str, Any],
        *,
        user_id: str | None,
        meta: Mapping[str, Any],
        **more: Any,
    ) -> Any:
        """Call a tool of an MCP server; the answer is a `ToolMessage`. For `more` see `ServerCall`.

        A tool that the server no longer has is answered with the nearest ones there are.

        Raises:
            ServerUnavailable: the server cannot be reached.
            ElicitationPending: It asks the human something first; the call is parked under its key.
        """
        call = ServerCall(
            name=tool.original, args=dict(args), resendable=tool.resendable, user_id=user_id,
            meta=meta, about={"id": meta.get(CALL, ""), "tool": tool.name}, **more,
        )  # fmt: skip
        try:
            return await self._home.run_on_loop(
                lambda servers: servers.call(str(tool.server), call)
            )
        except ToolGone:
            text = (await self.catalog(user_id)).explain_unknown(tool.name)
            return ToolMessage(text, tool_call_id="", status="error")

    @property
    def servers(self) -> list[str]:
        """The names of its MCP servers."""
        return [config.name for config in self._configs]

    def list_offers(self, name: str, kind: str) -> Sequence[Mapping[str, Any]]:
        """The `prompts` or `resources` of a server, from sync code, or ServerUnavailable."""
        ask = methodcaller("list_all", kind)
        return run_blocking(self._home.run_on_loop(lambda all_: all_.server(name, None).ask(ask)))

    def is_parked(self, key: str) -> bool:
        """Whether the call of this idempotency key waits in this process for a human's answer."""
        here = self._home.current_servers
        return here is not None and key in here.parked

    async def aclose(self) -> None:
        """End all sessions and server processes; the next request opens them again."""
        if self._home.current_servers is not None:
            await self._home.run_on_loop(Servers.close)

    def close(self) -> None:
        """The sync twin of `aclose`."""
        self._home.close()

    def _build_catalog(self, listings: Sequence[Listing]) -> Catalog:
        """The catalog of these listings; the same while nothing that it depends on changed."""
        key = (LANGUAGE.get(), most := SHOWN_TOOLS.get(), *map(id, listings))
        if key not in self._named:
            if len(self._named) > _KEPT:
                self._named.clear()
            found = build_catalog(self._python, listings, self._own, self._reserved, self._said)
            for name, tool in found.tools.items():  # one name of two servers is nobody's
                known = self.known_tools.setdefault(name, tool)
                if known.server != tool.server:
                    self.known_tools[name] = replace(tool, origin="foreign")
            own = [name for name, tool in found.tools.items() if tool.server in self._own_servers]
            offers = None if self._offers is None else [*self._offers, *own]
            found = found.restrict(offers, read_only=self._reads_only)
            found = replace(found, most_shown=most)
            if (table := self.policy.table) is not None:
                tools = {name: mark_read_only(table, tool) for name, tool in found.tools.items()}
                unsure = self._whole or found.missing
                lacks = [] if unsure else list_missing_tools(table, tools.values())
                found = replace(found, tools=tools, warnings=(*found.warnings, *lacks))
            if found.deferred_tools.is_needed:
                first = {READ_RESULT: found.own[READ_RESULT], FIND_TOOLS: build_tool_finder()}
                found = replace(found, own={**first, **found.own})
            found = replace(found, make_spare=lambda: [build_recall_tool()])
            if found.deferred_tools.is_needed:
                found.deferred_tools.find("")  # makes the index, here where nobody waits
            self._named[key] = (listings, found)
        return self._named[key][1]


def _get_latest(kept: dict[K, V], key: K, make: Callable[[], V]) -> V:
    """The value of a key, now the newest; only the newest stay. Safe to call from any thread."""
    value = kept.setdefault(key, kept.pop(key, None) or make())
    for oldest in list(kept)[:-_SPARE_THREADS]:
        kept.pop(oldest, None)
    return value


class _ServerHost:
    """Where the servers live: on the background loop; a forked child has its own."""

    def __init__(self, configs: list[ServerConfig]) -> None:
        self.configs = [*configs]
        self._servers: Servers | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._left: list[Servers] = []
        self._process = 0

    @property
    def current_servers(self) -> Servers | None:
        """The servers, if they were opened in this process."""
        return self._servers if self._process == os.getpid() else None

    def add(self, configs: Sequence[ServerConfig]) -> None:
        """Have these servers, too; a SettingsError if another one has such a name."""
        known = {config.name: config for config in self.configs}
        if taken := [one.name for one in configs if known.get(one.name, one) != one]:
            msg = f"An agent's own MCP server {taken[0]!r} has the name of another one: rename it."
            raise SettingsError(msg)
        self.configs += [one for one in configs if one.name not in known]

    async def run_on_loop(self, act: Callable[[Servers], Awaitable[T]]) -> T:
        """Do something with the servers on their loop, from any loop."""
        return await await_in_background(self._run_here(act))

    async def _run_here(self, act: Callable[[Servers], Awaitable[T]]) -> T:
        loop = asyncio.get_running_loop()
        if self._servers is None or self._loop is not loop:
            if self._servers is not None:  # after a fork: those processes belong to the parent
                self._left.append(self._servers)
            self._servers, self._loop = Servers(self.configs), loop
            self._process = os.getpid()
        return await act(self._servers)

    def close(self, deadline: float | None = None) -> None:
        """End everything and wait for it, from sync code."""
        if self.current_servers is not None:
            run_blocking(asyncio.wait_for(self._run_here(Servers.close), deadline))

    def close_without_wait(self) -> None:
        """End everything without waiting: the toolbox was dropped, perhaps on a loop's thread."""
        loop, servers = self._loop, self._servers
        if loop is None or servers is None:
            return
        with contextlib.suppress(RuntimeError):  # the loop is gone, and the processes with it
            loop.call_soon_threadsafe(servers.give_up)


_homes: weakref.WeakSet[_ServerHost] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Leave no server process behind when the interpreter ends."""
    for home in list(_homes):
        with contextlib.suppress(TimeoutError, SyncCallInLoop, RuntimeError):
            home.close(_EXIT_DEADLINE)

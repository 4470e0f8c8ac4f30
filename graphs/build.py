"""The parts of a graph, made of what `build_<name>()` was given, or of the environment."""

import os
import sys
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any, Final, Literal, TypeVar, cast, get_args, get_type_hints

from langgraph.graph import START
from langgraph.typing import InputT, StateT
from typing_extensions import Unpack

from ..calls.approval import route_calls
from ..calls.memories import build_memory_tools, choose_memory
from ..calls.package_tools import build_skill_reader
from ..calls.toolbox import Toolbox
from ..hooks.registry import Hooks, current_folder, make_session_opener
from ..models.ask_value import ResultSchema
from ..models.choice import Models
from ..models.reservation import quote
from ..models.sampling import open_sampling
from ..nodes.parts import Parts
from ..prompts.instructions import read_instructions
from ..prompts.prompt import PromptManager, resolve_language
from ..run.client_access import apply_ceiling, read_ceiling
from ..run.graph import LoopBuilder, LoopGraph
from ..state.calls import CallState
from ..state.context import Context
from ..state.errors import SettingsError, read_variable, require_nonempty
from ..state.loop import LoopOutput
from ..state.roles import roles_of
from ..store.durability import Durability, open_durability
from ..store.foreign_savers import find_database_opener, find_memory_journal, has_unknown_database
from ..store.journal.port import Journal
from ..store.journal.recorder import Recorder
from ..store.locks.thread_locks import LockedBy
from ..tools.catalog import Catalog
from ..tools.python_tools import PythonTool
from ..turn.event_emitter import with_events
from .options import BuildOptions, ModelOption, ToolsOption, read_prompt
from .tapes import use_tape

B = TypeVar("B", bound=LoopBuilder[Any, Any, Any, Any])

_STARTED_IN: Final = current_folder()
_FOR_LANGGRAPH: Final = ("debug", "cache", "transformers")
"""Options that `compile` takes."""

_DIRECT: Final = ("react", "task_agent", "router")
"""Graphs that may end with the result of a tool of `return_direct`."""


def build_graph(
    name: str,
    draw: Callable[[Parts], LoopBuilder[StateT, Context, InputT, LoopOutput]],
    options: BuildOptions,
    model: ModelOption = None,
    tools: ToolsOption = None,
) -> LoopGraph[StateT, Context, InputT, LoopOutput]:
    """Build a graph by the function that draws it; a single option wins over `durability`."""
    kept, named = options.get("durability"), options.get("name") or name
    checkpointer, store = options.get("checkpointer"), options.get("store")
    if kept is not None:
        checkpointer = kept.checkpointer if checkpointer is None else checkpointer
        store = kept.store if store is None else store
    given: BuildOptions = {**options, "name": named}
    parts = assemble(model, tools, **given)
    if parts.toolbox.direct and name not in _DIRECT:
        warnings.warn(
            f"{name} writes its answer itself and does not use return_direct of"
            f" {', '.join(sorted(parts.toolbox.direct))}: react and task_agent do.",
            stacklevel=4,
        )
    for_langgraph = {key: options[key] for key in _FOR_LANGGRAPH if key in options}
    return draw(parts).compile(checkpointer, store=store, name=named, **for_langgraph)


@use_tape()
def assemble(
    model: ModelOption = None, tools: ToolsOption = None, **options: Unpack[BuildOptions]
) -> Parts:
    """Make the live objects that nodes share; a SettingsError if an option is wrong."""
    journal, kept = options.get("journal"), options.get("durability")
    wanted = options.get("result_schema")
    if journal is None and kept is not None:
        journal = kept.journal
    if journal is not None and not isinstance(journal, Journal):
        msg = (
            f"journal= is no Journal but {type(journal).__name__}: pass the journal of"
            " open_durability(url), or leave the argument out."
        )
        raise SettingsError(msg)
    opened = _make_saver_opener(options) if journal is None else None
    if journal is None and opened is None:
        journal = find_memory_journal(options.get("checkpointer"))
    instructions, models = read_instructions(options.get("instructions")), Models(model)
    memory, skills = choose_memory(options.get("memory")), instructions.skills
    toolbox = Toolbox(
        tools or (), mcp=options.get("mcp"), policy=options.get("policy"),
        foreign=options.get("foreign"),
        sampler=partial(open_sampling, models),
        own=lambda: [
            *([build_skill_reader(instructions)] if skills else ()), *build_memory_tools(memory),
        ],
    )  # fmt: skip
    return Parts(
        models=models,
        toolbox=toolbox,
        prompts=options.get("prompts") or PromptManager(),
        instructions=instructions,
        hooks=Hooks(options.get("hooks", ())),
        journal=Recorder(journal, late=opened and (lambda: opened().journal)),
        result=None if wanted is None else ResultSchema.of(wanted),
        locked_by=_choose_lock(options, opened),
        name=options.get("name") or "",
        about=read_prompt(options.get("system_prompt")),
    )


def _make_saver_opener(options: BuildOptions) -> Callable[[], Durability] | None:
    """What opens the database of a saver that was given alone, for the journal and the locks."""
    saver = options.get("checkpointer")
    if has_unknown_database(saver) and options.get("locked_by") is None:
        warnings.warn(
            f"The database of checkpointer= ({type(saver).__name__}) is not known: other processes"
            " are not kept from its threads, and a resume after a crash asks about each write that"
            " may have begun."
            " Pass durability=open_durability(url) as well.",
            stacklevel=5,
        )
    return find_database_opener(saver)


def _choose_lock(options: BuildOptions, opened: Callable[[], Durability] | None) -> LockedBy | None:
    """What locks the threads whoever saves them: what was named, or the given database."""
    given, kept = options.get("locked_by"), options.get("durability")
    if given is not None and not callable(given):
        msg = (
            f"locked_by= is no function but {type(given).__name__}: pass `lambda: durability.locks`"
            " with what open_durability(url) gave, or leave the argument out."
        )
        raise SettingsError(msg)
    if given is not None:
        return given
    if opened is not None:
        return lambda: opened().locks
    return None if kept is None else lambda: kept.locks


def route_after_approve(state: CallState) -> Literal["approve", "call_tools"]:
    """Run what may run by now, else ask about the next call, one question at a time."""
    return "approve" if route_calls(state.calls, state.decisions) == "approve" else "call_tools"


Phase = tuple[Callable[..., Any], str | Callable[..., str]]
"""A node, and behind it the next node, or a router."""


def draw_graph(builder: B, end: str = "finish", /, **nodes: Phase) -> B:
    """Add the nodes, of which the first one starts; `end` is where what leads to `finish` goes."""
    for name, (node, way) in nodes.items():
        builder.add_node(name, node)
        if isinstance(way, str):
            builder.add_edge(name, end if way == "finish" else way)
        else:
            ways = get_args(get_type_hints(way)["return"])
            builder.add_conditional_edges(
                name, way, {to: end if to == "finish" else to for to in ways}
            )
    builder.add_edge(START, next(iter(nodes)))
    return builder


def make_outer_builder(
    graph: str, state: type[StateT], parts: Parts, given: type[InputT]
) -> LoopBuilder[StateT, Context, InputT, LoopOutput]:
    """An empty graph that takes its input and gives an outcome, with what surrounds its runs."""
    if parts.inside:  # whoever runs it hands it all that it had, and takes all that it has
        whole: Any = LoopBuilder(state, Context)
        whole.writes, whole.graph = parts.toolbox.has_writes, graph
        return whole  # type: ignore[no-any-return]  # more than its output
    builder = LoopBuilder[StateT, Context, InputT, LoopOutput](
        state, Context, input_schema=given, output_schema=LoopOutput
    )
    builder.writes, builder.tape = parts.toolbox.has_writes, parts.toolbox.tape
    builder.locked_by = parts.locked_by
    builder.session = make_session_opener(parts.hooks)
    builder.fenced = parts.journal.raise_fence
    builder.inbox = parts.journal
    builder.graph, builder.whole = graph, True
    builder.served = parts.served
    builder.told = partial(with_events, parts.name)
    builder.quoted = partial(quote, parts.models, roles_of(graph))
    builder.bounded = lambda given: _bound_context(parts, given)
    return builder


def _bound_context(parts: Parts, given: object) -> Context:
    """A client's settings under those of the operator; a run that cannot speak does not begin."""
    context = apply_ceiling(given, read_ceiling(os.environ), parts.models.list_client_models())
    if context.language:
        resolve_language(context.language)
    return context


def assemble_served_parts(
    name: str = "", tools: Sequence[PythonTool] = (), policy: str = ""
) -> Parts:
    """The parts of a graph that a server loads, by the environment: MCP, policy, database.

    `policy` holds if LOOPWRIGHT_POLICY is not set; `tools` are the graph's own. Callers are
    clients, who may only tighten settings. A wrong variable fails each run, not the import of the
    module.
    """
    try:
        parts = assemble(
            tools=tools,
            mcp=default_mcp(os.environ),
            policy=read_variable(os.environ, "LOOPWRIGHT_POLICY") or policy or None,
            foreign=cast("Any", read_variable(os.environ, "LOOPWRIGHT_FOREIGN")),
            instructions=default_instructions(os.environ),
            hooks=read_variable(os.environ, "LOOPWRIGHT_HOOKS") or (),
            memory=_read_memory_switch(os.environ),
            name=name,
        )
    except SettingsError as error:
        parts = make_unusable_parts(Parts(name=name), error)
    parts = replace(parts, served=True)
    url = os.environ.get("LOOPWRIGHT_DATABASE_URL")
    if url is None:
        return parts
    return replace(
        parts,
        journal=Recorder(late=lambda: _open_database(url).journal),
        locked_by=lambda: _open_database(url).locks,
    )


def _read_memory_switch(environ: Mapping[str, str]) -> bool:
    """Whether a server's graphs remember in the server's store."""
    word = read_variable(environ, "LOOPWRIGHT_MEMORY")
    if word not in (None, "0", "1"):
        msg = f"The environment variable LOOPWRIGHT_MEMORY is {word!r}: set it to 1, or to 0."
        raise SettingsError(msg)
    return word == "1"


def make_unusable_parts(parts: Parts, error: SettingsError) -> Parts:
    """Parts with which each run fails by this error: what surrounds them could not be read."""
    return replace(parts, toolbox=_UnusableToolbox(error))


def _open_database(url: str) -> Durability:
    """One for all graphs of the process, opened by the first run, in a worker thread."""
    with _opening:
        return _opened(
            require_nonempty(url, "The environment variable LOOPWRIGHT_DATABASE_URL") or url
        )


_opened = cache(open_durability)
_opening = threading.Lock()


class _UnusableToolbox(Toolbox):
    """Stands in where what the environment names cannot be read."""

    def __init__(self, error: SettingsError) -> None:
        super().__init__()
        self._error = error

    async def catalog(self, user_id: str | None = None) -> Catalog:  # noqa: ARG002 - Toolbox's signature
        raise type(self._error)(str(self._error)) from self._error


def default_mcp(environ: Mapping[str, str]) -> str | dict[str, Any]:
    """The MCP configuration where none is given: LOOPWRIGHT_MCP, or the workspace server here."""
    return read_variable(environ, "LOOPWRIGHT_MCP") or workspace_mcp(_STARTED_IN or ".")


def default_instructions(environ: Mapping[str, str]) -> list[str]:
    """The folders of instructions where none is given: those of LOOPWRIGHT_INSTRUCTIONS."""
    named = read_variable(environ, "LOOPWRIGHT_INSTRUCTIONS")
    return named.split(os.pathsep) if named else []


def workspace_mcp(root: str) -> dict[str, Any]:
    """An MCP configuration with the bundled workspace server on one folder.

    `-P`: no module may be imported from that folder.
    """
    arguments = ["-P", "-m", "loopwright.servers.workspace", "--root", root]
    ours = {"command": sys.executable, "args": arguments, "trust": True}
    return {"mcpServers": {"workspace": ours}}

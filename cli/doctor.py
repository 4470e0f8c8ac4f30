"""`doctor`: what works here, what does not and why, and what to do about it."""

import asyncio
import importlib.util
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from ..calls.policy import Policy
from ..calls.toolbox import Toolbox
from ..doors.background import run_blocking
from ..doors.durability import DEFAULT_URL, open_durability
from ..graphs.assembly import default_mcp, default_policy
from ..models.choice import OFFLINE, Chosen, Models
from ..state.context import Context
from ..state.errors import SettingsError
from ..tools.catalog import Catalog, CatalogTool
from ..tools.mcp_config import read_servers
from .codes import Code
from .output import Output
from .settings import ROLES, Settings
from .text import NO_MODEL, plural, short

_MODEL_DEADLINE: Final = 30.0
_NOBODY_TO_ASK: Final = (
    "Standard input is no terminal: what would be asked about is denied; --yes approves it."
)
_MARKS: Final = {"works": "✓", "warning": "!", "broken": "✗", "detail": " "}


@dataclass(frozen=True)
class Finding:
    """One line of the examination; only a broken part keeps a run from working."""

    state: Literal["works", "warning", "broken", "detail"]
    text: str


def examine(settings: Settings, output: Output) -> int:
    """Examine everything a run needs; 0 if one would work, 2 otherwise."""
    broken = False
    context = Context()
    for title, findings in (
        ("Model", _models(settings, context)),
        ("MCP servers", _servers(settings, output, context)),
        ("Database", _database(settings)),
        ("langgraph dev", _dev_server()),
    ):
        output.line(title)
        for finding in findings:
            broken = broken or finding.state == "broken"
            output.line(f"  {_MARKS[finding.state]} {finding.text}")
    output.line("A run would not work here." if broken else "A run would work here.")
    return Code.USAGE if broken else Code.COMPLETE


def _models(settings: Settings, context: Context) -> Iterator[Finding]:
    models = Models(settings.model, environ=settings.environ)
    try:
        chosen = {role: models.choose(role, context) for roles in ROLES.values() for role in roles}
    except SettingsError as error:
        yield Finding("broken", str(error))
        return
    for name in dict.fromkeys(c.name for c in chosen.values()):
        model = next(c for c in chosen.values() if c.name == name)
        yield _asked(model, _roles({role for role, c in chosen.items() if c.name == name}))
    if any(c.name == OFFLINE for c in chosen.values()):
        yield Finding("warning", NO_MODEL)


def _roles(named: Collection[str]) -> str:
    """Some roles, each under the graph that has it."""
    told = {graph: [role for role in roles if role in named] for graph, roles in ROLES.items()}
    return "; ".join(f"{graph}: {', '.join(roles)}" for graph, roles in told.items() if roles)


def _asked(chosen: Chosen, roles: str) -> Finding:
    """Ask the model one word: only an answer proves key, name and network."""
    if chosen.name == OFFLINE:
        return Finding("works", f"{OFFLINE} ({roles})")
    try:
        run_blocking(asyncio.wait_for(chosen.model.ainvoke("Say ok."), _MODEL_DEADLINE))
    except TimeoutError:
        why = f"no answer within {_MODEL_DEADLINE:g} s"
    except Exception as error:  # noqa: BLE001 - every provider raises its own; all are told
        why = f"{type(error).__name__}: {error}".rstrip(".")
    else:
        return Finding("works", f"{chosen.name} answers ({roles})")
    advice = "check the model's name, the provider's API key, its base URL and the network."
    return Finding("broken", short(f"{chosen.name} ({roles}): {why}", 300) + f"; {advice}")


def _servers(settings: Settings, output: Output, context: Context) -> Iterator[Finding]:
    try:
        source = settings.mcp or default_mcp(settings.environ)
        names = [config.name for config in read_servers(source, environ=settings.environ)]
        toolbox = Toolbox(mcp=source, policy=settings.policy or default_policy(settings.environ))
    except SettingsError as error:
        yield Finding("broken", str(error))
        return
    try:
        catalog = run_blocking(toolbox.catalog())
        yield from _catalog(catalog, names, toolbox, context)
        if not output.reads:
            yield Finding("warning", _NOBODY_TO_ASK)
    finally:
        toolbox.close()


def _catalog(
    catalog: Catalog, names: list[str], toolbox: Toolbox, context: Context
) -> Iterator[Finding]:
    tools = [tool for tool in catalog.tools.values() if tool.server is not None]
    counts = Counter(str(tool.server) for tool in tools)
    for name in names:
        if counts[name]:
            yield Finding("works", f"{name}: {plural(counts[name], 'tool')}")
            mine = [tool for tool in tools if tool.server == name]
            for tool in mine:
                yield from outlook(tool, toolbox.policy, context)
    for warning in catalog.warnings:
        yield Finding("warning", short(warning, 400))
    if not names:
        yield Finding("warning", "No server is configured: the models have no tools.")
    elif not tools:
        yield Finding("broken", "None of the servers offers a tool: start one, or mend the file.")


def outlook(tool: CatalogTool, policy: Policy, context: Context) -> Iterator[Finding]:
    """What happens to calls of a tool: a line for each case that policy tells apart."""
    cases = policy.cases(tool, context)
    for case in cases:
        whose = [f"agent {case.agent}"] if case.agent is not None else []
        fitting = [f"{path or 'all'} ~ {pattern}" for path, pattern in case.arguments.items()]
        conditions = ", ".join([*whose, *fitting]) or ("otherwise" if len(cases) > 1 else "")
        named = f"{tool.name} ({conditions})" if conditions else tool.name
        decision = case.decision
        expiry = f"; expires after {decision.expires_in:g} s" if decision.expires_in else ""
        line = f"{decision.action} {named}: {decision.reason}{expiry}"
        yield Finding("detail", "  " + short(line, 200))


def _database(settings: Settings) -> Iterator[Finding]:
    url = settings.database_url(DEFAULT_URL)
    try:
        with open_durability(url) as durability:
            count = sum(1 for _ in durability.thread_ids())
            yield Finding("works", f"{durability.url}: {plural(count, 'thread')}")
    except SettingsError as error:
        yield Finding("broken", str(error))


def _dev_server() -> Iterator[Finding]:
    """The dev server is for LangGraph Studio; runs here do without it."""
    if importlib.util.find_spec("langgraph_api") is None:
        yield Finding("warning", 'It is not installed: pip install "langgraph-cli[inmem]".')
    elif not Path("langgraph.json").is_file():
        yield Finding("warning", "It is installed; start it in a folder with a langgraph.json.")
    else:
        yield Finding("works", "Start it with: langgraph dev")

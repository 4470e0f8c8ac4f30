"""What there is to look at: a graph's drawing, what a run may cost, and what would work here."""

import asyncio
import contextlib
import importlib.util
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, Final

from ..calls.policy import Policy
from ..calls.toolbox import Toolbox
from ..graphs.build import default_instructions, default_mcp
from ..graphs.registry import find_drawable_graph
from ..models.choice import OFFLINE, Chosen, Models, window_of
from ..models.prices import describe_unpriced, price_of
from ..prompts.company import read_company
from ..prompts.instructions import FILE, read_instructions
from ..run.background import run_blocking
from ..state.context import Context
from ..state.errors import SettingsError, read_variable, require_nonempty
from ..state.roles import GRAPHS, roles_of
from ..state.snapshot import UNKNOWN_WINDOW
from ..store.durability import DEFAULT_URL
from ..store.health import inspect_database
from ..store.work.turns import find_records, open_queue
from ..text.canonical import plural
from ..tools.catalog import Catalog, CatalogTool
from ..tools.mcp.call import ServerUnavailable
from ..tools.mcp.config import read_servers
from .agents import find_agent, select_agent
from .progress import render_dollars
from .run import build_context, build_named_graph
from .settings import DEFINED, NO_MODEL, Settings, read_goal
from .terminal import Code, Output, shorten_line

_MODEL_DEADLINE: Final = 30.0
_WORKS, _WARNING, _BROKEN = "✓", "!", "✗"
"""Marks of findings; only a broken part keeps a run from working."""
_MARKS: Final[dict[str, str]] = {"ok": _WORKS, "warning": _WARNING, "broken": _BROKEN}
_LEVELS: Final = {_WORKS: "ok", " ": "ok", _WARNING: "warning", _BROKEN: "broken"}
_NOBODY_TO_ASK: Final = (
    "Standard input is no terminal: what would be asked about is denied; --yes approves it."
)

Finding = tuple[str, str]
"""A mark and a line."""


def show_graph(_: Settings, output: Output, name: str, *, mermaid: bool, ascii_: bool) -> int:
    """Print a graph's drawing, as plain text or as Mermaid."""
    if mermaid and ascii_:
        msg = "Choose one of --mermaid and --ascii."
        raise SettingsError(msg)
    drawn = find_drawable_graph(name).get_graph()
    output.write_line(_render_graph(drawn) if ascii_ else drawn.draw_mermaid().rstrip(), whole=True)
    return Code.COMPLETE


def _render_graph(graph: Any) -> str:
    """One block per node: its name, then an arrow to each next node (dotted: conditional)."""
    names = {"__start__": "START", "__end__": "END"}
    blocks: dict[str, list[str]] = {}
    for edge in graph.edges:
        arrow = "···>" if edge.conditional else "───>"
        line = f"  {arrow} {names.get(edge.target, edge.target)}"
        blocks.setdefault(edge.source, [names.get(edge.source, edge.source)]).append(line)
    return "\n\n".join("\n".join(blocks[node]) for node in graph.nodes if node in blocks)


def examine(settings: Settings, output: Output, *, prepare: bool = False) -> int:
    """Check everything a run needs, or the database that is named; 0 if it works, else 2."""
    if prepare:
        _prepare_database(settings)
    url = settings.database
    parts = _list_parts(settings, output) if url is None else [("Database", _check_health(url))]
    what = "A run" if url is None else "This database"
    findings: list[dict[str, str]] = []
    for title, rows in parts:
        if not output.json:
            output.write_line(title)
        for mark, text in _catch_settings_error(rows):
            findings.append({"part": title, "level": _LEVELS[mark], "text": text.strip()})
            if not output.json:
                output.write_line(f"  {mark} {text}")
    broken = any(finding["level"] == "broken" for finding in findings)
    if output.json:
        output.write_result({"status": "broken" if broken else "ok", "findings": findings})
    else:
        output.write_line(f"{what} would not work here." if broken else f"{what} would work here.")
    return Code.USAGE if broken else Code.COMPLETE


def _prepare_database(settings: Settings) -> None:
    """Make what is missing in a database, the queue of turns too; raises DatabaseError."""
    with settings.open() as durability:
        if records := find_records(durability.journal):
            open_queue(records)


def _list_parts(settings: Settings, output: Output) -> list[tuple[str, Iterator[Finding]]]:
    has_company = "LOOPWRIGHT_COMPANY" in settings.environ
    return [
        ("Model", _check_models(settings)),
        ("MCP servers", check_servers(settings, output)),
        *([("Agent", _check_agent(settings, settings.agent))] if settings.agent else []),
        *([("Company", _check_company(settings))] if has_company else []),
        ("Instructions", _check_instructions(settings)),
        ("Database", _check_database(settings)),
        ("langgraph dev", _check_dev_server()),
    ]


def _check_health(url: str) -> Iterator[Finding]:
    for level, check, text in inspect_database(require_nonempty(url, "--db") or url):
        yield _MARKS[level], f"{check}: {text}"


def _catch_settings_error(findings: Iterator[Finding]) -> Iterator[Finding]:
    """The findings; a wrong setting is the last one of its part."""
    try:
        yield from findings
    except SettingsError as error:
        yield _BROKEN, str(error)


_NO_WINDOW: Final = (
    "{} does not say how many tokens it takes: task_agent assumes {:,}. If it takes fewer, set "
    "context_budget, or window in the agent's definition."
)


def _check_models(settings: Settings) -> Iterator[Finding]:
    models = Models(settings.model, environ=settings.environ)
    choices: dict[str, tuple[Chosen, dict[str, list[str]]]] = {}
    for graph in GRAPHS:
        for role in roles_of(graph):
            chosen = models.choose(role, Context())
            _, asks = choices.setdefault(chosen.name, (chosen, {}))
            asks.setdefault(graph, []).append(role)
    for chosen, asks in choices.values():
        yield _check_model_answer(
            chosen, "; ".join(f"{graph}: {', '.join(asks[graph])}" for graph in asks)
        )
    for chosen, asks in choices.values():
        if chosen.name != OFFLINE and DEFINED in asks and not window_of(chosen.model):
            yield _WARNING, _NO_WINDOW.format(chosen.name, UNKNOWN_WINDOW)
    yield from (_check_price(chosen) for chosen, _ in choices.values() if chosen.name != OFFLINE)
    if OFFLINE in choices:
        yield _WARNING, NO_MODEL


def _check_price(chosen: Chosen) -> Finding:
    """What the model costs at most, as `max_cost` and `--quote` count it."""
    price = run_blocking(price_of(chosen, Context()))
    if price is None:
        return _WARNING, describe_unpriced([chosen.name])
    read, wrote = (price.dearest.dearest_input * 1e6, price.dearest.output * 1e6)
    rates = f"${read:g} of input and ${wrote:g} of output per million tokens"
    return _WORKS, f"{chosen.name} costs at most {rates}."


def _check_model_answer(chosen: Chosen, roles: str) -> Finding:
    """Ask the model one word: only an answer proves key, name and network."""
    if chosen.name == OFFLINE:
        return _WORKS, f"{OFFLINE} ({roles})"
    try:
        run_blocking(asyncio.wait_for(chosen.model.ainvoke("Say ok."), _MODEL_DEADLINE))
    except TimeoutError:
        why = f"no answer within {_MODEL_DEADLINE:g} s"
    except Exception as error:  # noqa: BLE001 - every provider raises its own; all are told
        why = f"{type(error).__name__}: {error}".rstrip(".")
    else:
        return _WORKS, f"{chosen.name} answers ({roles})"
    advice = "check the model's name, the provider's API key, its base URL and the network."
    return _BROKEN, shorten_line(f"{chosen.name} ({roles}): {why}", 300) + f"; {advice}"


def check_servers(settings: Settings, output: Output) -> Iterator[Finding]:
    """The tools of each server, which is started for that, and what the policy says of them."""
    names = [
        config.name for config in read_servers(_choose_mcp(settings), environ=settings.environ)
    ]
    catalog, policy = load_catalog(settings)
    tools = [tool for tool in catalog.tools.values() if tool.server in names]
    for name in names:
        if mine := [tool for tool in tools if tool.server == name]:
            yield _WORKS, f"{name}: {plural(len(mine), 'tool')}"
        for tool in mine:
            yield from ((" ", f"  {line}") for line in describe_policy(tool, policy, Context()))
    if catalog.deferred_tools.is_needed:
        yield _WORKS, f"{plural(len(tools), 'tool')}: models are told the names and find the rest."
    yield from ((_WARNING, shorten_line(warning, 400)) for warning in catalog.warnings)
    if not names:
        yield _WARNING, "No server is configured: the models have no tools."
    elif not tools:
        yield _BROKEN, "None of the servers offers a tool: start one, or fix the file."
    if not output.is_interactive:
        yield _WARNING, _NOBODY_TO_ASK


def _choose_mcp(settings: Settings) -> Any:
    return settings.mcp or default_mcp(settings.environ)


def _open_toolbox(settings: Settings) -> Any:
    """The servers, which are started when they are asked, and the policy: a company's own too."""
    folder = read_variable(settings.environ, "LOOPWRIGHT_COMPANY")
    policy = settings.policy or read_variable(settings.environ, "LOOPWRIGHT_POLICY")
    with contextlib.suppress(SettingsError):  # the company's own part tells it
        policy = policy or (read_company(folder).policy if folder else "")
    return contextlib.closing(Toolbox(mcp=_choose_mcp(settings), policy=policy or None))


def load_catalog(settings: Settings) -> tuple[Catalog, Policy]:
    """The tools of the servers, which are started for that, and the policy."""
    with _open_toolbox(settings) as toolbox:
        return run_blocking(toolbox.catalog()), toolbox.policy


def list_offers(settings: Settings) -> Iterator[str]:
    """A line for each prompt of the servers, with its arguments, and for each resource."""
    with _open_toolbox(settings) as toolbox:
        for server in toolbox.servers:
            try:
                kinds = ("prompts", "resources")
                for one in chain(*(toolbox.list_offers(server, kind) for kind in kinds)):
                    wanted = one.get("arguments")  # a server says what it likes
                    known = wanted if isinstance(wanted, list) else []
                    given = [f"{a.get('name')}=…" for a in known if isinstance(a, dict)]
                    words = [one.get("uri"), one.get("name"), *given, one.get("description")]
                    yield shorten_line(f"{server}: {' '.join(map(str, filter(None, words)))}", 200)
            except ServerUnavailable as error:
                yield shorten_line(f"! {server}: {error}", 400)


def _check_agent(settings: Settings, named: str) -> Iterator[Finding]:
    """What an agent is, and which tools it has here."""
    agent = find_agent(named, settings.environ)
    definition, (catalog, _) = agent.definition, load_catalog(settings)
    limits = definition.limits.model_dump(exclude_none=True)
    shown = ", ".join(f"{name} {value:g}" for name, value in limits.items())
    yield _WORKS, f"{definition.title}, of {agent.named}; tier {definition.tier or 'balanced'}"
    yield _WORKS, f"limits: {shown or 'those of the run'}"
    offered = catalog.restrict(definition.tools, read_only=definition.read_only)
    names = sorted(offered.tools.keys() - offered.own)
    yield (_WORKS if names else _WARNING), f"tools: {', '.join(names) or 'none'}"
    for warning in (*definition.warnings, *offered.warnings[len(catalog.warnings) :]):
        yield _WARNING, warning


def _check_company(settings: Settings) -> Iterator[Finding]:
    """The company of customer_service, its policy, and the tools that are missing."""
    whose = read_company(read_variable(settings.environ, "LOOPWRIGHT_COMPANY") or "")
    catalog, policy = load_catalog(settings)
    rules = "its policy.yaml" if policy.table is not None else "the policy of all graphs"
    yield _WORKS, f"{whose.name}, of {whose.folder}; what may be done says {rules}"
    # Who verifies says a table, whose missing tools stand among the warnings of the servers.
    keys = ["tickets_by", "handed_over_by", *([] if policy.table else ["verified_by"])]
    for key, name in ((one, name) for one in keys for name in getattr(whose, one).split()):
        if not any(tool.name == name for tool in catalog.tools.values()):
            yield _WARNING, f"No server here has {name}: {key} names yours, or do without."
    for name in sorted({*whose.records} - {tool.server for tool in catalog.tools.values()}):
        yield _WARNING, f"No server here is {name}: records names those whose fields count."


def describe_policy(tool: CatalogTool, policy: Policy, context: Context) -> Iterator[str]:
    """What the policy does with calls of a tool: a line per case."""
    cases = policy.list_cases(tool, context)
    for case in cases:
        whose = [f"agent {case.agent}"] if case.agent is not None else []
        fitting = [f"{path or 'all'} ~ {pattern}" for path, pattern in case.arguments.items()]
        fitting += [f"origin of {path}: {' or '.join(by)}" for path, by in case.origin.items()]
        conditions = ", ".join([*whose, *fitting]) or ("otherwise" if len(cases) > 1 else "")
        named = f"{tool.name} ({conditions})" if conditions else tool.name
        decision = case.decision
        expiry = f"; expires after {decision.expires_in:g} s" if decision.expires_in else ""
        yield shorten_line(f"{decision.action} {named}: {decision.reason}{expiry}", 200)


def _check_instructions(settings: Settings) -> Iterator[Finding]:
    """The instructions that are followed, and those of this folder that are not."""
    named = settings.instructions or default_instructions(settings.environ)
    known = read_instructions(named)
    for path, text in known.texts.items():
        yield _WORKS, f"{path}: {plural(len(text), 'character')}"
    for skill in known.skills.values():
        yield _WORKS, shorten_line(f"skill {skill.name}: {skill.description}", 200)
    yield from ((_WARNING, shorten_line(problem, 400)) for problem in known.problems)
    if not named and Path(FILE).exists():
        yield _WARNING, f"{FILE} of this folder is not followed: name it with --instructions ."
    elif not named:
        yield " ", "No folder is named: --instructions or LOOPWRIGHT_INSTRUCTIONS."


def _check_database(settings: Settings) -> Iterator[Finding]:
    url = settings.database_url(DEFAULT_URL)
    with settings.open() as durability:
        count = sum(1 for _ in durability.thread_ids())
        yield _WORKS, f"{durability.url}: {plural(count, 'thread')}"
        if durability.results is not None:
            yield _WORKS, f"long results: {durability.results}"
    yield from (finding for finding in _check_health(url) if finding[0] != _WORKS)


def _check_dev_server() -> Iterator[Finding]:
    """The dev server, which only LangGraph Studio needs."""
    if importlib.util.find_spec("langgraph_api") is None:
        yield _WARNING, 'It is not installed: pip install "langgraph-cli[inmem]".'
    elif not Path("langgraph.json").is_file():
        yield _WARNING, "It is installed; start it in a folder with a langgraph.json."
    else:
        yield _WORKS, "Start it with: langgraph dev"


def quote_goal(settings: Settings, output: Output, goal: str) -> int:
    """Print what a run of the goal may use at most; nothing is run."""
    context = build_context(settings, interactive=True)
    graph_name = settings.new_thread_graph
    agent = select_agent(settings, output, graph_name)
    graph, _ = build_named_graph(settings, graph_name, context, None, agent)
    bounds = graph.quote(read_goal(goal), context=context)
    return output.report({"status": "quote", **bounds}, *_describe_quote(bounds))


def _describe_quote(bounds: Mapping[str, Any]) -> Iterator[str]:
    for name in ("model_calls", "tool_calls", "tokens"):
        yield f"{name.replace('_', ' ')}: at most {bounds[name]:,}"
    usd = bounds["usd"]
    yield "cost: not known" if usd is None else f"cost: at most {render_dollars(usd) or '$0'}"
    for model, price in bounds["models"].items():
        rates = " · ".join(f"{kind} ${usd:g}" for kind, usd in (price or {}).items())
        yield f"  {model}: {rates + ' per million tokens' if rates else 'price not known'}"
    yield from bounds["notes"]

"""The settings of a command: arguments win over environment variables over defaults."""

import json
import os
import re
import secrets
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from typer import Option

from ..state.errors import SettingsError, read_variable, require_nonempty
from ..state.roles import GRAPHS

if TYPE_CHECKING:
    from ..store.durability import Durability

DEFAULT_GRAPH: Final = "plan_execute_verify"
PLANNED: Final = "prompt_flow"
"""The graph that can be handed a plan."""
DEFINED: Final = "task_agent"
"""The graph whose agent a file can define."""
DESK: Final = "customer_service"
"""The graph that works for a company."""
_UNITS: Final = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
NO_MODEL_SAID: Final = "No language model is configured"
NO_MODEL: Final = (
    f"{NO_MODEL_SAID}: the built-in offline model stands in, which only matches"
    " words. Set OPENAI_API_KEY or LOOPWRIGHT_MODEL (and OPENAI_BASE_URL for a server of your own)"
    " to use a real one."
)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The options of the commands, as they were given; `environ` is where else to look."""

    graph: Annotated[
        str | None, Option(help=f"One of {', '.join(GRAPHS)}. Else the thread's, or the first.")
    ] = None
    mcp: Annotated[
        str | None,
        Option(help="File with mcpServers; LOOPWRIGHT_MCP, else the workspace server here."),
    ] = None
    policy: Annotated[
        str | None, Option(help="File with rules, or allow, ask, deny; LOOPWRIGHT_POLICY.")
    ] = None
    foreign: Annotated[
        str | None, Option(help="Values of strangers: ask, strict or allow; LOOPWRIGHT_FOREIGN.")
    ] = None
    instructions: Annotated[
        list[str] | None, Option(help="Folder of AGENTS.md and skills; LOOPWRIGHT_INSTRUCTIONS.")
    ] = None
    hooks: Annotated[
        str | None, Option(help="File of hooks, as of Claude Code or gemini-cli; LOOPWRIGHT_HOOKS.")
    ] = None
    model: Annotated[
        str | None, Option(help="provider:name; LOOPWRIGHT_MODEL, an OpenAI key, else offline.")
    ] = None
    script: Annotated[
        str | None,
        Option(
            help="JSON file played as the model: role to turns, each a text, an object sent as"
            ' JSON, a list of tool calls {name, args}, or {"error": "why"}.'
        ),
    ] = None
    agent: Annotated[
        str | None,
        Option(
            help="The agent of task_agent: its Markdown file, or a name that ships or is in"
            " LOOPWRIGHT_AGENTS. Else the thread's."
        ),
    ] = None
    yes: Annotated[
        bool,
        Option(
            "--yes",
            help="Approve what the policy asks; no foreign values, and never what it denies.",
        ),
    ] = False
    review: Annotated[bool, Option("--review", help="Show each plan before it runs.")] = False
    max_parallel: Annotated[
        int | None, Option(min=1, max=64, help="Tasks or steps side by side.")
    ] = None
    max_cost: Annotated[
        float | None, Option(min=0, help="US dollars for models; prices by the extra prices.")
    ] = None
    database: Annotated[
        str | None,
        Option("--db", help="Database URL; LOOPWRIGHT_DATABASE_URL, else .loopwright/threads.db."),
    ] = None
    results: Annotated[
        str | None, Option(help="Object store for long results; LOOPWRIGHT_RESULTS, else the db.")
    ] = None
    wait: Annotated[
        float | None, Option(help="Seconds to wait for a busy thread; LOOPWRIGHT_WAIT, else 0.")
    ] = None
    module: Annotated[
        str | None, Option(help="package.module:graph of your own, or a function of it.")
    ] = None
    record: Annotated[
        str | None,
        Option(help="Folder for what models and tools say, to replay it; LOOPWRIGHT_RECORD."),
    ] = None
    json: Annotated[bool, Option("--json", help="One JSON object on standard output.")] = False
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)

    def __post_init__(self) -> None:
        """Refuse empty options: they come from unset variables of scripts."""
        for option in fields(self):
            if isinstance(value := getattr(self, option.name), str):
                require_nonempty(value, "--db" if option.name == "database" else f"--{option.name}")
        for folder in self.instructions or ():
            require_nonempty(folder, "--instructions")

    @property
    def new_thread_graph(self) -> str:
        """The graph of a thread that is begun."""
        return self.graph or (DEFINED if self.agent else DEFAULT_GRAPH)

    def database_url(self, default: str) -> str:
        """The database to open."""
        return self.database or read_variable(self.environ, "LOOPWRIGHT_DATABASE_URL") or default

    def open(self, **more: Any) -> "Durability":
        """Open the database, and where its long results are kept."""
        from ..store.durability import DEFAULT_URL, open_durability  # noqa: PLC0415 - heavy

        results = self.results or read_variable(self.environ, "LOOPWRIGHT_RESULTS")
        return open_durability(self.database_url(DEFAULT_URL), results=results, **more)

    def read_expiry(self, default: timedelta) -> timedelta:
        """The age up to which an unfinished thread is offered."""
        text = read_variable(self.environ, "LOOPWRIGHT_EXPIRY")
        return default if text is None else parse_age(text, "LOOPWRIGHT_EXPIRY")

    def build_resume_command(self, thread: str, database: str, *command: str) -> str:
        """The command that resumes a thread, with the options of this one.

        `--yes` is left out: it must be given again. `database` has no password; `command` is what
        stands before the thread, else `resume`.
        """
        names = (
            "mcp", "policy", "foreign", "hooks", "model", "script", "agent", "max_parallel",
            "max_cost", "wait", "record",
        )  # fmt: skip
        given = {f"--{name.replace('_', '-')}": getattr(self, name) for name in names}
        given |= {"--db": self.database and database, "--results": self.results}
        options = [part for name, value in given.items() if value for part in (name, str(value))]
        options += [
            part for folder in self.instructions or () for part in ("--instructions", folder)
        ]
        options += ["--review"] if self.review else []
        return shlex.join(["loopwright", *(command or ("resume",)), thread, *options])


def read_goal(goal: str, what: str = "goal") -> str:
    """The text, or standard input for `-`; white space alone is refused."""
    if goal == "-":
        text = sys.stdin.buffer.read().decode("utf-8", "replace")
    else:
        # Bytes that are no UTF-8 arrive as lone surrogates, which no database takes.
        text = goal.encode("utf-8", "replace").decode()
    if not text.strip():
        msg = f"The {what} is empty: say in words what you want done."
        raise SettingsError(msg)
    return text


def read_plan_input(plan: str | None, values: Sequence[str]) -> dict[str, Any]:
    """A plan from a file, and values for its variables, as keys of a run's input."""
    more: dict[str, Any] = {}
    if (path := require_nonempty(plan, "--plan")) is not None:
        try:
            more["execution_plan"] = Path(path).read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            msg = f"The plan {path} of --plan cannot be read ({error}); check the path."
            raise SettingsError(msg) from error
    for assignment in values:
        name, sign, value = assignment.partition("=")
        if not (sign and name.strip()):
            msg = f"--set {assignment!r} names no variable: write --set name=value."
            raise SettingsError(msg)
        more.setdefault("variables", {})[name.strip()] = _parse_value(value)
    return more


def _parse_value(text: str) -> Any:
    """JSON where it is some, else the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def parse_age(text: str, name: str) -> timedelta:
    """An age such as 30m, 12h, 30d, 8w, given under this name."""
    match = re.fullmatch(r"(\d{1,6})([mhdw])", text.strip())
    if match is None:
        msg = f"{name} {text!r} is no age: give minutes, hours, days or weeks: 30m, 12h, 30d, 8w."
        raise SettingsError(msg)
    return timedelta(**{_UNITS[match[2]]: int(match[1])})


def make_thread_id() -> str:
    """A thread id that can be read aloud and typed: four times four hexadecimal digits."""
    return "-".join(secrets.token_hex(2) for _ in range(4))


def check_thread_id(thread: str) -> str:
    """A thread id given by the user; an empty one, or control characters, are refused."""
    if not thread.strip() or not thread.isprintable():
        msg = f"The thread id {thread!r} cannot be used: give a short printable name."
        raise SettingsError(msg)
    return thread

"""The commands and their options. Everything heavy is imported when a command needs it."""

import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from .codes import Code
from .failures import guarded
from .output import Output
from .settings import DEFAULT_GRAPH, Settings

# click's UsageError, which newer versions of typer carry inside themselves.
_UsageError: type[Any] = typer.BadParameter.__bases__[0]


class Commands(TyperGroup):
    """The group of commands; with `--json` a wrong command line is told in JSON, too."""

    def main(self, args: Sequence[str] | None = None, **options: Any) -> Any:  # type: ignore[override]  # the arguments this package uses
        """Run the command line and leave the process."""
        given = sys.argv[1:] if args is None else list(args)
        if "--json" not in given or not options.pop("standalone_mode", True):
            return super().main(args=args, **options)
        try:
            code = super().main(args=given, standalone_mode=False, **options)
        except _UsageError as error:
            Output(json=True).result({"status": "error", "error": error.format_message()})
            code = Code.USAGE
        sys.exit(code)


app = typer.Typer(
    cls=Commands,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Agent loops that plan, work, check the result and can be resumed.",
    epilog="Exit codes: 0 complete, 2 wrong use, 3 not finished, 4 failed, 5 waiting for a human, "
    "130 paused by Ctrl-C.",
)

Graph = Annotated[
    str | None, typer.Option("--graph", help=f"Which graph runs; {DEFAULT_GRAPH} by default.")
]
Mcp = Annotated[
    str | None,
    typer.Option("--mcp", help="File with mcpServers; LOOPWRIGHT_MCP, else this folder's files."),
]
Policy = Annotated[
    str | None,
    typer.Option("--policy", help="File with rules, or allow, ask, deny; LOOPWRIGHT_POLICY."),
]
Model = Annotated[
    str | None,
    typer.Option("--model", help="provider:name; LOOPWRIGHT_MODEL, an OpenAI key, else offline."),
]
Yes = Annotated[
    bool, typer.Option("--yes", help="Approve what the policy asks; never what it denies.")
]
Review = Annotated[bool, typer.Option("--review", help="Show each plan before it runs.")]
MaxParallel = Annotated[
    int | None, typer.Option("--max-parallel", min=1, max=64, help="Tasks or steps side by side.")
]
Database = Annotated[
    str | None,
    typer.Option(
        "--db", help="Database URL; LOOPWRIGHT_DATABASE_URL, else .loopwright/threads.db."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")]


@app.command()
def run(
    goal: Annotated[str, typer.Argument(help="What you want done; - reads standard input.")],
    graph: Graph = None,
    mcp: Mcp = None,
    policy: Policy = None,
    model: Model = None,
    thread: Annotated[
        str | None, typer.Option("--thread", help="A new message on this thread.")
    ] = None,
    yes: Yes = False,
    review: Review = False,
    max_parallel: MaxParallel = None,
    db: Database = None,
    json: Json = False,
) -> None:
    """Run a goal to its end, asking before anything is changed."""
    settings = Settings(
        graph=graph, mcp=mcp, policy=policy, model=model, database=db, yes=yes,
        review=review, max_parallel=max_parallel,
    )  # fmt: skip
    output = Output(json=json)

    def action() -> int:
        from .run import run_goal  # noqa: PLC0415 - `--help` must not wait for the graphs

        return run_goal(settings, output, goal, thread)

    raise typer.Exit(guarded(output, action))


@app.command()
def resume(
    thread: Annotated[str, typer.Argument(help="The thread to go on with.")],
    answer: Annotated[
        str | None,
        typer.Argument(help="approve, reject[: reason], respond: text, or JSON. None: be asked."),
    ] = None,
    graph: Graph = None,
    mcp: Mcp = None,
    policy: Policy = None,
    model: Model = None,
    yes: Yes = False,
    review: Review = False,
    max_parallel: MaxParallel = None,
    db: Database = None,
    json: Json = False,
) -> None:
    """Go on with a thread that paused, waits for an answer or did not reach its goal."""
    settings = Settings(
        graph=graph, mcp=mcp, policy=policy, model=model, database=db, yes=yes,
        review=review, max_parallel=max_parallel,
    )  # fmt: skip
    output = Output(json=json)

    def action() -> int:
        from .run import resume_thread  # noqa: PLC0415 - `--help` must not wait for the graphs

        return resume_thread(settings, output, thread, answer)

    raise typer.Exit(guarded(output, action))


@app.command()
def threads(db: Database = None) -> None:
    """List the saved threads, newest first."""
    output = Output()

    def action() -> int:
        from .threads import show_threads  # noqa: PLC0415 - `--help` must not wait for the savers

        return show_threads(Settings(database=db), output)

    raise typer.Exit(guarded(output, action))


@app.command()
def graph(
    name: Annotated[str, typer.Argument(help="The graph's name.")] = DEFAULT_GRAPH,
    mermaid: Annotated[bool, typer.Option("--mermaid", help="As Mermaid text (default).")] = False,
    ascii_: Annotated[bool, typer.Option("--ascii", help="As plain text.")] = False,
) -> None:
    """Draw a graph."""
    if mermaid and ascii_:
        msg = "choose one of --mermaid and --ascii."
        raise typer.BadParameter(msg)
    output = Output()

    def action() -> int:
        from .drawing import show_graph  # noqa: PLC0415 - `--help` must not wait for the graphs

        return show_graph(output, name, ascii_=ascii_)

    raise typer.Exit(guarded(output, action))


@app.command()
def doctor(
    mcp: Mcp = None, policy: Policy = None, model: Model = None, db: Database = None
) -> None:
    """Say whether a run would work here: model, MCP servers, database, langgraph dev."""
    output = Output()

    def action() -> int:
        from .doctor import examine  # noqa: PLC0415 - `--help` must not wait for the graphs

        return examine(Settings(mcp=mcp, policy=policy, model=model, database=db), output)

    raise typer.Exit(guarded(output, action))

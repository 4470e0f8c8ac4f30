"""The commands. Everything heavy is imported when a command needs it: `--help` must not wait."""

from typing import Annotated

import typer

from ..state.errors import SettingsError
from .command import app, make_command
from .settings import DEFAULT_GRAPH, Settings, read_plan_input
from .terminal import Output, run_guarded

__all__ = ["app"]

_PARTS = ("mcp", "policy", "foreign", "instructions", "model", "script")
_RUN = (
    "graph", "agent", *_PARTS, "yes", "review", "max_parallel", "max_cost", "database", "results",
    "wait", "json",
)  # fmt: skip


@make_command(*_RUN)
def run(
    settings: Settings,
    output: Output,
    goal: Annotated[str, typer.Argument(help="What you want done; - reads standard input.")],
    thread: Annotated[
        str | None, typer.Option("--thread", help="A new message on this thread.")
    ] = None,
    plan: Annotated[
        str | None, typer.Option("--plan", help="File with a plan for prompt_flow to follow.")
    ] = None,
    values: Annotated[
        list[str] | None,
        typer.Option("--set", help="name=value for a variable of the plan; JSON or text."),
    ] = None,
    quote: Annotated[
        bool, typer.Option("--quote", help="Only say what the run may take at most.")
    ] = False,
) -> int:
    """Run a goal to its end, asking before anything is changed."""
    from .run import run_goal  # noqa: PLC0415 - see the module
    from .show import quote_goal  # noqa: PLC0415 - see the module

    if quote:
        return quote_goal(settings, output, goal)
    return run_goal(settings, output, goal, thread, read_plan_input(plan, values or []))


@make_command(*_RUN)
def resume(
    settings: Settings,
    output: Output,
    thread: Annotated[str, typer.Argument(help="The thread to go on with.")],
    answer: Annotated[
        str | None,
        typer.Argument(help="approve, reject[: reason], respond: text, or JSON. None: be asked."),
    ] = None,
) -> int:
    """Go on with a thread that paused, waits or did not reach its goal."""
    from .run import resume_thread  # noqa: PLC0415 - see the module

    return resume_thread(settings, output, thread, answer)


@make_command(*_RUN[:-1])
def chat(
    settings: Settings,
    output: Output,
    thread: Annotated[str | None, typer.Option("--thread", help="Go on with this one.")] = None,
) -> int:
    """Talk with a graph, on a terminal or through a pipe."""
    from .chat import run_chat  # noqa: PLC0415 - see the module

    return run_chat(settings, output, thread)


@make_command(*_RUN[1:-1])
def continue_(settings: Settings, output: Output) -> int:
    """Talk on in the newest thread of the database."""
    from .chat import continue_chat  # noqa: PLC0415 - see the module

    return continue_chat(settings, output)


@make_command("graph", "module", "database", "json")
def stop(
    settings: Settings,
    output: Output,
    thread: Annotated[str, typer.Argument(help="The thread whose turn is to end.")],
) -> int:
    """End a thread's turn as cancelled, in any process."""
    from .thread_commands import stop_thread  # noqa: PLC0415 - see the module

    return stop_thread(settings, output, thread)


@make_command("graph", "module", "database", "json")
def steer(
    settings: Settings,
    output: Output,
    thread: Annotated[str, typer.Argument(help="The thread that is running.")],
    message: Annotated[str, typer.Argument(help="The new words; - reads standard input.")],
) -> int:
    """Send a message to a running thread."""
    from .thread_commands import steer_thread  # noqa: PLC0415 - see the module

    return steer_thread(settings, output, thread, message)


@make_command("graph", "module", "database", "json")
def enqueue(
    settings: Settings,
    output: Output,
    thread: Annotated[str, typer.Argument(help="The thread; a new name begins one.")],
    message: Annotated[str, typer.Argument(help="The words; - reads standard input.")],
    name: Annotated[
        str | None, typer.Option("--id", help="Of the turn: the same again is the same turn.")
    ] = None,
    answers: Annotated[
        bool, typer.Option("--answer", help="The words answer what the thread asks.")
    ] = False,
    at: Annotated[
        str | None, typer.Option(help="When it is due: 2026-12-24T18:00Z, or in 30m, 12h, 2d.")
    ] = None,
    every: Annotated[str, typer.Option(help="Again and again, as cron says, in UTC.")] = "",
) -> int:
    """Put a message into the database for a worker."""
    from .thread_commands import enqueue_message, parse_due  # noqa: PLC0415 - see the module

    how = {"id": name, "at": None if at is None else parse_due(at), "every": every}
    return enqueue_message(settings, output, thread, message, answers=answers, **how)


@make_command("database", "json")
def dequeue(
    settings: Settings,
    output: Output,
    thread: Annotated[str, typer.Argument(help="The thread.")],
    turn: Annotated[str, typer.Argument(help="The turn's id; see turns.")],
) -> int:
    """Take back a turn that has not begun or was set aside."""
    from .thread_commands import dequeue_turn  # noqa: PLC0415 - see the module

    return dequeue_turn(settings, output, thread, turn)


@make_command("database", "json")
def turns(
    settings: Settings,
    output: Output,
    thread: Annotated[str | None, typer.Argument(help="Only this one's; all without it.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="So many at most.")] = 100,
) -> int:
    """List the turns that wait for a worker, run, or are set aside."""
    from .thread_commands import show_turns  # noqa: PLC0415 - see the module

    return show_turns(settings, output, thread, limit)


_WORKER = ("agent", *_PARTS, "database", "results")


@make_command(*_WORKER, "json")
def worker(
    settings: Settings,
    output: Output,
    graphs: Annotated[
        list[str] | None, typer.Option("--graph", help="Run turns of this one; all without it.")
    ] = None,
    modules: Annotated[
        list[str] | None,
        typer.Option("--module", help="package.module:graph of your own, or a function of it."),
    ] = None,
    concurrency: Annotated[int, typer.Option(min=1, max=256, help="Turns at once.")] = 8,
    lease: Annotated[
        float, typer.Option(help="Seconds after which what a dead worker held is free.")
    ] = 30.0,
) -> int:
    """Run turns that wait or whose run has died, until a signal."""
    from .worker import WorkerOptions, run_worker  # noqa: PLC0415 - see the module

    wanted = WorkerOptions(graphs or [], modules or [], concurrency, lease)
    return run_worker(settings, output, wanted)


_DESK = ("graph", *_PARTS, "database", "results", "json")


@make_command(*_DESK)
def desk(
    settings: Settings,
    output: Output,
    thread: Annotated[str | None, typer.Argument(help="A thread that waits. None: list.")] = None,
    words: Annotated[str | None, typer.Argument(help="What the customer is told.")] = None,
    gives_back: Annotated[bool, typer.Option("--return", help="The assistant goes on.")] = False,
    approves: Annotated[
        bool, typer.Option("--approve", help="Run the change that waits, and return.")
    ] = False,
    declines: Annotated[
        bool, typer.Option("--decline", help="Drop the change that waits, and return.")
    ] = False,
    away: Annotated[
        str | None, typer.Option(help="Nobody is at the desk for 30m, 12h, 2d: tickets instead.")
    ] = None,
    back: Annotated[bool, typer.Option("--back", help="Somebody is at the desk again.")] = False,
    claims: Annotated[bool, typer.Option("--claim", help="Nobody but you answers.")] = False,
    releases: Annotated[bool, typer.Option("--release", help="Anybody answers again.")] = False,
    passes_to: Annotated[
        str | None, typer.Option("--pass-to", help="Nobody but this colleague answers.")
    ] = None,
    operator: Annotated[
        str | None, typer.Option("--as", help="Your name; that of your login without it.")
    ] = None,
) -> int:
    """Attend to customers whom a human has taken over."""
    from .desk import (  # noqa: PLC0415 - see the module
        DeskRequest,
        choose_holder,
        find_login_name,
        run_desk,
        set_staffing,
    )

    if away is not None or back:
        return set_staffing(settings, output, None if back else away)
    me = operator or find_login_name()
    holder = choose_holder(me, passes_to, claims=claims, releases=releases)
    wanted = DeskRequest(words or "", gives_back, approves, declines, holder, me)
    return run_desk(settings, output, thread, wanted)


_threads = typer.Typer(pretty_exceptions_enable=False)
app.add_typer(_threads, name="threads")


@_threads.callback(invoke_without_command=True)
def threads(
    context: typer.Context,
    unfinished: Annotated[bool, typer.Option("--unfinished", help="Only those to resume.")] = False,
    waiting: Annotated[bool, typer.Option("--waiting", help="Only those with a question.")] = False,
    expired: Annotated[
        bool, typer.Option("--expired", help="Only those whose run died in its turn.")
    ] = False,
    order: Annotated[str, typer.Option(help="newest, oldest or largest first.")] = "newest",
    limit: Annotated[int, typer.Option(min=1, help="So many at most.")] = 100,
    database: Annotated[
        str | None, typer.Option("--db", help="Database URL; see prune --help.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """List the saved threads, newest first, or delete some."""
    flags = {"unfinished": unfinished, "waiting": waiting, "expired": expired}
    chosen = [name for name, on in flags.items() if on]
    if context.invoked_subcommand is not None:
        first = next((f"--{name}" for name in chosen), "--json" if json else "")
        if option := "--db" if database is not None else first:
            msg = f"Give it behind the command: threads {context.invoked_subcommand} {option} …"
            raise typer.BadParameter(msg, param_hint=option)
        return
    if len(chosen) > 1:
        msg = f"Choose one of {', '.join(f'--{name}' for name in chosen)}."
        raise typer.BadParameter(msg)
    from .threads import show_threads  # noqa: PLC0415 - see the module

    output, settings = Output(json=json), Settings(database=database)
    which = chosen[0] if chosen else None
    raise typer.Exit(
        run_guarded(output, lambda: show_threads(settings, output, which, order, limit))
    )


@make_command("database", "results", within=_threads)
def dismiss(
    settings: Settings,
    output: Output,
    threads: Annotated[list[str], typer.Argument(help="The threads to delete.")],
) -> int:
    """Delete threads, with all that is saved of them."""
    from .threads import dismiss_threads  # noqa: PLC0415 - see the module

    return dismiss_threads(settings, output, threads)


_policy = typer.Typer(pretty_exceptions_enable=False, no_args_is_help=True)
app.add_typer(_policy, name="policy", help="Look at a policy's tables.")


@make_command("json", within=_policy)
def check(
    settings: Settings,  # noqa: ARG001 - every command is given them
    output: Output,
    file: Annotated[str, typer.Argument(help="The policy's YAML file.")],
    on: Annotated[
        str | None,
        typer.Option(help="File with a call a line, as JSON: say what would be decided, and why."),
    ] = None,
) -> int:
    """Prove a policy's tables, and try sample calls."""
    from .policy_check import check_policy  # noqa: PLC0415 - see the module

    return check_policy(output, file, on)


@make_command("database", "results", "json")
def prune(
    settings: Settings,
    output: Output,
    thread: Annotated[str | None, typer.Argument(help="Only this one; all without it.")] = None,
    keep: Annotated[
        str | None, typer.Option(help="latest: each thread as it stands, without its history.")
    ] = None,
    turns: Annotated[int | None, typer.Option(min=1, help="Keep the last turns.")] = None,
    older_than: Annotated[
        str | None, typer.Option(help="Remove what is older: 12h, 30d, 8w.")
    ] = None,
    every: Annotated[
        str | None, typer.Option(help="Again and again, with a pause of 30m, 12h, 1d.")
    ] = None,
) -> int:
    """Remove older checkpoints of threads at rest."""
    from .threads import prune_threads, read_kept  # noqa: PLC0415 - see the module

    return prune_threads(settings, output, thread, read_kept(keep, turns, older_than), every)


@make_command()
def graph(
    settings: Settings,  # noqa: ARG001 - every command is given them
    output: Output,
    name: Annotated[str, typer.Argument(help="The graph's name.")] = DEFAULT_GRAPH,
    mermaid: Annotated[bool, typer.Option("--mermaid", help="As Mermaid text (default).")] = False,
    ascii_: Annotated[bool, typer.Option("--ascii", help="As plain text.")] = False,
) -> int:
    """Draw a graph."""
    if mermaid and ascii_:
        msg = "Choose one of --mermaid and --ascii."
        raise SettingsError(msg)
    from .show import show_graph  # noqa: PLC0415 - see the module

    return show_graph(output, name, ascii_=ascii_)


@make_command("agent", "mcp", "policy", "instructions", "model", "database", "results", "json")
def doctor(
    settings: Settings,
    output: Output,
    prepare: Annotated[
        bool, typer.Option("--prepare", help="First make the tables there that are missing.")
    ] = False,
) -> int:
    """Say whether a run would work here, or with --db whether that database would."""
    from .show import examine, prepare_database  # noqa: PLC0415 - see the module

    if prepare:
        prepare_database(settings)
    return examine(settings, output, settings.database)

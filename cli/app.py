"""The commands. Everything heavy is imported when a command needs it: `--help` must not wait."""

from typing import Annotated

import typer
from typer import Argument, Option

from .command import app, make_command
from .settings import DEFAULT_GRAPH, Settings, read_plan_input
from .terminal import Output, run_guarded

__all__ = ["app"]

_PARTS = ("mcp", "policy", "foreign", "instructions", "hooks", "model", "script")
_RUN = (
    "graph", "agent", *_PARTS, "yes", "review", "max_parallel", "max_cost", "database", "results",
    "wait", "record", "json",
)  # fmt: skip


@make_command(*_RUN)
def run(
    settings: Settings,
    output: Output,
    goal: Annotated[str, Argument(help="What you want done; - reads standard input.")],
    thread: Annotated[str | None, Option(help="A new message on this thread.")] = None,
    plan: Annotated[str | None, Option(help="File with a plan for prompt_flow to follow.")] = None,
    values: Annotated[
        list[str] | None,
        Option("--set", help="name=value for a variable of the plan; JSON or text."),
    ] = None,
    quote: Annotated[
        bool, Option("--quote", help="Only say what the run may take at most.")
    ] = False,
) -> int:
    """Run a goal to its end, asking before anything is changed."""
    from .run import run_goal  # noqa: PLC0415 - see the module
    from .show import quote_goal  # noqa: PLC0415 - see the module

    if quote:
        return quote_goal(settings, output, goal)
    return run_goal(settings, output, goal, thread, read_plan_input(plan, values or []))


@make_command(*_RUN, runs="run.resume_thread")
def resume(
    thread: Annotated[str, Argument(help="The thread to go on with.")],
    answer: Annotated[
        str | None,
        Argument(help="approve, reject[: reason], respond: text, or JSON. None: be asked."),
    ] = None,
) -> None:
    """Go on with a thread that paused, waits or did not reach its goal."""


@make_command(*_RUN[:-1], runs="chat.run_chat")
def chat(thread: Annotated[str | None, Option(help="Go on with this one.")] = None) -> None:
    """Talk with a graph, on a terminal or through a pipe."""


@make_command(*_RUN[1:-1], runs="chat.continue_chat")
def continue_() -> None:
    """Talk on in the newest thread of the database."""


@make_command("graph", "module", "database", "json", runs="thread_commands.stop_thread")
def stop(thread: Annotated[str, Argument(help="The thread whose turn is to end.")]) -> None:
    """End a thread's turn as cancelled, in any process."""


@make_command("graph", "module", "database", "json", runs="thread_commands.steer_thread")
def steer(
    thread: Annotated[str, Argument(help="The thread that is running.")],
    message: Annotated[str, Argument(help="The new words; - reads standard input.")],
) -> None:
    """Send a message to a running thread."""


@make_command("graph", "module", "database", "json", runs="thread_commands.enqueue_message")
def enqueue(
    thread: Annotated[str, Argument(help="The thread; a new name begins one.")],
    message: Annotated[str, Argument(help="The words; - reads standard input.")],
    name: Annotated[
        str | None, Option("--id", help="Of the turn: the same again is the same turn.")
    ] = None,
    answers: Annotated[
        bool, Option("--answer", help="The words answer what the thread asks.")
    ] = False,
    at: Annotated[
        str | None, Option(help="When it is due: 2026-12-24T18:00Z, or in 30m, 12h, 2d.")
    ] = None,
    every: Annotated[str, Option(help="Again and again, as cron says, in UTC.")] = "",
) -> None:
    """Put a message into the database for a worker."""


@make_command("database", "json", runs="thread_commands.dequeue_turn")
def dequeue(
    thread: Annotated[str, Argument(help="The thread.")],
    turn: Annotated[str, Argument(help="The turn's id; see turns.")],
) -> None:
    """Take back a turn that has not begun or was set aside."""


@make_command("database", "json", runs="thread_commands.show_turns")
def turns(
    thread: Annotated[str | None, Argument(help="Only this one's; all without it.")] = None,
    limit: Annotated[int, Option(min=1, help="So many at most.")] = 100,
) -> None:
    """List the turns that wait for a worker, run, or are set aside."""


_WORKER = ("agent", *_PARTS, "database", "results")


@make_command(*_WORKER, "json", runs="worker.run_worker")
def worker(
    graphs: Annotated[
        list[str] | None, Option("--graph", help="Run turns of this one; all without it.")
    ] = None,
    modules: Annotated[
        list[str] | None,
        Option("--module", help="package.module:graph of your own, or a function of it."),
    ] = None,
    concurrency: Annotated[int, Option(min=1, max=256, help="Turns at once.")] = 8,
    lease: Annotated[
        float, Option(help="Seconds after which what a dead worker held is free.")
    ] = 30.0,
) -> None:
    """Run turns that wait or whose run has died, until a signal."""


_DESK = ("graph", *_PARTS, "database", "results", "json")


@make_command(*_DESK)
def desk(
    settings: Settings,
    output: Output,
    thread: Annotated[str | None, Argument(help="A thread that waits. None: list.")] = None,
    words: Annotated[str | None, Argument(help="What the customer is told.")] = None,
    gives_back: Annotated[bool, Option("--return", help="The assistant goes on.")] = False,
    approves: Annotated[
        bool, Option("--approve", help="Run the change that waits, and return.")
    ] = False,
    declines: Annotated[
        bool, Option("--decline", help="Drop the change that waits, and return.")
    ] = False,
    away: Annotated[
        str | None, Option(help="Nobody is at the desk for 30m, 12h, 2d: tickets instead.")
    ] = None,
    back: Annotated[bool, Option("--back", help="Somebody is at the desk again.")] = False,
    claims: Annotated[bool, Option("--claim", help="Nobody but you answers.")] = False,
    releases: Annotated[bool, Option("--release", help="Anybody answers again.")] = False,
    passes_to: Annotated[
        str | None, Option("--pass-to", help="Nobody but this colleague answers.")
    ] = None,
    operator: Annotated[
        str | None, Option("--as", help="Your name; that of your login without it.")
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
    unfinished: Annotated[bool, Option("--unfinished", help="Only those to resume.")] = False,
    waiting: Annotated[bool, Option("--waiting", help="Only those with a question.")] = False,
    expired: Annotated[
        bool, Option("--expired", help="Only those whose run died in its turn.")
    ] = False,
    order: Annotated[str, Option(help="newest, oldest or largest first.")] = "newest",
    limit: Annotated[int, Option(min=1, help="So many at most.")] = 100,
    database: Annotated[str | None, Option("--db", help="Database URL; see prune --help.")] = None,
    json: Annotated[bool, Option("--json", help="One JSON object.")] = False,
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


@make_command("database", "results", runs="threads.dismiss_threads", within=_threads)
def dismiss(threads: Annotated[list[str], Argument(help="The threads to delete.")]) -> None:
    """Delete threads, with all that is saved of them."""


_memory = typer.Typer(pretty_exceptions_enable=False, no_args_is_help=True)
app.add_typer(_memory, name="memory", help="What is remembered of a user across threads.")
_User = Annotated[str, Argument(help="As the server knows them, or a customer's id.")]


@make_command("database", "json", runs="memories.show_memories", within=_memory)
def list_(user: _User) -> None:
    """List what is remembered of a user."""


@make_command("database", "json", runs="memories.forget_memories", within=_memory)
def forget(
    user: _User, id: Annotated[str | None, Argument(help="Only this one; all without it.")] = None
) -> None:
    """Delete what is remembered of a user."""


_policy = typer.Typer(pretty_exceptions_enable=False, no_args_is_help=True)
app.add_typer(_policy, name="policy", help="Look at a policy's tables.")


@make_command("json", runs="policy_check.check_policy", within=_policy)
def check(
    file: Annotated[str, Argument(help="The policy's YAML file.")],
    on: Annotated[
        str | None,
        Option(help="File with a call a line, as JSON: say what would be decided, and why."),
    ] = None,
) -> None:
    """Prove a policy's tables, and try sample calls."""


@make_command("database", "results", "json", runs="threads.prune_threads")
def prune(
    thread: Annotated[str | None, Argument(help="Only this one; all without it.")] = None,
    keep: Annotated[
        str | None, Option(help="latest: each thread as it stands, without its history.")
    ] = None,
    turns: Annotated[int | None, Option(min=1, help="Keep the last turns.")] = None,
    older_than: Annotated[str | None, Option(help="Remove what is older: 12h, 30d, 8w.")] = None,
    every: Annotated[
        str | None, Option(help="Again and again, with a pause of 30m, 12h, 1d.")
    ] = None,
) -> None:
    """Remove older checkpoints of threads at rest."""


_USER = Annotated[str | None, Option(help="Whose login; without it the operator's own.")]


@make_command("mcp", "json", runs="login.log_in_user")
def login(
    server: Annotated[str, Argument(help="Its name in the MCP configuration.")], user: _USER = None
) -> None:
    """Log in to an MCP server that wants OAuth, in the browser."""


@make_command("mcp", "json", runs="login.log_out_user")
def logout(
    server: Annotated[str, Argument(help="Its name in the MCP configuration.")], user: _USER = None
) -> None:
    """Delete a login to an MCP server."""


@make_command("agent", *_PARTS, "record", "json", runs="replay.replay_thread")
def replay(thread: Annotated[str, Argument(help="A thread whose runs are on record.")]) -> None:
    """Run a recorded thread again, without a call, and say what is otherwise today."""


@make_command(runs="show.show_graph")
def graph(
    name: Annotated[str, Argument(help="The graph's name.")] = DEFAULT_GRAPH,
    mermaid: Annotated[bool, Option("--mermaid", help="As Mermaid text (default).")] = False,
    ascii_: Annotated[bool, Option("--ascii", help="As plain text.")] = False,
) -> None:
    """Draw a graph."""


_NEEDED = ("agent", "mcp", "policy", "instructions", "hooks", "model", "database", "results")


@make_command(*_NEEDED, "json", runs="show.examine")
def doctor(
    prepare: Annotated[
        bool, Option("--prepare", help="First make the tables there that are missing.")
    ] = False,
) -> None:
    """Say whether a run would work here, or with --db whether that database would."""


@make_command("json", runs="evals.run_eval")
def eval_(
    task: Annotated[
        str, Argument(help="goals, desk, measure, package/task of Inspect, or a file.")
    ],
    logs: Annotated[str, Option("--log-dir", help="Where logs are written.")] = "logs",
    graphs: Annotated[
        list[str] | None, Option("--graph", help="Which works; several are compared.")
    ] = None,
    models: Annotated[
        list[str] | None, Option("--model", help="provider/name; several are compared.")
    ] = None,
    prompts: Annotated[
        list[str] | None, Option(help="Prompts: a folder, or en; several likewise.")
    ] = None,
    more: Annotated[list[str] | None, Argument(help="Behind --: options of inspect eval.")] = None,
) -> None:
    """Measure graphs, models or prompts by a task of Inspect."""

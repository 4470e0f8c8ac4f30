"""`run` and `resume`: open the database, build the graph, run the session."""

import atexit
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from rich.console import Console

from ..doors.durability import DEFAULT_URL, Durability, open_durability
from ..doors.graph import LoopGraph
from ..graphs.assembly import default_mcp, default_policy
from ..graphs.registry import builder_of
from ..models.choice import Models
from ..state.context import Context
from .approvals import Asker
from .output import Output
from .session import Session
from .settings import DEFAULT_GRAPH, ROLES, Settings, new_thread_id, read_goal, thread_named
from .view import LiveView, PlainView, View

GRAPH_KEY: Final = "loopwright_graph"
"""Checkpoint metadata that says which graph a thread belongs to."""


def run_goal(settings: Settings, output: Output, goal: str, thread: str | None) -> int:
    """Run a goal on a new or an existing thread; the exit code.

    Raises:
        SettingsError: A setting, a file or the goal cannot be used.
    """
    builder_of(settings.graph or DEFAULT_GRAPH)
    given = thread_named(thread) if thread is not None else new_thread_id()
    words = read_goal(goal)
    with _opened(settings.database_url(DEFAULT_URL)) as durability:
        session = _session(settings, output, durability, given, answered=False)
        return session.run(words)


def resume_thread(settings: Settings, output: Output, thread: str, answer: str | None) -> int:
    """Go on with a thread; the exit code.

    Raises:
        SettingsError: A setting or a file cannot be used.
        ThreadNotFound: There is no such thread.
        AnswerRejected: The answer fits no open question.
    """
    with _opened(settings.database_url(DEFAULT_URL)) as durability:
        session = _session(
            settings, output, durability, thread_named(thread), answered=answer is not None
        )
        return session.resume(answer)


@contextmanager
def _opened(url: str) -> Iterator[Durability]:
    """The database, closed once nothing uses it any more.

    A run that was cut off may leave a write under way in a worker thread. SQLite crashes the
    process if its connection is closed meanwhile, so that is left to the end of the process,
    which waits for those threads first.
    """
    durability = open_durability(url)
    try:
        yield durability
    except BaseException:
        atexit.register(durability.close)
        raise
    durability.close()


def _session(
    settings: Settings, output: Output, durability: Durability, thread: str, *, answered: bool
) -> Session:
    """Everything a run needs. Whoever answered a question before the run can answer another."""
    context = Context(interactive=output.reads or settings.yes or answered, **settings.limits())
    name = settings.graph or graph_of(durability, thread) or DEFAULT_GRAPH
    graph = _graph(settings, name, context, durability)
    # Questions go to standard error where standard output is a pipe.
    console = Console(highlight=False, stderr=not output.live)
    view: View = LiveView(console) if output.live else PlainView(output)
    return Session(
        graph=graph,
        thread=thread,
        context=context,
        resume_command=settings.resume_command(thread, durability.url),
        output=output,
        console=console,
        view=view,
        asker=Asker(console) if output.asks else None,
        yes=settings.yes,
        metadata={GRAPH_KEY: name},
    )


def _graph(
    settings: Settings, name: str, context: Context, durability: Durability
) -> LoopGraph[Any, Any, Any, Any]:
    build = builder_of(name)
    # Asked here, so that a wrong model is told before a thread is begun.
    models = Models(settings.model, environ=settings.environ)
    for role in ROLES[name]:
        models.choose(role, context)
    graph: LoopGraph[Any, Any, Any, Any] = build(
        model=settings.model,
        mcp=settings.mcp or default_mcp(settings.environ),
        policy=settings.policy or default_policy(settings.environ),
        durability=durability,
    )
    return graph


def graph_of(durability: Durability, thread: str) -> str | None:
    """The graph that saved a thread, if it was this command."""
    place = {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
    saved = durability.checkpointer.get_tuple(place)  # type: ignore[arg-type]  # a RunnableConfig
    found = saved.metadata.get(GRAPH_KEY) if saved else None
    return str(found) if found else None

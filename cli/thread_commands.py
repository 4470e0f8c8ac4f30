"""`stop`, `steer`, `enqueue`: what somebody wishes of a thread that another process may run."""

from collections.abc import Iterator
from contextlib import contextmanager

from langchain_core.runnables import RunnableConfig
from langgraph.types import Command

from ..graphs.registry import find_builder
from ..state.errors import SettingsError
from ..store.threads.thread_list import GRAPH_KEY
from .agents import load_origin
from .run import Graph
from .settings import DEFAULT_GRAPH, Settings, check_thread_id, read_goal
from .terminal import Code, Output, quote_words
from .user_graphs import load_user_graph


def stop_thread(settings: Settings, output: Output, thread: str) -> int:
    """End the thread's turn as cancelled; the exit code."""
    with _open_thread(settings, thread) as (graph, config, resume):
        outcome = graph.stop(config)
    if output.json:
        output.write_result({"thread": thread, "running": outcome is None, "outcome": outcome})
    elif outcome is None:
        output.write_line(f"The run of {thread} ends at its next border, as cancelled.")
    else:
        output.write_line(f"{thread}: {outcome['status']} ({outcome['reason']})")
        output.write_line(outcome["answer"])
    if resume and not output.json:
        output.write_line(f"Go on with it later: {resume}")
    return Code.COMPLETE


def steer_thread(settings: Settings, output: Output, thread: str, message: str) -> int:
    """Hand a message to the thread's running turn; the exit code.

    Raises:
        SettingsError: No run holds the thread.
    """
    words = read_goal(message, "message")
    with _open_thread(settings, thread) as (graph, config, _):
        handed_over = graph.steer(config, words)
    if not handed_over:
        msg = (
            f"No run holds the thread {thread!r}, so nothing was handed over: give it the message"
            f" with `{quote_words(['loopwright', 'run', '--thread', thread, words])}`."
        )
        raise SettingsError(msg)
    if output.json:
        output.write_result({"thread": thread, "running": True})
    else:
        output.write_line(f"Handed over: the run of {thread} takes it up at its next border.")
    return Code.COMPLETE


def enqueue_message(
    settings: Settings,
    output: Output,
    thread: str,
    message: str,
    name: str | None,
    *,
    answers: bool,
) -> int:
    """Put a message behind those that wait for the thread, or an answer before; the exit code."""
    words = read_goal(message, "message")
    with _open_thread(settings, thread) as (graph, config, _):
        turn = graph.enqueue(config, Command(resume=words) if answers else words, id=name)
    if output.json:
        told = {"thread": turn.thread, "turn": turn.id, "graph": turn.graph, "state": turn.state}
        output.write_result({**told, "outcome": turn.outcome})
    else:
        output.write_line(f"{turn.thread} {turn.id}: {turn.state}; `loopwright worker` runs it.")
    return Code.COMPLETE


@contextmanager
def _open_thread(settings: Settings, thread: str) -> Iterator[tuple[Graph, RunnableConfig, str]]:
    """The graph of a thread, its config, and the command that goes on with it, if one does."""
    given = check_thread_id(thread)
    with settings.open() as durability:
        kept = load_origin(durability, given)
        name = settings.graph or kept.get(GRAPH_KEY) or DEFAULT_GRAPH
        # To end a turn no model is asked and no tool is called.
        graph: Graph
        if settings.module is not None:
            graph = load_user_graph(settings.module, durability)
            name = graph.name
        else:
            graph = find_builder(name)(model="offline", durability=durability)
        config = RunnableConfig(
            configurable={"thread_id": given}, metadata={**kept, GRAPH_KEY: name}
        )
        how = "" if settings.module else settings.build_resume_command(given, durability.url)
        yield graph, config, how

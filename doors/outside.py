"""Who calls a graph, and what a client of a server may not do.

In a program that embeds a graph that program is the operator. Under a server whoever calls is a
client: what it says of itself proves nothing.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from langgraph.graph import END
from langgraph.types import Command
from pydantic import ValidationError

from ..state.context import Context
from ..state.errors import SettingsError
from . import langgraph_keys as keys
from .checks import in_words
from .run import Run

Bounded = Callable[[object], object]


def from_outside(configurable: Mapping[str, Any]) -> bool:
    """Whether LangGraph's server runs the graph, as LangGraph itself tells it."""
    return any(configurable.get(key) is not None for key in keys.SERVER)


def identity(configurable: Mapping[str, Any], *, served: bool = False) -> str | None:
    """Whom a run is for.

    The authenticated user always; `user_id` counts only where a program embeds the graph.

    Args:
        configurable: The run's.
        served: The graph is one that a server loads.
    """
    user = configurable.get("langgraph_auth_user")
    proven = user.get("identity") if isinstance(user, Mapping) else getattr(user, "identity", None)
    proven = proven or configurable.get("langgraph_auth_user_id")
    if not (proven or served or from_outside(configurable)):
        proven = configurable.get("user_id")
    return str(proven) if proven else None


def withdraws(given: object) -> bool:
    """Whether a command says `goto: END` alone: the open question is withdrawn, the turn stops."""
    if not isinstance(given, Command) or given.update or given.resume is not None:
        return False
    return given.goto in (END, [END], (END,))


def check_client(command: Command[Any]) -> None:
    """Refuse what would write into the state, or lead past the graph's own questions.

    Raises:
        SettingsError: A client of a server wants that.
    """
    if withdraws(command) or not (command.update or command.goto or command.graph):
        return
    msg = (
        "A client of a server may send messages, answers to questions, and a command with"
        " goto: END alone; `update` and `goto` are refused, and nothing was run."
    )
    raise SettingsError(msg)


def client_run(run: Run, bounded: Bounded | None) -> Run:
    """A client's run under the operator's settings.

    A program's node that runs the graph may give it a context of its own, as the operator.

    Raises:
        SettingsError: The client wants more than it may.
    """
    given = run.options.get("context")
    if run.nested:
        inherited = getattr(run.configurable.get(keys.RUNTIME), "context", None)
        if given is not None or not isinstance(inherited, Context):
            return run
        given = inherited
    elif isinstance(run.input, Command):
        check_client(run.input)
    if bounded is None:
        return run
    try:
        return replace(run, options={**run.options, "context": bounded(given)})
    except ValidationError as error:
        raise in_words(error, thread=run.thread) or error from error


def check_update(updates: object) -> None:
    """Refuse a client's writes into a thread's state.

    Raises:
        SettingsError: They are more than the end of the thread's turn (no values, as END).
    """
    if updates in ([[(None, END)]], [[(None, END, None)]]):
        return
    msg = (
        "A client of a server may not write into a thread's state: send messages, or answers to"
        " its questions. To stop its turn, update it with no values as the node END."
    )
    raise SettingsError(msg)

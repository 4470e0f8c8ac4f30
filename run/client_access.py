"""Who calls a graph, and what a client of a server may set, do and is shown.

A program that embeds a graph is the operator. Under a server every caller is a client, and its own
claims prove nothing. The operator's `Context` is a ceiling: a client may lower limits, make rules
stricter, and choose a model from a list.
"""

import json
import os
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from langchain_core.messages import AIMessage, AnyMessage
from langchain_core.runnables.config import var_child_runnable_config
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END
from langgraph.runtime import Runtime
from langgraph.types import Command, StateSnapshot
from pydantic import ValidationError

from ..state.agent import MODEL_TURN
from ..state.context import DEFAULTS, SESSION_KEY, Context, Session, explain_unfit_context
from ..state.errors import SettingsError
from ..state.limits import read_file, refuse_excess
from ..state.messages import (
    ANSWER,
    CUT,
    ENDS,
    EVIDENCE,
    PLACEHOLDER,
    REJECTED,
    REPEATS,
    ROLE,
    STEERS,
    TOLD,
)
from ..store.base import langgraph_keys as keys
from ..store.journal.port import FENCE_KEY, Fence
from ..store.locks.thread_locks import LockEntry
from .builder import Bounded
from .checks import translate_error
from .run import HELD_KEY, Run
from .side_work import BESIDE_KEY, SideWork

_OURS: Final[Mapping[str, type]] = {
    HELD_KEY: LockEntry,
    FENCE_KEY: Fence,
    SESSION_KEY: Session,
    BESIDE_KEY: SideWork,
}
"""What a run tells the graphs inside it, and nobody else may."""

_PREFIXES: Final = (keys.PREFIX, "__loopwright_")

_AT_THE_ROOT: Final[Mapping[str, Callable[[object], bool]]] = {
    keys.RUNTIME: lambda value: isinstance(value, Runtime),
    keys.NODE_FINISHED: callable,
    **dict.fromkeys(keys.STREAM_FORMATS, lambda value: isinstance(value, bool)),
}
"""What LangGraph's doors and its server give to the outermost run, none of it JSON but flags."""


def is_server_call(configurable: Mapping[str, Any]) -> bool:
    """Whether LangGraph's server runs the graph, as LangGraph itself tells it."""
    return any(configurable.get(key) is not None for key in keys.SERVER)


def check_keys(configurable: Mapping[str, Any], *, runs: bool) -> None:
    """Refuse keys that only LangGraph sets for a graph that it runs as a node, by SettingsError.

    Anybody can send such a key, so the place of the call decides: inside a task of LangGraph's,
    with its id. `runs`: the graph is run; else its state is read or written.
    """
    inside = _is_inside_task(configurable)
    if not inside:
        refuse_excess("configurable", configurable)
    wrong = [
        key for key, value in configurable.items() if not _is_allowed_key(key, value, inside, runs)
    ]
    if wrong:
        msg = (
            f"`configurable` carries {', '.join(map(repr, wrong))}, which only LangGraph sets, for"
            " a graph that it runs as a node: leave that out, and name a thread_id and at most a"
            " checkpoint_id. Nothing was run. A thread that a node starts itself hands them on by"
            " contextvars.copy_context()."
        )
        raise SettingsError(msg)


def _is_inside_task(configurable: Mapping[str, Any]) -> bool:
    """Whether a task of LangGraph's makes the call, on behalf of which the graph runs."""
    around = (var_child_runnable_config.get() or {}).get("configurable", {})
    task, pad = configurable.get(keys.TASK), configurable.get(keys.SCRATCHPAD)
    told = task is not None and task == around.get(keys.TASK)
    return told and type(pad).__name__ == keys.SCRATCHPAD_CLASS


def _is_allowed_key(key: str, value: object, inside: bool, runs: bool) -> bool:
    if kind := _OURS.get(key):
        # Of a state that is written: the graph around, whose door holds the thread.
        handed = inside or (key == HELD_KEY and not runs)
        return handed and isinstance(value, kind | None)
    if inside:
        return True
    if key in keys.INNER_COORDINATES:
        return not (runs and value)
    if key == keys.SAVER and not runs:
        return isinstance(value, BaseCheckpointSaver)
    at_the_root = _AT_THE_ROOT.get(key)
    return at_the_root(value) if at_the_root else not str(key).startswith(_PREFIXES)


def resolve_identity(configurable: Mapping[str, Any], *, served: bool = False) -> str | None:
    """Whom a run is for: the authenticated user; `user_id` counts only without a server."""
    user = configurable.get("langgraph_auth_user")
    proven = user.get("identity") if isinstance(user, Mapping) else getattr(user, "identity", None)
    proven = proven or configurable.get("langgraph_auth_user_id")
    if not (proven or served or is_server_call(configurable)):
        proven = configurable.get("user_id")
    return str(proven) if proven else None


def is_operator(configurable: Mapping[str, Any]) -> bool:
    """Whether a server has proven that who calls has the permission that its operator named."""
    wanted = os.environ.get("LOOPWRIGHT_OPERATOR_PERMISSION")
    if not wanted or resolve_identity(configurable, served=True) is None:
        return False
    return wanted in (configurable.get("langgraph_auth_permissions") or ())


def find_reader(run: Run) -> Run:
    """The run by which a state is read, with who reads it by a route of LangGraph's server."""
    if not (route := _read_route_auth()):
        return run
    return replace(run, customer=not is_operator({**run.configurable, **route}))


def _read_route_auth() -> dict[str, Any]:
    """Who calls the route of LangGraph's server that reads a state, as `configurable` tells a run.

    The server gives the graph no word of it there; empty outside of a server.
    """
    server = sys.modules.get("langgraph_api.utils")
    about = server.get_auth_ctx() if server is not None else None
    if about is None:
        return {}
    return {"langgraph_auth_user": about.user, "langgraph_auth_permissions": about.permissions}


def is_withdrawal(given: object) -> bool:
    """Whether a command says `goto: END` alone: the open question is withdrawn, the turn stops."""
    if not isinstance(given, Command) or given.update or given.resume is not None:
        return False
    return given.goto in (END, [END], (END,))


def check_client(command: Command[Any]) -> None:
    """Refuse a client's command that writes into the state or jumps; raises SettingsError."""
    if is_withdrawal(command) or not (command.update or command.goto or command.graph):
        return
    msg = (
        "A client of a server may send messages, answers to questions, and a command with"
        " goto: END alone; `update` and `goto` are refused, and nothing was run."
    )
    raise SettingsError(msg)


PLAN: Final = "execution_plan"
"""The key of an input that hands in a plan."""


def _check_no_plan(given: object) -> None:
    """Refuse a client's own plan, which would go past what the operator tells the planner."""
    if not isinstance(given, Mapping) or given.get(PLAN) is None:
        return
    msg = (
        f"A client of a server may not hand in a plan: leave {PLAN!r} out, and nothing but"
        " `variables` reaches the plan that the operator has built in. Nothing was run."
    )
    raise SettingsError(msg)


def make_client_run(run: Run, bounded: Bounded | None) -> Run:
    """A client's run under the operator's settings; raises SettingsError if it wants more.

    A program's node that runs the graph may give it a context of its own, as the operator.
    """
    given = run.options.get("context")
    if run.is_nested:
        inherited = getattr(run.configurable.get(keys.RUNTIME), "context", None)
        if given is not None or not isinstance(inherited, Context):
            return run
        given = inherited
    elif isinstance(run.input, Command):
        check_client(run.input)
    else:
        _check_no_plan(run.input)
    if bounded is None:
        return run
    try:
        return replace(run, options={**run.options, "context": bounded(given)})
    except ValidationError as error:
        raise translate_error(error, thread=run.thread) or error from error


_MARKS: Final = {CUT, ROLE, STEERS, ENDS, REJECTED, MODEL_TURN, TOLD, REPEATS, EVIDENCE}


def strip_marks(said: Sequence[AnyMessage], known: Sequence[AnyMessage]) -> list[AnyMessage]:
    """Remove from a client's messages what would make them look like the run's own.

    Messages that the run wrote stay as they are. New ones lose our marks, and ids of answers.
    """
    ours = {message.id for message in known if message.type != "human"}
    return [_strip_message_marks(one) for one in said if one.id not in ours]


def _strip_message_marks(message: AnyMessage) -> AnyMessage:
    about = {k: v for k, v in message.additional_kwargs.items() if k not in _MARKS}
    name = None if str(message.id).startswith(ANSWER) else message.id
    return message.model_copy(update={"additional_kwargs": about, "id": name})


def check_update(updates: object) -> None:
    """Refuse a client's writes into a thread's state, except its end (no values, as END)."""
    if updates in ([[(None, END)]], [[(None, END, None)]]):
        return
    msg = (
        "A client of a server may not write into a thread's state: send messages, or answers to"
        " its questions. To stop its turn, update it with no values as the node END."
    )
    raise SettingsError(msg)


VARIABLE: Final = "LOOPWRIGHT_CEILING"

FREE: Final = frozenset({"tiers", "language", "observe", "resource_id", "task_id"})
"""What a client sets as it likes: it lifts no limit and gives no permission."""

SHARED: Final = "tool_context"
"""Data for tools: a client adds keys of its own to the operator's, and changes none of those."""

MODELS: Final = frozenset({"model", "models", "fallback_models"})

ENDLESS: Final = frozenset({"question_expires_in", "max_cost", "max_output_tokens"})
"""Numbers that are without a limit where they are not set."""

STRICTEST_FIRST: Final[Mapping[str, tuple[object, ...]]] = {
    "policy": ("deny", "ask", "default", "allow"),
    "dedupe": ("off", "read_only", "all"),
    "interactive": (False, True),
    "review_plan": (True, False),
}


def read_ceiling(environ: Mapping[str, str]) -> Context:
    """The operator's ceiling: JSON of settings, or a file of it; else the defaults."""
    given = environ.get("LOOPWRIGHT_CEILING")
    if given is None:
        return DEFAULTS
    try:
        text = given if given.lstrip()[:1] == "{" else read_file(Path(given), "settings")
        return Context.model_validate(json.loads(text))
    except (OSError, ValueError) as error:
        why = " ".join(str(error).split())[:300]
        msg = f"{VARIABLE} is no JSON object of settings, nor a file that holds one: {why}."
        raise SettingsError(msg) from error


def apply_ceiling(given: object, ceiling: Context, offered: Collection[str]) -> Context:
    """A client's settings under the operator's ceiling; raises SettingsError beyond it.

    Settings that the client leaves out are brought under the ceiling without a word. `offered`: the
    models that a client may name beside those of the ceiling.
    """
    wanted = given if isinstance(given, Context) else Context.model_validate(given or {})
    names = {*offered, *_list_models(ceiling)}
    taken = {name: _limit_setting(name, wanted, ceiling, names) for name in Context.model_fields}
    return wanted.model_copy(update=taken)


def _limit_setting(
    name: str, wanted: Context, ceiling: Context, offered: Collection[str]
) -> object:
    said, most = getattr(wanted, name), getattr(ceiling, name)
    if name == SHARED:
        return _merge_shared(said, most)
    if said == getattr(DEFAULTS, name):
        return said if _is_within(name, said, most) and not _is_own(name) else most
    if name in MODELS:
        _check_models(name, said, offered)
    elif name not in FREE and not _is_within(name, said, most):
        msg = (
            f"The run's context is wrong: {name}={_show_value(said)} is beyond what a client of"
            f" this server may set ({_show_value(most)}): leave it out; its operator can raise it"
            f" in {VARIABLE}."
        )
        raise SettingsError(msg)
    return said


def _merge_shared(said: Mapping[str, Any], most: Mapping[str, Any]) -> dict[str, Any]:
    """The operator's data for tools, and what a client adds to it."""
    taken = sorted(key for key in said if key in most and said[key] != most[key])
    both = {**said, **most}
    if taken:
        why = f"{', '.join(map(_show_value, taken))} is set by the server's operator: leave it out"
    else:
        why = explain_unfit_context(both)
    if why:
        msg = f"The run's context is wrong: {SHARED}: {why}."
        raise SettingsError(msg)
    return both


def _is_own(name: str) -> bool:
    """Whether a setting has no more and no less: where a client leaves it out, the operator's."""
    return not (name in STRICTEST_FIRST or _is_number(getattr(DEFAULTS, name), name))


def _is_within(name: str, said: object, most: object) -> bool:
    if name in STRICTEST_FIRST:
        order = STRICTEST_FIRST[name].index
        return order(said) <= order(most)
    if _is_number(said, name) or _is_number(most, name):
        return _as_number(said) <= _as_number(most)
    return said == most


def _is_number(value: object, name: str) -> bool:
    if value is None:
        return name in ENDLESS
    return isinstance(value, int | float) and not isinstance(value, bool)


def _as_number(value: Any) -> float:
    return float("inf") if value is None else float(value)


def _list_models(context: Context) -> set[str]:
    one = {context.model} if context.model else set()
    return {*one, *context.models.values(), *context.fallback_models}


def _check_models(name: str, said: Any, offered: Collection[str]) -> None:
    named = [said] if isinstance(said, str) else [*said.values()] if name == "models" else said
    if unknown := [model for model in named if model not in offered]:
        msg = (
            f"The run's context is wrong: {name} names {', '.join(map(_show_value, unknown))},"
            " which this server does not offer; it offers"
            f" {', '.join(sorted(offered)) or 'none by name'}."
            " Its operator can name more in LOOPWRIGHT_MODELS."
        )
        raise SettingsError(msg)


def _show_value(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:79]}…"


def leave_panel_out(part: Any) -> Any:
    """A state or a chunk in which our component alone puts a question, if the variable says so.

    Agent Chat UI draws its own panel under the last message, unless it does not draw that message.
    """
    if os.environ.get("LOOPWRIGHT_CHAT_PANEL") != "off":
        return part
    match part:
        case StateSnapshot(values=dict(values), interrupts=asked) if _is_shown_by_us(asked, values):
            return part._replace(values=_end_hidden(values))
        case (*around, {"messages": list(), "__interrupt__": asked} as values):
            return (*around, _end_hidden(values)) if _is_shown_by_us(asked, values) else part
        case {"messages": list(), "__interrupt__": asked} if _is_shown_by_us(asked, part):
            return _end_hidden(part)
    return part


def _is_shown_by_us(asked: Sequence[Any], state: Mapping[str, Any]) -> bool:
    """Whether a component of ours puts each question; `interrupt()` of a tool has none.

    A server's own saver reads a question back as the mapping of its fields.
    """
    parts = [one["props"] for one in state.get("ui", ()) if one["name"] == "approval"]
    values = [one["value"] if isinstance(one, Mapping) else one.value for one in asked]
    return 0 < len(asked) <= sum(not one.get("answered") for one in parts) and all(
        isinstance(one, Mapping) and "action_requests" in one for one in values
    )


def _end_hidden(values: dict[str, Any]) -> dict[str, Any]:
    last = AIMessage("", id=f"{PLACEHOLDER}panel")
    return {**values, "messages": [*values.get("messages", ()), last]}

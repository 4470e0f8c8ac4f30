"""How every user turn begins: what is reset, what goes on, and what hooks say of the request."""

import hashlib
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import MISSING, fields, replace
from itertools import takewhile
from typing import Any, Final, TypeVar

from langchain_core.messages import AnyMessage, RemoveMessage
from langgraph.types import Overwrite

from ..hooks.contract import NOTHING
from ..state.loop import FOLDED, LoopState, LoopUpdate
from ..state.messages import request_place
from ..state.migrations import SCHEMA_VERSION
from .scope import RunScope

S = TypeVar("S", bound=LoopState)

Adopt = Callable[[RunScope, S], Awaitable[Any]]
"""What a graph carries on from the turn before, as an update over its defaults: what was done for
the same request, or what a turn had done that was cut off, and answers to calls that have none."""

# Begins the request id of a turn whose prompt a hook dropped; the newest prompt that is left
# follows it, which must not be taken for a request that is still to be done.
DROPPED: Final = "dropped "
EMPTY_REQUEST: Final = "The request is empty."
NOTHING_NEW: Final = "The last message was dropped by a hook; send another one."


async def begin_turn(scope: RunScope, state: S, adopt: Adopt[S], *, asks: bool) -> Any:
    """Reset what counts per turn, take up what goes on, and let hooks speak of the request.

    Args:
        scope: The run, and the turn before.
        state: As the turn before left it.
        adopt: What is carried on.
        asks: Whether something is asked; where nothing is, the turn ends before it begins.

    Returns:
        The update. With a `halt` in it the turn ends at once.
    """
    fresh = fresh_turn(state)
    if nothing_new(state):
        return fresh | _halted("DENIED", NOTHING_NEW)
    if not state.turn and scope.thread:
        await _look_back(scope)
    adopted: dict[str, Any] = await adopt(scope, state)
    if not asks:
        return fresh | adopted | _halted("MISSING_INFORMATION", EMPTY_REQUEST)
    scope.journal.own_turn(scope.thread, fresh["turn_id"])
    verdict = NOTHING
    if "BeforeAgent" in scope.hooks.events:
        request = with_request(state).request
        verdict = await scope.hooks.fire("BeforeAgent", emit=scope.emit, prompt=request)
    if verdict.blocked:  # the prompt goes, and what was adopted for it
        messages = adopted.get("messages", [])
        return fresh | _halted("DENIED", verdict.reason) | _dropped(scope, state, messages)
    context = [text for text in (scope.session.context, verdict.context) if text]
    update = fresh | adopted | {"hook_context": context, "warnings": _warnings(scope)}
    return update if verdict.stop is None else update | _halted("DENIED", verdict.stop)


async def _look_back(scope: RunScope) -> None:
    """Release the writes of turns that the state knows nothing of.

    A graph inside another begins each turn so, and so does a fork from before the first one. What
    may have been made is in doubt still; what was made matches nothing any more.
    """
    await scope.journal.release(
        scope.thread, turn=scope.turn, place=scope.place, ended=True, fence=scope.fence,
        keeps=lambda _: False,
    )  # fmt: skip


def _halted(reason: str, why: str) -> dict[str, Any]:
    return {"halt": reason, "unmet": [why], "should_continue": False}


def _warnings(scope: RunScope) -> Overwrite:
    return Overwrite(list(dict.fromkeys([*scope.session.warnings, *scope.notes])))


def _dropped(scope: RunScope, state: LoopState, messages: Sequence[Any]) -> dict[str, Any]:
    """A hook does not let the prompt be kept: it is removed, and the one before it stays done."""
    newest = newest_prompt(state.messages, state.request_message)
    kept = [message for message in state.messages if message is not newest]
    before = newest_prompt(kept, state.request_message)
    return {
        "messages": [*messages, *([RemoveMessage(id=str(newest.id))] if newest else [])],
        "request_id": f"{DROPPED}{request_name(kept, state.request_message)}",
        "request_message": str(before.id) if before else "",
        "warnings": _warnings(scope),
    }


def fresh_turn(state: LoopState) -> dict[str, Any]:
    """What begins anew with a user turn: its names and counts, and every field that lasts one.

    Args:
        state: As the turn before left it; where there is nothing new its request stays dropped.
    """
    turn = state.turn + 1
    update = LoopUpdate(
        schema_version=SCHEMA_VERSION, turn=turn, turn_id=f"{turn}-{uuid.uuid4().hex[:12]}"
    )
    if not nothing_new(state):
        update["request_message"] = with_request(state).request_message
        update["request_id"] = request_name(state.messages, state.request_message)
        update["allowance"] = state.allowance + 1 if same_request(state) else 1
    return {**_defaults(state), **update}


def _defaults(state: LoopState) -> dict[str, Any]:
    """The fields that last one turn, as they are at its start."""
    update: dict[str, Any] = {}
    for field in fields(state):
        if field.name in state.per_turn:
            made = field.default_factory
            value = field.default if made is MISSING else made()
            update[field.name] = Overwrite(value) if field.name in FOLDED else value
    return update


def newest_prompt(messages: Sequence[AnyMessage], request: str = "") -> AnyMessage | None:
    """The message that holds the request of a turn that begins.

    The newest human message that came since the graph spoke last; where none came, the request
    stays: human messages that nodes added on the way are no requests.

    Args:
        messages: The thread's.
        request: Id of the message that held the request before.
    """
    came = list(takewhile(lambda m: "agent_type" not in m.additional_kwargs, reversed(messages)))
    newest: AnyMessage | None = next((m for m in came if m.type == "human"), None)
    if newest is None and (place := request_place(messages, request)) >= 0:
        newest = messages[place]
    return newest


def request_name(messages: Sequence[AnyMessage], request: str = "") -> str:
    """The request of a turn that begins, by its id and its words: clients may reuse an id."""
    newest = newest_prompt(messages, request)
    if newest is None:
        return ""
    words = hashlib.sha256(newest.text.encode("utf-8", "replace")).hexdigest()[:8]
    return f"{newest.id}-{words}"


def with_request(state: S) -> S:
    """The state of a turn that begins, as it is once its request is noted."""
    newest = newest_prompt(state.messages, state.request_message)
    return replace(state, request_message=str(newest.id) if newest else "")


def same_request(state: LoopState) -> bool:
    """Whether a turn that begins takes up the request of the one before."""
    request = request_name(state.messages, state.request_message)
    return bool(request) and request == state.request_id


def nothing_new(state: LoopState) -> bool:
    """Whether a hook dropped the newest prompt, and none has come since."""
    return state.request_id == f"{DROPPED}{request_name(state.messages, state.request_message)}"

"""What every user turn begins and ends with, in whatever graph."""

import hashlib
import uuid
from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any, Final, TypeVar

from langchain_core.messages import AnyMessage
from langgraph.types import Overwrite

from ..state.loop import LoopState, LoopUpdate
from ..state.messages import request_place
from ..state.migrations import SCHEMA_VERSION
from .scope import RunScope

S = TypeVar("S", bound=LoopState)

# Begins the request id of a turn whose prompt a hook dropped; the newest prompt that is left
# follows it, which must not be taken for a request that is still to be done.
DROPPED: Final = "dropped "
EMPTY_REQUEST: Final = "The request is empty."
NOTHING_NEW: Final = "The last message was dropped by a hook; send another one."


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


def turn_name(turn: int) -> str:
    """A name for a user turn that no other turn has, on whatever thread."""
    return f"{turn}-{uuid.uuid4().hex[:12]}"


def same_request(state: LoopState) -> bool:
    """Whether a turn that begins takes up the request of the one before."""
    request = request_name(state.messages, state.request_message)
    return bool(request) and request == state.request_id


def nothing_new(state: LoopState) -> bool:
    """Whether a hook dropped the newest prompt, and none has come since."""
    return state.request_id == f"{DROPPED}{request_name(state.messages, state.request_message)}"


def fresh_turn(state: LoopState) -> LoopUpdate:
    """What begins anew with a user turn, in whatever graph.

    Args:
        state: As the turn before left it; where there is nothing new its request stays dropped.
    """
    turn = state.turn + 1
    update = LoopUpdate(
        schema_version=SCHEMA_VERSION,
        turn=turn,
        turn_id=turn_name(turn),
        outcome=None,
        task_completed=False,
        should_continue=True,
        improvements=[],
        halt=None,
        spend=Overwrite({}),
        warnings=Overwrite([]),
        hook_context=[],
        stop_hook_active=False,
    )
    if not nothing_new(state):
        update["request_message"] = with_request(state).request_message
        update["request_id"] = request_name(state.messages, state.request_message)
        update["allowance"] = state.allowance + 1 if same_request(state) else 1
    return update


def how_to_resume(scope: RunScope, request_id: str, kept: str) -> dict[str, Any] | None:
    """What an outcome says about going on; nothing where the prompt itself is gone.

    Args:
        scope: The run.
        request_id: The turn's, as the state holds it.
        kept: What a resume does not do again, in words.
    """
    if request_id.startswith(DROPPED):
        return None
    if not scope.saved:
        how = "This run was not saved; give the graph a checkpointer to be able to resume."
        return {"thread_id": scope.thread, "how": how}
    return {
        "thread_id": scope.thread,
        "how": "Invoke the graph with input None on this thread, or run `loopwright resume`: "
        f"{kept}, the allowance starts afresh.",
    }

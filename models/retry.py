"""A model call that may fail: deadline, retries with jitter, `Retry-After`, fallback.

Backoff is exponential with full jitter (Brooker, "Exponential Backoff and Jitter", AWS 2015).
"""

import asyncio
import contextlib
import random
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from email.utils import parsedate_to_datetime
from typing import Final, TypeVar
from weakref import WeakKeyDictionary

from langchain_core.exceptions import ModelError
from langgraph.errors import GraphBubbleUp

from ..state.context import Context
from ..state.errors import LoopwrightError, ModelCallFailed
from ..state.session import Emit
from .choice import Chosen
from .structured import status_of

T = TypeVar("T")

_FIRST_DELAY: Final = 0.5
_LONGEST_DELAY: Final = 30.0
# A server that wants more patience than this is treated as gone: the thread waits, not the process.
_LONGEST_RETRY_AFTER: Final = 120.0
_RETRYABLE_STATUSES: Final = frozenset({408, 409, 425, 429, *range(500, 600)})
# httpx's and its forks' transport errors have no common base that could be imported here.
_TRANSPORT_ERRORS: Final = frozenset({"TransportError", "APIConnectionError", "ServiceUnavailable"})
_OTHER_LOOP: Final = re.compile(r"event loop is closed|different (?:event )?loop", re.IGNORECASE)
_MOST_STALE: Final = 32
# Interrupts, our own errors and a test script that ran out are no failures of a model.
_PASSED_ON: Final = (GraphBubbleUp, LoopwrightError, AssertionError)

_gates: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[int, asyncio.Semaphore]] = (
    WeakKeyDictionary()
)


class DeadlinePassed(TimeoutError):
    """The model did not answer within the deadline; asking it again would hang as long."""


async def call_with_retries(
    chosen: Chosen,
    role: str,
    call: Callable[[Chosen], Awaitable[T]],
    *,
    context: Context,
    emit: Emit,
) -> tuple[T, Chosen]:
    """Make a model call, again where that may help, then with each fallback.

    Args:
        chosen: The model and its fallbacks.
        role: Who asks, for events and errors.
        call: Makes one attempt with the model it is given.
        context: Deadline, retries and how many calls may run at once.
        emit: Takes a `retry` event before each wait, a `fallback` event before each other model.

    Returns:
        What the call gave, and the model that gave it.

    Raises:
        ModelCallFailed: If no model answered. The thread can be resumed.
    """
    try:
        return await _persist(chosen, role, call, context, emit), chosen
    except _PASSED_ON:
        raise
    except Exception as error:
        # Providers' errors share no base class; whatever it is, the next model may do better.
        if not chosen.fallbacks:
            raise ModelCallFailed(_sentence(role, chosen, error)) from error
        following = replace(chosen.fallbacks[0], fallbacks=chosen.fallbacks[1:])
        emit(
            {"type": "fallback", "role": role, "model": chosen.name}
            | {"to": following.name, "error": describe(error)}
        )
    return await call_with_retries(following, role, call, context=context, emit=emit)


async def _persist(
    chosen: Chosen,
    role: str,
    call: Callable[[Chosen], Awaitable[T]],
    context: Context,
    emit: Emit,
) -> T:
    attempt = 0
    while True:
        attempt += 1
        try:
            return await _within_deadline(chosen, call, context)
        except _PASSED_ON:
            raise
        except Exception as error:
            delay = _delay(error, attempt)
            if delay is None or attempt > context.model_retries:
                raise
            emit(
                {"type": "retry", "role": role, "model": chosen.name, "attempt": attempt}
                | {"delay": round(delay, 2), "error": describe(error)}
            )
        await asyncio.sleep(delay)


async def _within_deadline(
    chosen: Chosen, call: Callable[[Chosen], Awaitable[T]], context: Context
) -> T:
    async with _gate(context.max_parallel_models):
        try:
            async with asyncio.timeout(context.model_deadline) as deadline:
                return await _past_stale_connections(chosen, call)
        except TimeoutError as error:
            if not deadline.expired():
                raise
            msg = f"no answer within {context.model_deadline:g} s"
            raise DeadlinePassed(msg) from error


async def _past_stale_connections(chosen: Chosen, call: Callable[[Chosen], Awaitable[T]]) -> T:
    """Call again at once where a client's pool gave a connection of another, closed event loop.

    No answer can come over such a connection, and each failure takes one out of the pool.
    """
    for _ in range(_MOST_STALE):
        try:
            return await call(chosen)
        except RuntimeError as error:
            if not _OTHER_LOOP.search(str(error)):
                raise
    return await call(chosen)


def _gate(size: int) -> asyncio.Semaphore:
    gates = _gates.setdefault(asyncio.get_running_loop(), {})
    return gates.setdefault(size, asyncio.Semaphore(size))


def _delay(error: Exception, attempt: int) -> float | None:
    """Seconds to wait before the next attempt; None where another one is of no use."""
    if not is_retryable(error):
        return None
    asked = retry_after(error)
    if asked is not None:
        return asked if asked <= _LONGEST_RETRY_AFTER else None
    longest = min(_LONGEST_DELAY, _FIRST_DELAY * 2**attempt)
    return random.uniform(0, longest)


def is_retryable(error: BaseException) -> bool:
    """Say whether the same call may succeed a moment later."""
    if isinstance(error, DeadlinePassed):
        return False
    if isinstance(error, ModelError):
        return error.is_retryable
    if isinstance(error, TimeoutError | ConnectionError):
        return True
    if any(kind.__name__ in _TRANSPORT_ERRORS for kind in type(error).__mro__):
        return True
    return status_of(error) in _RETRYABLE_STATUSES


def retry_after(error: BaseException) -> float | None:
    """Seconds the provider asks to wait (`Retry-After` as number or date); None if it does not."""
    headers = getattr(getattr(error, "response", None), "headers", None) or {}
    given, unit = headers.get("retry-after-ms"), 0.001
    if not given:
        given, unit = headers.get("retry-after"), 1.0
    if not given:
        return None
    with contextlib.suppress(ValueError):
        return max(0.0, float(given) * unit)
    try:
        return max(0.0, parsedate_to_datetime(given).timestamp() - time.time())
    except ValueError:
        return None


def describe(error: BaseException) -> str:
    """An error in one short line, with its type."""
    text = " ".join(str(error).split())[:300]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _sentence(role: str, chosen: Chosen, error: Exception) -> str:
    advice = "resume the thread when it is reachable again"
    if status_of(error) in (400, 401, 403, 404, 413, 422):
        advice = "mend that, then resume the thread"
    return f"The {role}'s model {chosen.name} did not answer ({describe(error)}); {advice}."

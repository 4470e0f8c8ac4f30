"""Ask as long as the run goes on, within the deadline, a few at once, again, then another model."""

import asyncio
from dataclasses import replace
from itertools import count
from math import inf
from typing import Final
from weakref import WeakKeyDictionary

from langgraph.errors import GraphBubbleUp, GraphDrained

from ..state.errors import LoopwrightError, ModelCallFailed
from ..store.locks.control import InnerControl, cut_with_run, is_ending, keep_cut
from . import refusals
from .request import Asker, Call, NotAsked, Reply, Request, RequestTooLong

PASSED_ON: Final = (GraphBubbleUp, LoopwrightError, AssertionError, NotAsked)
"""Interrupts, our own errors and a test script that ran out are no failures of a model."""
_MOST_AT_ONCE: Final = 32
"""Tries without a pause, each without something that the model refused."""

_slots: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[int, asyncio.Semaphore]] = (
    WeakKeyDictionary()
)


async def cut_at_end(asker: Asker, inner: Call, request: Request) -> Reply:
    """Ask, and cut the call where the run ends meanwhile: its connection is closed.

    Raises:
        NotAsked: The time is used up, or the graph itself ends a turn that is stopped.
        GraphDrained: The run rests.
    """
    scope, control = asker.scope, asker.scope.run.control
    left = scope.budget.seconds_left  # none: it is the last turn
    until = asyncio.get_running_loop().time() + left if left > 0 else inf
    try:
        async with cut_with_run(control, until) as timeout:
            return await inner(request)
    except TimeoutError:
        if not timeout.expired():
            raise
    if control is None or not is_ending(control):
        raise NotAsked(by="seconds")
    if isinstance(control, InnerControl) and scope.run.stopped():
        raise NotAsked(by="stop")
    keep_cut(control, scope.add_seconds(asker.spend))
    raise GraphDrained(control.drain_reason or "shutdown")


async def try_fallbacks(asker: Asker, inner: Call, request: Request) -> Reply:
    """Ask the model, then each of its fallbacks, until one answers.

    Raises:
        ModelCallFailed: The last one did not answer either.
    """
    for spare in request.chosen.fallbacks:
        try:
            return await inner(request)
        except ModelCallFailed as failed:
            name, error = request.chosen.name, failed.__cause__ or failed
            # The type of the error alone: its words may hold what must not be saved.
            asker.scope.notes.append(
                f"The {asker.role}'s model {name} did not answer ({type(error).__name__}); "
                f"{spare.name} was asked instead."
            )
            asker.report({"type": "fallback", "to": spare.name}, request.chosen, error)
            request = replace(request, chosen=spare)
    return await inner(request)


async def retry_call(asker: Asker, inner: Call, request: Request) -> Reply:
    """Ask again if the failure may pass.

    Raises:
        ModelCallFailed: Another try is of no use, or there were enough.
    """
    quirks = request.chosen.quirks
    took_tools = quirks.takes_tools
    for attempt in count(1):
        try:
            reply = await _call_without_refused(asker, inner, request)
        except PASSED_ON:
            raise
        except Exception as error:  # noqa: BLE001 - providers' errors share no base class
            await _pause(asker, request, attempt, error)
        else:
            break
    if took_tools and not quirks.takes_tools:
        text = f"The model {request.chosen.name} takes no tools: it answers without them."
        asker.scope.emit({"type": "warning", "text": text})
    return reply


async def _pause(asker: Asker, request: Request, attempt: int, error: Exception) -> None:
    """Wait before the next try; raise if there is none."""
    if asker.scope.run.stopped():  # who stops a turn wants neither another try nor an error
        msg = "stop"
        raise GraphDrained(msg) from error
    more = attempt <= asker.scope.context.model_retries
    delay = refusals.delay_before(attempt, error) if more else None
    if delay is None:
        failed = RequestTooLong if refusals.is_too_long(error) else ModelCallFailed
        name, messages = request.chosen.name, request.messages
        raise failed(refusals.explain_failure(asker.role, name, error, messages)) from error
    event = {"type": "retry", "attempt": attempt, "delay": round(delay, 2)}
    asker.report(event, request.chosen, error)
    await asyncio.sleep(delay)


async def _call_without_refused(asker: Asker, inner: Call, request: Request) -> Reply:
    """Ask without what the model refuses, again at once if it turns out to refuse more."""
    quirks, asked = request.chosen.quirks, request
    for left in reversed(range(_MOST_AT_ONCE)):
        if quirks.spells_out and not request.tools:
            asked = replace(request, messages=refusals.spell_out_calls(request.messages))
        known = replace(quirks, dropped=set(quirks.dropped))
        try:
            return await _call_with_deadline(asker, inner, asked)
        except PASSED_ON:
            raise
        except Exception as error:
            # A parallel call may have learned the same in the meantime.
            learned = known != quirks or quirks.learn(
                error, asker.sent or request.chosen.model, asked.messages,
                tools=bool(request.tools), contract=bool(request.contract),
                may_call=request.may_call,
            )  # fmt: skip
            if not left or not (learned or refusals.is_stale(error)):
                raise
    raise AssertionError  # the last try has returned or raised


async def _call_with_deadline(asker: Asker, inner: Call, request: Request) -> Reply:
    """Wait for a slot, then for the answer."""
    context = asker.scope.context
    slots = _slots.setdefault(asyncio.get_running_loop(), {})
    most = context.max_parallel_models
    async with slots.setdefault(most, asyncio.Semaphore(most)):
        try:
            async with asyncio.timeout(context.model_deadline) as deadline:
                return await inner(request)
        except TimeoutError as error:
            if not deadline.expired():
                raise
            msg = f"no answer within {context.model_deadline:g} s"
            raise refusals.DeadlinePassed(msg) from error

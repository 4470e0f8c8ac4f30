"""The one path by which a model is asked: budget, retries, structure, repair, spend.

Backoff is exponential with full jitter (Brooker, "Exponential Backoff and Jitter", AWS 2015).
"""

import asyncio
import contextlib
import random
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from typing import Any, Final, Generic, Literal, TypeVar
from weakref import WeakKeyDictionary

from langchain_core.exceptions import ModelError
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.errors import GraphBubbleUp

from ..state.contracts import Contract
from ..state.errors import LoopwrightError, ModelCallFailed
from ..state.outcome import Spend, add_spend, model_spend
from ..state.told import say
from ..turn.budget import Limit, tokens_of
from ..turn.scope import RunScope
from .choice import Chosen, Models
from .model_hooks import Request, after_model, as_configured, before_model, restrained
from .reading import Reading, read_answer
from .structured import ask_once, status_of

C = TypeVar("C", bound=Contract)

MAX_ASKS: Final = 3
_LONGEST_QUOTE: Final = 6_000
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


@dataclass(frozen=True)
class Answer(Generic[C]):
    """What came of asking a model."""

    message: AIMessage
    """The last message, without calls of the contract itself."""
    parsed: C | None = None
    """The contract; None with tool calls, without a contract, or after three bad answers."""
    problems: list[str] = field(default_factory=list)
    """Why the answer is of no use; empty where it is fine."""
    model: str = ""
    """Name of the model that answered."""
    asks: int = 0
    """How often it was asked; a hook's own answer costs no ask."""
    spend: Spend = field(default_factory=Spend)
    """What all asks of this call used."""
    complete: bool = True
    """False where the message was cut or filtered: its tool calls must not run."""
    refused: Limit | Literal["hook"] | None = None
    """What kept it from being asked, or its answer from being used: a limit, or a hook."""


async def ask(
    scope: RunScope,
    models: Models,
    role: str,
    messages: Sequence[BaseMessage],
    *,
    tools: Sequence[dict[str, Any]] = (),
    contract: type[C] | None = None,
    check: Callable[[C], list[str]] | None = None,
    read: Callable[[AIMessage], Reading[C]] | None = None,
    most_asks: int = MAX_ASKS,
    bump: int = 0,
) -> Answer[C]:
    """Ask the model of a role, again with the problems named where its answer is malformed.

    Every ask is reserved in the run's budget and added to it. Hooks may change each request,
    answer in the model's place, or refuse. Events: retry, fallback, budget, warning, hook, model.
    What went wrong without spoiling the answer, as where another model had to be asked, is added
    to the scope's notes.

    Args:
        scope: The run.
        models: Where models come from.
        role: Who asks.
        messages: The conversation.
        tools: Tools the model may call, in OpenAI's format. Real calls win over a contract.
        contract: What the answer must be.
        check: Names problems of a valid contract, which are fed back like malformed answers.
        read: Reads an answer that is no contract; its problems are fed back likewise.
        most_asks: How often a malformed answer is asked for.
        bump: How many tiers stronger than usual.

    Returns:
        The answer. A bad one is described in `problems`, never raised.

    Raises:
        ModelUnavailable: If the model cannot be built.
        ModelCallFailed: If no model could be reached.
    """
    chosen = models.at_hand(role, scope.context, bump=bump)
    if chosen is None:  # clients read certificates and configuration files when they are built
        chosen = await asyncio.to_thread(models.choose, role, scope.context, bump=bump)
    caller = _Caller(scope, models, role, chosen, tools, contract)
    answer: Answer[C] = Answer(AIMessage(""), model=chosen.name)
    extra: list[BaseMessage] = []
    for _ in range(most_asks):
        turn = await caller.turn([*messages, *extra])
        if turn.refused:
            answer = _refused(answer, turn)
            break
        message, offered = turn.message, turn.request.tools
        reading = (
            read(message)
            if read
            else read_answer(message, contract, check, with_tools=bool(offered))
        )
        if scope.hooks.events:
            reading = restrained(reading, turn.request)
        answer = _answer(reading, turn, answer)
        if not answer.problems:
            break
        extra = _repair(reading, contract)
    caller.report(answer)
    return answer


@dataclass(frozen=True)
class _Turn:
    """One ask: what was sent, by whom it was answered, or why it was not."""

    request: Request
    answered: Chosen
    spend: Spend = field(default_factory=Spend)
    asks: int = 0
    refused: Limit | Literal["hook"] | None = None

    @property
    def message(self) -> AIMessage:
        """The answer."""
        return self.request.answer or AIMessage("")


@dataclass(frozen=True)
class _Caller:
    """Makes the provider calls of one `ask` and tells what they used."""

    scope: RunScope
    models: Models
    role: str
    chosen: Chosen
    tools: Sequence[dict[str, Any]]
    contract: type[Contract] | None

    async def turn(self, messages: list[BaseMessage]) -> _Turn:
        """Ask once, with the hooks around it."""
        request, hooks = Request(messages, self.tools), self.scope.hooks
        if hooks.events:
            request = await before_model(hooks, request, self.chosen, self.scope.emit)
        if request.refused:
            return _Turn(request, self.chosen, refused="hook")
        if request.answer is not None:
            return _Turn(request, self.chosen)
        if not self.scope.budget.reserve_model_call():
            spent = self.scope.budget.exhausted or "model_calls"
            return _Turn(request, self.chosen, refused=spent)
        message, answered, spend = await self.call(await self._wanted(request), request)
        if hooks.events:
            request = await after_model(hooks, request, answered, message, self.scope.emit)
        else:
            request = replace(request, answer=message)
        return _Turn(request, answered, spend, 1, "hook" if request.refused else None)

    async def _wanted(self, request: Request) -> Chosen:
        """The model that hooks left in place, or the one they want."""
        chosen = self.chosen
        if request.model not in ("", chosen.name):
            chosen = await asyncio.to_thread(self.models.named, request.model, chosen.tier)
        return as_configured(chosen, request.settings) if request.settings else chosen

    async def call(self, wanted: Chosen, request: Request) -> tuple[AIMessage, Chosen, Spend]:
        """Ask a model, again where that may help, then each of its fallbacks."""
        chain = (wanted, *wanted.fallbacks)
        for place, chosen in enumerate(chain, 1):
            try:
                message = await self._persist(chosen, request)
            except _PASSED_ON:
                raise
            except Exception as error:
                # Providers' errors share no base class; whatever it is, the next model may do
                # better.
                if place == len(chain):
                    self._add(model_spend(self.role, wanted.name, 0, 0))
                    raise ModelCallFailed(_sentence(self.role, chosen, error)) from error
                self._fall_back(chosen, chain[place], error)
            else:
                break
        spend = model_spend(self.role, chosen.name, *tokens_of(request.messages, message))
        self._add(spend)
        return message, chosen, spend

    async def _persist(self, chosen: Chosen, request: Request) -> AIMessage:
        """Ask one model until it answers, or it is of no use to ask it again."""
        attempt = 0
        while True:
            attempt += 1
            try:
                return await self._within_deadline(chosen, request)
            except _PASSED_ON:
                raise
            except Exception as error:
                delay = _delay(error, attempt)
                if delay is None or attempt > self.scope.context.model_retries:
                    raise
                self.scope.emit(
                    {"type": "retry", "role": self.role, "model": chosen.name, "attempt": attempt}
                    | {"delay": round(delay, 2), "error": describe(error)}
                )
            await asyncio.sleep(delay)

    async def _within_deadline(self, chosen: Chosen, request: Request) -> AIMessage:
        context = self.scope.context
        async with _gate(context.max_parallel_models):
            try:
                async with asyncio.timeout(context.model_deadline) as deadline:
                    return await self._past_stale_connections(chosen, request)
            except TimeoutError as error:
                if not deadline.expired():
                    raise
                msg = f"no answer within {context.model_deadline:g} s"
                raise DeadlinePassed(msg) from error

    async def _past_stale_connections(self, chosen: Chosen, request: Request) -> AIMessage:
        """Ask again at once where a client's pool gave a connection of another, closed event loop.

        No answer can come over such a connection, and each failure takes one out of the pool.
        """
        for _ in range(_MOST_STALE):
            try:
                return await self._once(chosen, request)
            except RuntimeError as error:
                if not _OTHER_LOOP.search(str(error)):
                    raise
        return await self._once(chosen, request)

    async def _once(self, chosen: Chosen, request: Request) -> AIMessage:
        took_tools = chosen.quirks.takes_tools
        message = await ask_once(
            chosen.model, chosen.quirks, request.messages,
            role=self.role, tools=request.tools, contract=self.contract,
        )  # fmt: skip
        if took_tools and not chosen.quirks.takes_tools:
            text = f"The model {chosen.name} takes no tools: it answers without them."
            self.scope.emit({"type": "warning", "text": text})
        return message

    def _fall_back(self, chosen: Chosen, following: Chosen, error: Exception) -> None:
        """Tell of the next model that is asked; the user should still know of it after the run."""
        # The type of the error alone: its words may hold what must not be saved.
        self.scope.notes.append(
            f"The {self.role}'s model {chosen.name} did not answer ({type(error).__name__}); "
            f"{following.name} was asked instead."
        )
        self.scope.emit(
            {"type": "fallback", "role": self.role, "model": chosen.name}
            | {"to": following.name, "error": describe(error)}
        )

    def _add(self, spend: Spend) -> None:
        self.scope.budget.add(spend)
        for warning in self.scope.budget.near():
            self.scope.emit(dict(warning))

    def report(self, answer: Answer[Any]) -> None:
        self.scope.emit(
            {"type": "model", "role": self.role, "model": answer.model, "asks": answer.asks}
            | {key: answer.spend.get(key, 0) for key in ("input_tokens", "output_tokens")}
        )


def _answer(reading: Reading[C], turn: _Turn, before: Answer[C]) -> Answer[C]:
    return Answer(
        message=reading.message,
        parsed=reading.parsed,
        problems=reading.problems,
        model=turn.answered.name,
        asks=before.asks + turn.asks,
        spend=add_spend(before.spend, turn.spend),
        complete=reading.complete,
    )


def _refused(answer: Answer[C], turn: _Turn) -> Answer[C]:
    """The answer where no (further) ask is allowed, or a hook keeps what came of it."""
    if turn.refused == "hook":
        problem = say("hook_refused", why=turn.request.refused)
    else:
        problem = say("no_call_left", limit=turn.refused)
    return replace(
        answer,
        message=AIMessage(""),
        parsed=None,
        problems=[*answer.problems, problem],
        asks=answer.asks + turn.asks,
        spend=add_spend(answer.spend, turn.spend),
        refused=turn.refused,
    )


def _repair(reading: Reading[Any], contract: type[Contract] | None) -> list[BaseMessage]:
    """The malformed answer and what is wrong with it, as the next words of the conversation."""
    quote = reading.text.strip()
    if len(quote) > _LONGEST_QUOTE:
        quote = f"{quote[:_LONGEST_QUOTE]}…"
    problems = "\n".join(f"- {problem}" for problem in reading.problems)
    wanted = reading.wanted or (
        say("wanted_contract", contract=contract.__name__) if contract else say("wanted_text")
    )
    request = say("answer_again", problems=problems, wanted=wanted)
    # Some providers refuse an empty message.
    return [AIMessage(quote or say("no_answer")), HumanMessage(request)]


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
